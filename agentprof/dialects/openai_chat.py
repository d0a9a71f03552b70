"""OpenAI chat completions and the older completions, as OpenAI and the many servers that copy it send them."""

from __future__ import annotations

from typing import Any

import msgspec

from agentprof import engines
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._openai_usage import RawUsage, read_usage
from agentprof.dialects._tolerant import Tolerant
from agentprof.engines._telling import Telling


class Named(msgspec.Struct):
    """A function of a tool call."""

    name: str | None = None


class ToolCall(msgspec.Struct):
    """A tool call, or a piece of one in a stream."""

    index: int | None = None
    id: str | None = None
    function: Named | None = None
    custom: Named | None = None


class Message(msgspec.Struct):
    """A whole message; its content is not looked at."""

    tool_calls: list[ToolCall] | None = None
    function_call: Named | None = None
    gen_tokens: msgspec.Raw = msgspec.Raw()


class Choice(msgspec.Struct):
    """A choice of a whole answer."""

    finish_reason: str | None = None
    message: Message | None = None
    matched_stop: msgspec.Raw = msgspec.Raw()
    disaggregated_params: msgspec.Raw = msgspec.Raw()


class Groq(msgspec.Struct):
    """Where Groq puts the usage of a stream."""

    usage: RawUsage | None = None


class Body(Telling):
    """A whole answer."""

    id: str | None = None
    model: str | None = None
    choices: list[Choice] | None = None
    usage: RawUsage | None = None
    service_tier: str | None = None
    error: Any = None


class Delta(msgspec.Struct):
    """What a chunk adds; text may be a string or a list of parts."""

    content: Any = None
    tool_calls: list[ToolCall] | None = None
    function_call: Named | None = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    audio: Any = None


class ChunkChoice(msgspec.Struct):
    """A choice of a chunk."""

    index: int = 0
    delta: Delta | None = None
    text: Any = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """An event of a stream."""

    id: str | None = None
    model: str | None = None
    choices: list[ChunkChoice] | None = None
    usage: RawUsage | None = None
    service_tier: str | None = None
    x_groq: Groq | None = None
    error: Any = None


_read_body = Tolerant(Body)
_read_chunk = Tolerant(Chunk)


class Chat(Format):
    """Chat completions."""

    name = "openai.chat"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/chat/completions", "/agents/completions")
    request_fields: tuple[str, ...] = ("messages",)
    sections: tuple[tuple[str, str], ...] = (("tools", "tools"), ("functions", "tools"))
    conversation = "messages"
    results_in_messages = False
    text_key = b'"content":'
    type_says_all = False
    may_be_binary = False
    usage_if_asked = True

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        answer.response_id = read.id
        answer.model = read.model
        answer.service_tier = read.service_tier
        for position, choice in enumerate(read.choices or ()):
            if choice.finish_reason is not None:
                answer.finish_reasons[position] = choice.finish_reason
            message = choice.message
            if message is not None and (message.tool_calls or message.function_call is not None):
                _note_tools(message.tool_calls, message.function_call, position, answer)
        read_usage(read.usage, answer)
        if read.error:
            answer.error_type = error_type(read.error)
        if _tells_engine(read):
            engines.read_body(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            chunk = _read_chunk(data)
            return NOTHING if chunk is None else _note_chunk(chunk, data, answer)

        return read_event


class Completions(Chat):
    """Completions of a text."""

    name = "openai.completions"
    operation = "text_completion"
    endpoints: tuple[str, ...] = ("/completions",)
    request_fields: tuple[str, ...] = ("prompt",)
    sections: tuple[tuple[str, str], ...] = (("prompt", "user"),)
    conversation = ""
    text_key = b'"text":'


def _note_chunk(chunk: Chunk, data: bytes, answer: Answer) -> int:
    tokens = NOTHING
    closing = False
    for choice in chunk.choices or ():
        delta = choice.delta
        if delta is not None:
            if _holds_text(delta.content) or delta.refusal or delta.audio:
                tokens = CONTENT
            if delta.tool_calls or delta.function_call is not None:
                tokens = CONTENT
                _note_tools(delta.tool_calls, delta.function_call, choice.index, answer)
            if tokens == NOTHING and _thinks(delta):
                tokens = THINKING
        elif choice.text:
            tokens = CONTENT
        if choice.finish_reason:
            closing = True
            answer.finish_reasons.setdefault(choice.index, choice.finish_reason)
    if answer.response_id is None and chunk.id:
        answer.response_id = chunk.id
    if answer.model is None and chunk.model:
        answer.model = chunk.model
    if chunk.service_tier:
        answer.service_tier = chunk.service_tier
    if chunk.usage is not None:
        closing = True
        read_usage(chunk.usage, answer)
    if chunk.x_groq is not None and chunk.x_groq.usage is not None and chunk.usage is None:
        read_usage(chunk.x_groq.usage, answer)
    if chunk.error:
        answer.error_type = error_type(chunk.error)
    if closing:
        engines.read_body(data, answer)
    return tokens


def _tells_engine(read: Body) -> bool:
    """Whether an answer has fields that only an engine sends: it is searched for them only then."""
    usage, choices = read.usage, read.choices
    if usage is not None and (usage.queue_time or usage.total_latency or usage.timing_prompt_processing):
        return True
    if choices:
        first = choices[0]
        message = first.message
        if first.matched_stop or first.disaggregated_params or (message is not None and message.gen_tokens):
            return True
    return read.tells


def _holds_text(content: Any) -> bool:
    """Whether content has text: a string, or a list with a part that is not reasoning."""
    if isinstance(content, list):
        return any(not isinstance(part, dict) or part.get("type") != "thinking" for part in content)
    return bool(content)


def _thinks(delta: Delta) -> bool:
    if delta.reasoning_content or delta.reasoning or delta.content:
        return True
    details = delta.reasoning_details
    return isinstance(details, list) and any(
        isinstance(part, dict) and (part.get("text") or part.get("summary")) for part in details
    )


def _note_tools(calls: list[ToolCall] | None, function: Named | None, position: int, answer: Answer) -> None:
    for place, call in enumerate(calls or ()):
        named = call.function or call.custom
        if named is not None and named.name:
            key = (position, place if call.index is None else call.index, call.id)
            answer.tool_calls.setdefault(key, named.name)
            if call.id:
                answer.tool_ids.setdefault(key, call.id)
    if function is not None and function.name:
        answer.tool_calls.setdefault((position, "function"), function.name)
