"""Splits a stream of server-sent events into the data of its events, whatever the pieces it arrives in."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one event; of a longer one nothing is understood."""
_DONE: Final = b"[DONE]"


class Events:
    """The events of one stream."""

    __slots__ = ("done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        """Bytes of an event that is not complete yet."""
        self.done = False
        """Whether the closing mark of OpenAI-like streams was seen."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that is complete with these bytes."""
        if not self.rest and _is_one_event(chunk):
            return self._kept([chunk[6:-2]])
        text = self.rest + chunk if self.rest else chunk
        if b"\r" in text:
            # A CR at the very end may be the first half of a line end.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        blocks = text.split(b"\n\n")
        self.rest = blocks.pop() if len(text) <= _LIMIT else b""
        return self._kept([_data_of(block) for block in blocks])

    def _kept(self, found: list[bytes]) -> list[bytes]:
        if _DONE in found:
            self.done = True
        return [data for data in found if data and data != _DONE]

    def finish(self) -> list[bytes]:
        """The data of a last event that no empty line ended."""
        rest, self.rest = self.rest, b""
        data = _data_of(rest.replace(b"\r", b"\n"))
        return [data] if data and data != _DONE else []


def _is_one_event(chunk: bytes) -> bool:
    """Whether this is a single line of data and nothing else, as most chunks are."""
    return (
        chunk.startswith(b"data: ")
        and chunk.find(b"\n") == len(chunk) - 2
        and chunk.endswith(b"\n\n")
        and b"\r" not in chunk
    )


def _data_of(block: bytes) -> bytes:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = []
    for line in block.split(b"\n"):
        if line.startswith(b"data:"):
            lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
    return b"\n".join(lines)
