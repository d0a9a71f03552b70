"""Splits a stream of server-sent events into the data of its events, whatever the pieces it arrives in."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one event; of a longer one nothing is understood."""
_LONG: Final = 16 * 1024
"""Bytes of an event that is not complete beyond which they are put aside: an image of megabytes comes in hundreds of
pieces, and would be looked through again with each."""
_LINE_ENDS: Final = 2
"""Bytes that may belong to the empty line at the end of an event."""
_DONE: Final = b"[DONE]"


class Events:
    """The events of one stream."""

    __slots__ = ("_aside", "_size_aside", "done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        """Bytes of an event that is not complete yet; of a long one the last."""
        self._aside: tuple[bytes, ...] = ()
        """Those before, which hold no end of an event."""
        self._size_aside = 0
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
        self.rest = blocks.pop()
        if blocks and self._aside:
            blocks[0] = self._taken_back() + blocks[0]
        if len(self.rest) > _LONG:
            self._put_aside()
        return self._kept([_data_of(block) for block in blocks])

    def _put_aside(self) -> None:
        self._aside = (*self._aside, self.rest[:-_LINE_ENDS])
        self._size_aside += len(self._aside[-1])
        self.rest = self.rest[-_LINE_ENDS:]
        if self._size_aside > _LIMIT:
            self._taken_back()
            self.rest = b""

    def _taken_back(self) -> bytes:
        found = b"".join(self._aside)
        self._aside, self._size_aside = (), 0
        return found

    def _kept(self, found: list[bytes]) -> list[bytes]:
        if _DONE in found:
            self.done = True
        return [data for data in found if data and data != _DONE]

    def finish(self) -> list[bytes]:
        """The data of a last event that no empty line ended."""
        rest, self.rest = self._taken_back() + self.rest, b""
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
