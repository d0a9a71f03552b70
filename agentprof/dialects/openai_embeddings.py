"""OpenAI embeddings."""

from __future__ import annotations

from typing import Any

from agentprof import engines
from agentprof.dialects._answer import NOTHING, Answer, EventReader
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._openai_usage import RawUsage, read_usage
from agentprof.dialects._tolerant import Tolerant
from agentprof.engines._telling import Telling


class Body(Telling):
    """An answer; the vectors are not looked at."""

    id: str | None = None
    model: str | None = None
    usage: RawUsage | None = None
    error: Any = None


_read_body = Tolerant(Body)


class Embeddings(Format):
    """Embeddings."""

    name = "openai.embeddings"
    operation = "embeddings"
    endpoints: tuple[str, ...] = ("/embeddings",)
    request_fields: tuple[str, ...] = ("input", "prompt")
    sections: tuple[tuple[str, str], ...] = (("input", "user"),)
    conversation = ""
    results_in_messages = False
    text_key = b""
    type_says_all = False
    may_be_binary = False
    usage_if_asked = False

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        answer.response_id = read.id
        answer.model = read.model
        read_usage(read.usage, answer)
        if read.error:
            answer.error_type = error_type(read.error)
        if read.tells:
            engines.read_body(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """Embeddings are not streamed: an event says nothing."""
        return lambda data: NOTHING
