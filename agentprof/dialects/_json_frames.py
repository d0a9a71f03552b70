"""Splits streams of JSON that are no server-sent events: one value a line, or the items of one array."""

from __future__ import annotations

import re
from typing import Final

_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one event; of a longer one nothing is understood."""
_MARK: Final = re.compile(rb'["\\{}]')


class Lines:
    """One value a line."""

    __slots__ = ("done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        self.done = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Every line that is complete with these bytes."""
        data = self.rest + chunk
        # What has no end is not looked through again with each piece of it.
        lines = data.split(b"\n") if b"\n" in chunk else [data]
        self.rest = lines.pop()
        if len(self.rest) > _LIMIT:
            self.rest = b""
        return [line for line in lines if line.strip()]

    def finish(self) -> list[bytes]:
        """A last line without an end."""
        rest, self.rest = self.rest, b""
        return [rest] if rest.strip() else []


class Items:
    """The objects of one array, whatever white space is between and in them."""

    __slots__ = ("_at", "_depth", "_in_text", "done", "rest")

    def __init__(self) -> None:
        self.rest = b""
        self.done = False
        self._at = 0
        """Where in `rest` to go on looking; one past its end after half of an escape."""
        self._depth = 0
        self._in_text = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Every object that is complete with these bytes."""
        data, at, start = self.rest + chunk, self._at, 0
        found = []
        while (mark := _MARK.search(data, at)) is not None:
            at, kind = mark.end(), mark[0]
            if kind == b"\\":
                at += 1
            elif kind == b'"':
                self._in_text = not self._in_text
            elif self._in_text:
                continue
            elif kind == b"{":
                if self._depth == 0:
                    start = mark.start()
                self._depth += 1
            elif self._depth > 0:
                self._depth -= 1
                if self._depth == 0:
                    found.append(data[start:at])
                    start = at
        at = max(at, len(data))
        self.rest = data[start:] if self._depth and len(data) - start <= _LIMIT else b""
        self._at = at - (len(data) - len(self.rest))
        return found

    def finish(self) -> list[bytes]:
        """Half an object says nothing."""
        return []
