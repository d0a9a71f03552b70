"""The own endpoints of two engines: `/generate` of SGLang and of TGI, which stand on one path, and TGI's stream.

SGLang repeats the whole text and its counts in every event (https://docs.sglang.ai/basic_usage/native_api.html); TGI
sends a token an event, and details with the last (https://huggingface.github.io/text-generation-inference).
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentprof import engines
from agentprof.dialects._answer import CONTENT, NOTHING, Answer, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.model import Usage


class Finish(msgspec.Struct):
    """Why SGLang stopped."""

    type: str | None = None


class Meta(msgspec.Struct):
    """What SGLang says beside the text."""

    id: str | None = None
    finish_reason: Finish | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None


class Details(msgspec.Struct):
    """What TGI says beside the text, where the request asks for it."""

    finish_reason: str | None = None
    generated_tokens: Count | None = None
    prompt_tokens: Count | None = None
    input_length: Count | None = None


class Token(msgspec.Struct):
    """A token of TGI."""

    text: str | None = None


class Body(msgspec.Struct):
    """A whole answer, or an event."""

    text: str | None = None
    meta_info: Meta | None = None
    generated_text: str | None = None
    details: Details | None = None
    token: Token | None = None
    error: Any = None


_read_body = Tolerant(Body)


class Generate(Format):
    """Completion of a text."""

    name = "native.generate"
    operation = "text_completion"
    endpoints: tuple[str, ...] = ("/generate",)
    request_fields: tuple[str, ...] = ("sampling_params", "inputs")
    sections: tuple[tuple[str, str], ...] = (("text", "user"), ("inputs", "user"))
    conversation = ""

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is not None:
            _note(read, body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        length = 0

        def read_event(data: bytes) -> int:
            nonlocal length
            read = _read_body(data)
            if read is None:
                return NOTHING
            _note(read, data, answer)
            if read.token is not None:
                return CONTENT if read.token.text else NOTHING
            before, length = length, len(read.text or "")
            return CONTENT if length > before else NOTHING

        return read_event


class GenerateStream(Generate):
    """The same of TGI, streamed."""

    name = "native.generate_stream"
    endpoints: tuple[str, ...] = ("/generate_stream",)
    streams_unasked = True


def _note(read: Body, data: bytes, answer: Answer) -> None:
    if read.error:
        answer.error_type = error_type(read.error)
    meta, details = read.meta_info, read.details
    if meta is not None:
        answer.response_id = meta.id
        answer.usage = Usage(
            input=meta.prompt_tokens, output=meta.completion_tokens, cache_read=meta.cached_tokens
        )
        if meta.finish_reason is not None and meta.finish_reason.type:
            answer.finish_reasons[0] = meta.finish_reason.type
            engines.read_body(data, answer)
    if details is not None:
        prompt = details.prompt_tokens if details.prompt_tokens is not None else details.input_length
        answer.usage = Usage(input=prompt, output=details.generated_tokens)
        if details.finish_reason:
            answer.finish_reasons[0] = details.finish_reason
    if read.generated_text is not None:
        answer.whole = True
        answer.engine = "tgi"
