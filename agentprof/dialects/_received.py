"""Counts what was generated of an answer as it is read: for estimates of usage that nobody reports."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import NOTHING, Answer, EventReader

_TEXT_KEYS: Final = frozenset(
    {
        # where generated text stands
        "content",
        "text",
        "refusal",
        "reasoning_content",
        "reasoning",
        "thinking",
        "name",
        "arguments",
        "input",
        "partial_json",
        # what leads there
        "choices",
        "delta",
        "message",
        "tool_calls",
        "function_call",
        "function",
        "custom",
        "output",
        "summary",
        # of the formats of Gemini, Bedrock and Cohere
        "args",
        "parameters",
        "tool_plan",
        "parts",
        "functionCall",
        "toolUse",
        "reasoningContent",
        "reasoningText",
    }
)
"""Encrypted reasoning and media are under other keys."""
_READ_OUT: Final = frozenset({"input", "args", "arguments", "parameters"})
"""Generated as JSON, and in some formats given out read."""

_BODY_KEYS: Final = ("choices", "output", "content")
_EVENT_KEYS: Final = ("choices", "delta")
"""Of an event only these add something: others of its fields repeat what came before."""
_LINE_KEYS: Final = ("message", "response", "thinking")
_KEYS_OF: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "gemini.generate": (("candidates",), ("candidates",)),
    "gemini.interactions": (("steps",), ("step", "delta")),
    "bedrock.converse": (("output",), ("start", "delta")),
    "cohere.chat": (("message",), ("delta",)),
    "cohere.chat_v1": (("text", "tool_calls"), ("text", "tool_calls", "tool_call_delta")),
    "ollama.chat": (_LINE_KEYS, _LINE_KEYS),
    "ollama.generate": (_LINE_KEYS, _LINE_KEYS),
}
"""By dialect: where the text of a whole answer begins, and that of an event."""
_NO_TEXT: Final = b'"response.audio.delta"'


class Received:
    """What was generated, as far as it was seen."""

    __slots__ = ("pieces", "text_bytes")

    def __init__(self) -> None:
        self.text_bytes = 0
        """UTF-8 bytes of text, visible reasoning, names and arguments of tools."""
        self.pieces = 0
        """Events of a stream that carried something of that."""


class Counting:
    """A dialect that also counts what it reads; in everything else it is the one it was made from."""

    text_key = b""  # an event that is told by its shape alone would not be read

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect
        self._body_keys, self._event_keys = _KEYS_OF.get(dialect.name, (_BODY_KEYS, _EVENT_KEYS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read and count a whole answer."""
        self._dialect.read_body(body, answer)
        value = _decoded(body)
        if answer.received is not None and isinstance(value, dict):
            answer.received.text_bytes += _text_bytes([value.get(key) for key in self._body_keys])

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader that counts, for one stream."""
        read, received = self._dialect.event_reader(answer), answer.received

        def read_event(data: bytes) -> int:
            tokens: int = read(data)
            if tokens != NOTHING and received is not None:
                received.pieces += 1
                value = _decoded(data)
                if isinstance(value, dict) and _NO_TEXT not in data:
                    received.text_bytes += _text_bytes([value.get(key) for key in self._event_keys])
            return tokens

        return read_event


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text_bytes(value: Any) -> int:
    found, pending = 0, [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found += len(part.encode("utf-8", "surrogatepass"))
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            for key, inner in part.items():
                if key in _READ_OUT and isinstance(inner, dict):
                    found += len(msgspec.json.encode(inner))
                elif key in _TEXT_KEYS:
                    pending.append(inner)
    return found
