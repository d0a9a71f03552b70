"""Recognises the next piece of text of a stream by comparing bytes, without decoding it.

Most events of a stream differ from the one before in their text alone. Once one has been decoded, those
that have its shape carry a token of the same kind and nothing else; all others are decoded.
"""

from __future__ import annotations

from typing import Final

_QUOTE: Final = b'"'
_BACKSLASH: Final = 92
_END: Final = b"\n\n"
_LAST_STRING: Final = b'"}\n\n'


class Shape:
    """What the bytes of an event look like around its text."""

    __slots__ = ("_after", "_before", "_rest_is_free", "_tail")

    def __init__(self, before: bytes, after: bytes, tail: bytes, rest_is_free: bool) -> None:
        self._before = before
        """Up to and with the quote that opens the text."""
        self._after = after
        """From the quote that closes it to the end, or to the quote that opens the last value."""
        self._tail = tail
        """From the quote that closes the last value, where that is a string that may differ (padding)."""
        self._rest_is_free = rest_is_free

    def fits(self, chunk: bytes) -> bool:
        """Whether these bytes are exactly one event of this shape, with text in it."""
        if not chunk.startswith(self._before):
            return False
        start = len(self._before)
        end = chunk.find(_QUOTE, start)
        # A backslash before the quote may escape it, and the text goes on: let it be decoded.
        if end <= start or chunk[end - 1] == _BACKSLASH or not chunk.startswith(self._after, end):
            return False
        if self._rest_is_free:
            return chunk.find(_END, end) == len(chunk) - len(_END)
        end += len(self._after)
        if self._tail:
            return chunk.endswith(self._tail) and chunk.find(_QUOTE, end) == len(chunk) - len(self._tail)
        return len(chunk) == end


def shape_of(chunk: bytes, key: bytes, type_says_all: bool) -> Shape | None:
    """The shape of the one event these bytes hold, or None if it cannot be told from others.

    Args:
        key: The key of the text with its colon, as `"content":`.
        type_says_all: Events name their type first, and one of this type has nothing else of interest.
    """
    at = chunk.find(key)
    if at < 0 or chunk.find(key, at + 1) >= 0 or not chunk.endswith(_END):
        return None
    start = at + len(key)
    if chunk[start : start + 1] == b" ":
        start += 1
    if chunk[start : start + 1] != _QUOTE:
        return None
    start += 1
    end = chunk.find(_QUOTE, start)
    if end <= start or chunk[end - 1] == _BACKSLASH:
        return None
    if type_says_all:
        return Shape(chunk[:start], _QUOTE, b"", True) if b'{"type":' in chunk[:start] else None
    if chunk.endswith(_LAST_STRING):
        last = chunk.rfind(_QUOTE, end, len(chunk) - len(_LAST_STRING))
        if last > end:
            return Shape(chunk[:start], chunk[end : last + 1], _LAST_STRING, False)
    return Shape(chunk[:start], chunk[end:], b"", False)
