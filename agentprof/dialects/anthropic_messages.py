"""Anthropic messages, whole and streamed, at Anthropic itself and wherever else they are served."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from agentprof.dialects import _aws_frames
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._anthropic_usage import RawUsage, read_usage
from agentprof.dialects._format import Format, Frames
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant


class Block(msgspec.Struct):
    """A block of the content; of its text only whether there is any counts."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    text: Any = None
    thinking: Any = None


class Body(msgspec.Struct):
    """A whole answer, or the beginning of a streamed one."""

    id: str | None = None
    model: str | None = None
    content: list[Block] | None = None
    stop_reason: str | None = None
    usage: RawUsage | None = None
    error: Any = None
    timings: msgspec.Raw = msgspec.Raw()
    """Of llama.cpp, which serves this format too."""


class Delta(msgspec.Struct):
    """What an event adds, to a block or to the message."""

    text: Any = None
    partial_json: Any = None
    thinking: Any = None
    content: Any = None
    """Of a compaction: the shortened conversation."""
    stop_reason: str | None = None


class Event(msgspec.Struct):
    """An event of a stream."""

    type: str | None = None
    index: int | None = None
    message: Body | None = None
    content_block: Block | None = None
    delta: Delta | None = None
    usage: RawUsage | None = None
    error: Any = None
    timings: msgspec.Raw = msgspec.Raw()


class Wrapped(msgspec.Struct):
    """An event on Bedrock."""

    bytes: str | None = None


_read_wrapped = Tolerant(Wrapped)
_read_body = Tolerant(Body)
_read_event = Tolerant(Event)

_OF_SERVER: Final = "server_tool_use"
_OF_MCP: Final = "mcp_tool_use"


class Messages(Format):
    """Messages."""

    name = "anthropic.messages"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/v1/messages", "/v1/messages?beta=true")
    request_fields: tuple[str, ...] = ("max_tokens",)
    """Not `messages`, which is also posted to paths of this name by what sends texts and mails."""
    sections: tuple[tuple[str, str], ...] = (("system", "system"), ("tools", "tools"))
    conversation = "messages"
    results_in_messages = True
    text_key = b'"text":'
    type_says_all = True
    may_be_binary = False
    usage_if_asked = False

    def frames(self, start: bytes) -> Frames | None:
        """On Bedrock an event stands in a frame of AWS."""
        return _aws_frames.Frames(_unwrapped) if _aws_frames.is_frame(start) else None

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        _note_message(read, answer)
        for place, block in enumerate(read.content or ()):
            _note_block(block, place, answer)
        if read.usage is not None:
            read_usage(read.usage, answer)
        if read.error:
            answer.error_type = error_type(read.error)
        if read.timings:
            _note_timings(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return _Reader(answer).read


def _note_timings(data: bytes, answer: Answer) -> None:
    from agentprof.engines import llama_cpp

    if llama_cpp.read(data, answer):
        answer.engine = llama_cpp.NAME


def _unwrapped(kind: str, payload: bytes) -> bytes:
    wrapped = _read_wrapped(payload)
    try:
        return base64.b64decode(wrapped.bytes) if wrapped is not None and wrapped.bytes else b""
    except ValueError:
        return b""


class _Reader:
    """Reads one stream: usage comes with its beginning and, once or several times, with its end."""

    __slots__ = ("_answer", "_messages", "_usage")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._messages = 0
        """Some gateways send several, one behind the other, in one stream."""
        self._usage = RawUsage()

    def read(self, data: bytes) -> int:
        event = _read_event(data)
        if event is None:
            return NOTHING
        kind, answer = event.type, self._answer
        if kind == "content_block_delta":
            return _carried(event.delta)
        if kind == "content_block_start" and event.content_block is not None:
            return _note_block(event.content_block, (self._messages, event.index), answer)
        if kind == "message_start" and event.message is not None:
            self._begin(event.message)
        elif kind == "message_delta":
            if event.delta is not None and event.delta.stop_reason is not None:
                answer.finish_reasons[0] = event.delta.stop_reason
            if event.usage is not None:
                self._usage.update(event.usage)
                read_usage(self._usage, answer)
        elif kind == "error" or event.error:
            answer.error_type = error_type(event.error)
        if event.timings:
            _note_timings(data, answer)
        return NOTHING

    def _begin(self, message: Body) -> None:
        """Usage before the end says what went in; how much will come out it cannot know."""
        self._messages += 1
        _note_message(message, self._answer)
        self._usage = message.usage or RawUsage()
        self._usage.output_tokens = self._usage.server_tool_use = None
        read_usage(self._usage, self._answer)


def _note_message(read: Body, answer: Answer) -> None:
    answer.response_id = read.id or answer.response_id
    answer.model = read.model or answer.model
    if read.stop_reason is not None:
        answer.finish_reasons[0] = read.stop_reason


def _note_block(block: Block, place: object, answer: Answer) -> int:
    """Note a tool that is asked for or that ran at the provider; says which tokens stand in the block itself."""
    if block.type == "tool_use" and block.name:
        answer.tool_calls[place] = block.name
        if block.id:
            answer.tool_ids[place] = block.id
        return CONTENT  # the model has generated the name
    if block.type in (_OF_SERVER, _OF_MCP):
        # Tools of an MCP server have names of their own.
        kind = block.name if block.type == _OF_SERVER and block.name else "mcp"
        answer.server_tools[kind] = answer.server_tools.get(kind, 0) + 1
        return CONTENT
    if block.type == "text" and block.text:
        return CONTENT
    return THINKING if block.type == "thinking" and block.thinking else NOTHING


def _carried(delta: Delta | None) -> int:
    """Signatures and citations are no tokens; a shortened conversation is generated, and not what was asked for."""
    if delta is None:
        return NOTHING
    if delta.text or delta.partial_json:
        return CONTENT
    return THINKING if delta.thinking or delta.content else NOTHING
