"""OpenAI responses, whole and streamed."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from agentprof import engines
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._openai_usage import RawUsage, read_usage
from agentprof.dialects._tolerant import Tolerant
from agentprof.engines._telling import Telling

_SERVER_TOOLS: Final = {
    "web_search_call": "web_search",
    "x_search_call": "x_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}
"""Output items of tools that ran at the provider; other `_call` items are for the program to run."""

_ASKED_TOOLS: Final = frozenset({"function_call", "custom_tool_call"})
_CONTENT_EVENTS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.mcp_call_arguments.delta",
        "response.code_interpreter_call_code.delta",
        "response.audio.delta",
        "response.audio.transcript.delta",
    }
)
_THINKING_EVENTS: Final = frozenset(
    {
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning.delta",
        "response.reasoning_summary.delta",
    }
)
_ITEM_EVENTS: Final = frozenset({"response.output_item.added", "response.output_item.done"})
_LAST_EVENTS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.done"}
)
_FIRST_EVENTS: Final = frozenset({"response.created", "response.in_progress", "response.queued"})


class Item(msgspec.Struct):
    """An item of the output."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    call_id: str | None = None


class Incomplete(msgspec.Struct):
    """Why an answer stopped early."""

    reason: str | None = None


class Body(Telling):
    """A whole answer."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[Item] | None = None
    usage: RawUsage | None = None
    service_tier: str | None = None
    incomplete_details: Incomplete | None = None
    error: Any = None

    @property
    def tells_engine(self) -> bool:
        """Whether it has fields that only an engine sends."""
        return bool(self.tells or (self.usage is not None and self.usage.tells_times))


class Event(msgspec.Struct):
    """An event of a stream."""

    type: str | None = None
    delta: Any = None
    item: Item | None = None
    output_index: int | None = None
    error: Any = None
    code: Any = None


class Envelope(Telling):
    """An event that carries the answer."""

    response: Body | None = None


_read_body = Tolerant(Body)
_read_event = Tolerant(Event)
_read_envelope = Tolerant(Envelope)


class Responses(Format):
    """Responses."""

    name = "openai.responses"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/responses", "/responses/compact")
    request_fields: tuple[str, ...] = ("input", "prompt", "previous_response_id", "conversation")
    sections: tuple[tuple[str, str], ...] = (("instructions", "system"), ("tools", "tools"))
    conversation = "input"
    results_in_messages = False
    text_key = b'"delta":'
    type_says_all = True
    may_be_binary = False
    usage_if_asked = False

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is not None:
            _note_body(read, answer)
            if read.tells_engine:
                engines.read_body(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            kind = _type_at_start(data)
            if kind in _CONTENT_EVENTS:
                return NOTHING if _is_empty_delta(data) else CONTENT
            if kind is None or kind in _ITEM_EVENTS or kind in _THINKING_EVENTS or kind == "error":
                return _note_event(data, answer)
            if kind in _LAST_EVENTS or kind in _FIRST_EVENTS:
                _note_envelope(data, answer, kind in _LAST_EVENTS)
            return NOTHING

        return read_event


def _type_at_start(data: bytes) -> str | None:
    """The type of an event if it is its first field, as servers send it; it saves decoding the rest."""
    start = 9 if data.startswith(b'{"type":"') else 10 if data.startswith(b'{"type": "') else 0
    end = data.find(b'"', start, start + 80) if start else -1
    return data[start:end].decode("ascii", "replace") if end > 0 else None


def _is_empty_delta(data: bytes) -> bool:
    return b'"delta":""' in data or b'"delta": ""' in data


def _note_event(data: bytes, answer: Answer) -> int:
    event = _read_event(data)
    if event is None:
        return NOTHING
    kind = event.type
    if kind in _CONTENT_EVENTS:
        return CONTENT if event.delta else NOTHING
    if kind in _THINKING_EVENTS:
        return THINKING if event.delta else NOTHING
    if kind in _ITEM_EVENTS:
        return _note_item_event(event, answer)
    if kind in _LAST_EVENTS or kind in _FIRST_EVENTS:
        _note_envelope(data, answer, kind in _LAST_EVENTS)
    elif kind == "error" or event.error:
        answer.error_type = error_type(event.error or {"code": event.code})
    return NOTHING


def _note_item_event(event: Event, answer: Answer) -> int:
    item = event.item
    if item is None:
        return NOTHING
    added = event.type == "response.output_item.added"
    if item.type in _ASKED_TOOLS and item.name:
        key = item.id or event.output_index
        answer.tool_calls.setdefault(key, item.name)
        if item.call_id:
            answer.tool_ids.setdefault(key, item.call_id)
        return CONTENT if added else NOTHING  # the model has generated the name
    if not added and item.type in _SERVER_TOOLS:
        kind = _SERVER_TOOLS[item.type]
        answer.server_tools[kind] = answer.server_tools.get(kind, 0) + 1
    return NOTHING


def _note_envelope(data: bytes, answer: Answer, last: bool) -> None:
    envelope = _read_envelope(data)
    if envelope is None or envelope.response is None:
        return
    if last:
        _note_body(envelope.response, answer)
        if envelope.tells or envelope.response.tells_engine:
            engines.read_body(data, answer)
    else:
        answer.response_id = envelope.response.id
        answer.model = envelope.response.model


def _note_body(read: Body, answer: Answer) -> None:
    answer.response_id = read.id or answer.response_id
    answer.model = read.model or answer.model
    answer.service_tier = read.service_tier
    if read.status is not None:
        reason = read.incomplete_details.reason if read.incomplete_details is not None else None
        answer.finish_reasons[0] = f"{read.status}:{reason}" if reason else read.status
    asked: dict[object, str] = {}
    ids: dict[object, str] = {}
    ran: list[str] = []
    for place, item in enumerate(read.output or ()):
        if item.type in _SERVER_TOOLS:
            ran.append(_SERVER_TOOLS[item.type])
        elif item.type in _ASKED_TOOLS and item.name:
            asked[place] = item.name
            if item.call_id:
                ids[place] = item.call_id
    # The final list has everything the events before it announced, unless a server leaves it empty.
    if len(asked) >= len(answer.tool_calls):
        answer.tool_calls, answer.tool_ids = asked, ids
    if len(ran) >= sum(answer.server_tools.values()):
        answer.server_tools = dict(Counter(ran)) if ran else {}
    read_usage(read.usage, answer)
    if read.error or read.status == "failed":
        answer.error_type = error_type(read.error)
