"""Splits a stream of server-sent events into the data of its events, whatever the pieces it arrives in."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one event; of a longer one nothing is understood."""
_DONE: Final = b"[DONE]"


class Events:
    """The events of one stream."""

    __slots__ = ("_rest", "done")

    def __init__(self) -> None:
        self._rest = b""
        self.done = False
        """Whether the closing mark of OpenAI-like streams was seen."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that is complete with these bytes."""
        text = self._rest + chunk if self._rest else chunk
        if b"\r" in text:
            # A CR at the very end may be the first half of a line end.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        blocks = text.split(b"\n\n")
        self._rest = blocks.pop() if len(text) <= _LIMIT else b""
        found = []
        for block in blocks:
            data = _data_of(block)
            if data == _DONE:
                self.done = True
            elif data:
                found.append(data)
        return found

    def finish(self) -> list[bytes]:
        """The data of a last event that no empty line ended."""
        rest, self._rest = self._rest, b""
        data = _data_of(rest.replace(b"\r", b"\n"))
        return [data] if data and data != _DONE else []


def _data_of(block: bytes) -> bytes:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = []
    for line in block.split(b"\n"):
        if line.startswith(b"data:"):
            lines.append(line[6:] if line.startswith(b"data: ") else line[5:])
    return b"\n".join(lines)
