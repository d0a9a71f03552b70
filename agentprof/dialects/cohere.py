"""Cohere: chat in its first and second version, and embeddings.

Streams of the first version are one JSON object a line, those of the second server-sent events. Usage says what
was billed beside what the model read and wrote, which includes Cohere's own prompt:
https://docs.cohere.com/reference/chat

Writer serves its chat, which is that of OpenAI, on the path of the first version: its requests have `messages` where
Cohere's have `message`.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec

from agentprof.dialects import openai_chat
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._count import FractionalCount
from agentprof.dialects._format import Format, Frames, Told
from agentprof.dialects._json_frames import Lines
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.model import Usage


class Tokens(msgspec.Struct):
    """Counts of tokens; a streamed answer may have them with a fraction of 0."""

    input_tokens: FractionalCount | None = None
    output_tokens: FractionalCount | None = None
    image_tokens: FractionalCount | None = None
    """Beside `input_tokens`."""
    reasoning_tokens: FractionalCount | None = None


class RawUsage(msgspec.Struct):
    """What was used."""

    tokens: Tokens | None = None
    billed_units: Tokens | None = None
    cached_tokens: FractionalCount | None = None


class Message(msgspec.Struct):
    """A message, or what an event adds to it: lists in the one, single objects in the other."""

    content: Any = None
    tool_plan: Any = None
    tool_calls: Any = None


class Delta(msgspec.Struct):
    """What an event adds."""

    message: Message | None = None
    finish_reason: str | None = None
    usage: RawUsage | None = None
    error: Any = None


class Body(msgspec.Struct):
    """A whole answer of the second version, or an event of its stream."""

    id: str | None = None
    type: str | None = None
    index: int | None = None
    message: Message | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    usage: RawUsage | None = None
    meta: RawUsage | None = None


class BodyV1(msgspec.Struct):
    """A whole answer of the first version, or an object of its stream."""

    event_type: str | None = None
    generation_id: str | None = None
    text: Any = None
    tool_calls: Any = None
    finish_reason: str | None = None
    meta: RawUsage | None = None
    response: msgspec.Raw = msgspec.Raw()
    """At the end of a stream, the whole answer."""


_read_body = Tolerant(Body)
_read_v1 = Tolerant(BodyV1)
_OF_WRITER = Told(None, stream=False, dialect=openai_chat.Chat())


class Chat(Format):
    """Chat, second version."""

    name = "cohere.chat"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/v2/chat",)
    request_fields: tuple[str, ...] = ("messages",)
    sections: tuple[tuple[str, str], ...] = (("tools", "tools"), ("documents", "tool_results"))
    conversation = "messages"
    needs_model = True

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        answer.response_id = read.id
        _note_end(read.finish_reason, read.usage or read.meta, answer)
        if read.message is not None:
            _note_tools(read.message.tool_calls, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return lambda data: _note_event(data, answer)


class ChatV1(Chat):
    """Chat, first version."""

    name = "cohere.chat_v1"
    endpoints: tuple[str, ...] = ("/v1/chat",)
    request_fields: tuple[str, ...] = ("message", "messages")
    sections: tuple[tuple[str, str], ...] = (
        ("preamble", "system"),
        ("tools", "tools"),
        ("tool_results", "tool_results"),
        ("documents", "tool_results"),
        ("message", "user"),
    )
    conversation = "chat_history"

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """Whether it is a chat of Writer."""
        return None if "message" in names else _OF_WRITER

    def frames(self, start: bytes) -> Frames | None:
        """Lines."""
        return Lines() if start.startswith(b"{") else None

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        _note_v1(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return lambda data: _note_v1(data, answer)


class Embed(Chat):
    """Embeddings."""

    name = "cohere.embed"
    operation = "embeddings"
    endpoints: tuple[str, ...] = ("/v2/embed", "/v1/embed")
    request_fields: tuple[str, ...] = ("texts", "images", "inputs")
    sections: tuple[tuple[str, str], ...] = (("texts", "user"), ("images", "user"), ("inputs", "user"))
    conversation = ""


def _note_event(data: bytes, answer: Answer) -> int:
    event = _read_body(data)
    if event is None:
        return NOTHING
    if event.id:
        answer.response_id = event.id
    delta = event.delta
    if delta is None:
        return NOTHING
    _note_end(delta.finish_reason, delta.usage, answer)
    if delta.error:
        answer.error_type = error_type(delta.error)
    message = delta.message
    if message is None:
        return NOTHING
    if message.tool_calls:
        _note_tools(message.tool_calls, answer)
        return CONTENT
    content = message.content
    if isinstance(content, dict):
        if content.get("text"):
            return CONTENT
        if content.get("thinking"):
            return THINKING
    return CONTENT if message.tool_plan else NOTHING


def _note_v1(data: bytes, answer: Answer) -> int:
    read = _read_v1(data)
    if read is None:
        return NOTHING
    answer.response_id = read.generation_id or answer.response_id
    _note_end(read.finish_reason, read.meta, answer)
    if read.event_type == "stream-end":
        if read.response:
            _note_v1(bytes(read.response), answer)
        return NOTHING  # repeats what came
    if read.tool_calls:
        _note_tools(read.tool_calls, answer)
    return CONTENT if read.text or read.tool_calls or read.event_type == "tool-calls-chunk" else NOTHING


def _note_tools(calls: Any, answer: Answer) -> None:
    """Of a whole message, or the one that an event begins; later pieces have no name."""
    for call in calls if isinstance(calls, list) else [calls]:
        if isinstance(call, dict):
            function = call.get("function")
            name = function.get("name") if isinstance(function, dict) else call.get("name")
            if isinstance(name, str) and name:
                id = call.get("id")
                if isinstance(id, str) and id:
                    answer.tool_calls.setdefault(id, name)
                    answer.tool_ids[id] = id
                else:
                    answer.tool_calls.setdefault(len(answer.tool_calls), name)


def _note_end(reason: str | None, usage: RawUsage | None, answer: Answer) -> None:
    if reason:
        answer.finish_reasons[0] = reason
    if usage is None:
        return
    tokens, billed = usage.tokens or usage.billed_units, usage.billed_units
    if tokens is None or (tokens.input_tokens is None and tokens.output_tokens is None):
        return
    answer.usage = Usage(
        input=_sum(tokens.input_tokens, tokens.image_tokens),
        output=_sum(tokens.output_tokens, None),
        cache_read=_sum(usage.cached_tokens, None),
        reasoning=_sum(tokens.reasoning_tokens, None),
        billed_input=_sum(billed.input_tokens, None) if billed is not None else None,
        billed_output=_sum(billed.output_tokens, None) if billed is not None else None,
    )


def _sum(count: float | None, more: float | None) -> int | None:
    """Whole tokens; None where the first is not known."""
    return None if count is None else round(count + (more or 0))
