"""Recognises the next piece of text of a stream by comparing bytes, without decoding it.

Most events of a stream differ from the one before in their text alone. Once one has been decoded, those
that have its shape carry a token of the same kind and nothing else; all others are decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_QUOTE: Final = b'"'
_BACKSLASH: Final = 92
_END: Final = b"\n\n"
_LAST_STRING: Final = b'"}\n\n'

Shape = Callable[[bytes], bool]
"""Whether these bytes are exactly one event of the shape, with text in it.

Text that ends with a backslash does not count: that may escape the quote there, and the text goes on.

Runs for every chunk of a stream. What surrounds the text is taken away and the lengths compared: that takes less than
half the time of slices compared with it.
"""


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
        return _same_before(chunk[:start]) if b'{"type":' in chunk[:start] else None
    if chunk.endswith(_LAST_STRING):
        last = chunk.rfind(_QUOTE, end, len(chunk) - len(_LAST_STRING))
        if last > end:
            return _padded(chunk[:start], chunk[end : last + 1], _LAST_STRING)
    return _same_around(chunk[:start], chunk[end:])


def _same_around(before: bytes, after: bytes) -> Shape:
    """Nothing but the text may differ."""
    around = len(before) + len(after)
    quote, backslash = _QUOTE[0], _BACKSLASH

    def fits(chunk: bytes) -> bool:
        text = chunk.removeprefix(before).removesuffix(after)
        if text and len(chunk) - len(text) == around and quote not in text:
            return text[-1] != backslash
        return False

    return fits


def _padded(before: bytes, between: bytes, after: bytes) -> Shape:
    """The text and a string at the end, padding, may differ."""
    around = len(before) + len(after)
    quote, backslash = _QUOTE[0], _BACKSLASH

    def fits(chunk: bytes) -> bool:
        inner = chunk.removeprefix(before).removesuffix(after)
        if len(chunk) - len(inner) != around:
            return False
        text, found, padding = inner.partition(between)
        if found and text and quote not in text and quote not in padding:
            return text[-1] != backslash
        return False

    return fits


def _same_before(before: bytes) -> Shape:
    """Whatever follows the text in the same line may differ."""
    around = len(before) + len(_END)
    backslash, line_end = _BACKSLASH, _END[0]

    def fits(chunk: bytes) -> bool:
        inner = chunk.removeprefix(before).removesuffix(_END)
        if len(chunk) - len(inner) != around:
            return False
        text, found, _ = inner.partition(_QUOTE)
        if found and text and line_end not in inner:
            return text[-1] != backslash
        return False

    return fits
