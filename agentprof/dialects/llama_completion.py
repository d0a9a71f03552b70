"""llama.cpp's own completion (tools/server/README.md): text in pieces, counts and times with the last."""

from __future__ import annotations

from typing import Any

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, Answer, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.engines import llama_cpp
from agentprof.model import Usage


class Timings(msgspec.Struct):
    """Of the engine's times only what says how the prompt was read."""

    cache_n: Count | None = None


class Body(msgspec.Struct):
    """A whole answer, or an event."""

    content: str | None = None
    stop: bool | None = None
    stop_type: str | None = None
    model: str | None = None
    tokens_predicted: Count | None = None
    tokens_evaluated: Count | None = None
    """The whole prompt, what was cached of it included."""
    timings: Timings | None = None
    error: Any = None


_read_body = Tolerant(Body)


class Completion(Format):
    """Completion of a text."""

    name = "llama.completion"
    operation = "text_completion"
    endpoints: tuple[str, ...] = ("/completion",)
    request_fields: tuple[str, ...] = ("prompt",)
    sections: tuple[tuple[str, str], ...] = (("prompt", "user"),)
    conversation = ""

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        _note(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return lambda data: _note(data, answer)


def _note(data: bytes, answer: Answer) -> int:
    read = _read_body(data)
    if read is None:
        return NOTHING
    answer.model = read.model or answer.model
    if read.error:
        answer.error_type = error_type(read.error)
    if read.stop:
        answer.whole = True
        if read.stop_type:
            answer.finish_reasons[0] = read.stop_type
        cached = read.timings.cache_n if read.timings is not None else None
        answer.usage = Usage(input=read.tokens_evaluated, output=read.tokens_predicted, cache_read=cached)
        if read.timings is not None and llama_cpp.read(data, answer):
            answer.engine = llama_cpp.NAME
    return CONTENT if read.content else NOTHING
