"""Gemini's interactions: steps instead of candidates, whole or as server-sent events.

https://ai.google.dev/gemini-api/docs/interactions
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.model import Usage

_UNDER_WAY: Final = "in_progress"
_CALL: Final = "_call"
_FUNCTION: Final = "function"
_KINDS: Final = {"google_search": "web_search", "mcp_server_tool": "mcp"}


class RawUsage(msgspec.Struct):
    """Usage as sent: thoughts stand beside the output, what tools read beside the input."""

    total_input_tokens: Count | None = None
    total_output_tokens: Count | None = None
    total_thought_tokens: Count | None = None
    total_tool_use_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_tokens: Count | None = None


class Step(msgspec.Struct):
    """A step: thought, output, or a call of a tool, also of the provider's."""

    type: str | None = None
    id: str | None = None
    name: str | None = None


class Metadata(msgspec.Struct):
    """What stands beside an event."""

    usage: RawUsage | None = None


class Body(msgspec.Struct):
    """A whole answer, or an interaction in an event."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    steps: list[Step] | None = None
    usage: RawUsage | None = None
    service_tier: str | None = None
    error: Any = None


class Delta(msgspec.Struct):
    """What an event adds to a step."""

    type: str | None = None
    text: Any = None


class Event(msgspec.Struct):
    """An event of a stream."""

    event_type: str | None = None
    index: int | None = None
    interaction: Body | None = None
    step: Step | None = None
    delta: Delta | None = None
    metadata: Metadata | None = None
    error: Any = None


_read_body = Tolerant(Body)
_read_event = Tolerant(Event)


class Interactions(Format):
    """Interactions."""

    name = "gemini.interactions"
    operation = "generate_content"
    endpoints: tuple[str, ...] = ("/interactions",)
    request_fields: tuple[str, ...] = ("input",)
    sections: tuple[tuple[str, str], ...] = (("system_instruction", "system"), ("tools", "tools"))
    conversation = "input"
    needs_model = True
    provider = "gcp.gen_ai"

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        _note(read, answer)
        for place, step in enumerate(read.steps or ()):
            _note_step(step, place, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            event = _read_event(data)
            if event is None:
                return NOTHING
            if event.interaction is not None:
                _note(event.interaction, answer)
            if event.metadata is not None and event.metadata.usage is not None:
                _note_usage(event.metadata.usage, answer)
            if event.error:
                answer.error_type = error_type(event.error)
            if event.step is not None:
                return _note_step(event.step, event.index, answer)
            return _carried(event.delta) if event.delta is not None else NOTHING

        return read_event


def _note(read: Body, answer: Answer) -> None:
    answer.response_id = read.id or answer.response_id
    answer.model = read.model or answer.model
    answer.service_tier = read.service_tier or answer.service_tier
    if read.status and read.status != _UNDER_WAY:
        answer.finish_reasons[0] = read.status
    if read.usage is not None:
        _note_usage(read.usage, answer)
    if read.error:
        answer.error_type = error_type(read.error)


def _note_step(step: Step, place: object, answer: Answer) -> int:
    kind = step.type or ""
    if not kind.endswith(_CALL):
        return NOTHING
    kind = kind.removesuffix(_CALL)
    if kind != _FUNCTION:
        kind = _KINDS.get(kind, kind)
        answer.server_tools[kind] = answer.server_tools.get(kind, 0) + 1
    elif step.name:
        answer.tool_calls[place] = step.name
        if step.id:
            answer.tool_ids[place] = step.id
    return CONTENT


def _carried(delta: Delta) -> int:
    """Whatever is neither a summary of a thought nor its signature is content: text, arguments, media."""
    if delta.type == "thought_summary":
        return THINKING
    if delta.type == "text":
        return CONTENT if delta.text else NOTHING
    return CONTENT if delta.type and not delta.type.startswith("thought") else NOTHING


def _note_usage(raw: RawUsage, answer: Answer) -> None:
    given, said, thoughts = raw.total_input_tokens, raw.total_output_tokens, raw.total_thought_tokens
    if given is None or said is None:
        return
    given += raw.total_tool_use_tokens or 0
    output = said + (thoughts or 0)
    answer.usage = Usage(
        input=given,
        output=output,
        cache_read=raw.total_cached_tokens,
        reasoning=thoughts,
        total_differs=raw.total_tokens is not None and raw.total_tokens != given + output,
    )
