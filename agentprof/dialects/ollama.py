"""Ollama's own format: chat, generation and embeddings. Streams are one JSON object a line, and the default.

The last object says how long the server took, in nanoseconds, always:
https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format, Frames
from agentprof.dialects._json_frames import Lines
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.engines._times import duration, note
from agentprof.model import Usage

_PHASES: Final = {
    "load_duration": "queue",
    "prompt_eval_duration": "prefill",
    "eval_duration": "generation",
    "total_duration": "model",
}
"""Loading includes the wait for a model to run; the wait for one of its slots is only in the total."""
_TIMES: Final = tuple(_PHASES)


class Named(msgspec.Struct):
    """A function."""

    name: str | None = None


class ToolCall(msgspec.Struct):
    """A tool call; always whole."""

    id: str | None = None
    """Of newer releases."""
    function: Named | None = None


class Message(msgspec.Struct):
    """A message, or what a line adds to it."""

    content: Any = None
    thinking: Any = None
    tool_calls: list[ToolCall] | None = None


class Line(msgspec.Struct):
    """A whole answer, or a line of a stream."""

    model: str | None = None
    message: Message | None = None
    response: Any = None
    """The text, of generation."""
    thinking: Any = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: Count | None = None
    """Missing where the whole prompt was kept from before, in older releases."""
    eval_count: Count | None = None
    load_duration: int | None = None
    prompt_eval_duration: int | None = None
    eval_duration: int | None = None
    total_duration: int | None = None
    error: Any = None


_read_line = Tolerant(Line)


class Chat(Format):
    """Chat."""

    name = "ollama.chat"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/api/chat",)
    request_fields: tuple[str, ...] = ("messages",)
    sections: tuple[tuple[str, str], ...] = (("tools", "tools"),)
    conversation = "messages"
    needs_model = True
    streams_unasked = True
    provider = "ollama"

    def frames(self, start: bytes) -> Frames | None:
        """Lines."""
        return Lines()

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        _note(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return lambda data: _note(data, answer)


class Generate(Chat):
    """Completion of a text."""

    name = "ollama.generate"
    operation = "text_completion"
    endpoints: tuple[str, ...] = ("/api/generate",)
    request_fields: tuple[str, ...] = ("prompt",)
    sections: tuple[tuple[str, str], ...] = (("system", "system"), ("prompt", "user"))
    conversation = ""


class Embed(Chat):
    """Embeddings."""

    name = "ollama.embed"
    operation = "embeddings"
    endpoints: tuple[str, ...] = ("/api/embed",)
    request_fields: tuple[str, ...] = ("input",)
    sections: tuple[tuple[str, str], ...] = (("input", "user"),)
    conversation = ""
    streams_unasked = False


def _note(data: bytes, answer: Answer) -> int:
    line = _read_line(data)
    if line is None:
        return NOTHING
    answer.model = line.model or answer.model
    if line.error:
        answer.error_type = error_type(line.error)
    if line.done:
        answer.whole = True
    if line.done_reason:
        answer.finish_reasons[0] = line.done_reason
    if line.prompt_eval_count is not None or line.eval_count is not None:
        answer.usage = Usage(input=line.prompt_eval_count, output=line.eval_count)
    if line.done:
        _note_times(line, answer)
    message = line.message
    if message is None:
        return _carried(line.response, line.thinking)
    for call in message.tool_calls or ():
        if call.function is not None and call.function.name:
            place = len(answer.tool_calls)
            answer.tool_calls[place] = call.function.name
            if call.id:
                answer.tool_ids[place] = call.id
    return CONTENT if message.tool_calls else _carried(message.content, message.thinking)


def _note_times(line: Line, answer: Answer) -> None:
    given = {name: ns for name in _TIMES if (ns := getattr(line, name)) is not None}
    if not given:
        return
    answer.engine = "ollama"
    if "prompt_eval_duration" not in given and "total_duration" in given:
        # Older releases leave it out of a prompt that was kept from before: then the rest of the total is no prefill.
        given.pop("load_duration", None)
    for name, ns in given.items():
        note(answer, _PHASES[name], duration(ns, name, 1, answer), name)


def _carried(text: Any, thinking: Any) -> int:
    if text:
        return CONTENT
    return THINKING if thinking else NOTHING
