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

Runs for every chunk of a stream: slices and comparisons, which take a third of what `find` and its kin do.
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


def _is_text(text: bytes) -> bool:
    """Whether these bytes are all of a string and not empty.

    A backslash at its end may escape the quote there, and the text goes on: let it be decoded.
    """
    return text != b"" and _QUOTE[0] not in text and text[-1] != _BACKSLASH


def _same_around(before: bytes, after: bytes) -> Shape:
    """Nothing but the text may differ."""
    head, middle, tail = slice(len(before)), slice(len(before), -len(after)), slice(-len(after), None)
    quote, backslash = _QUOTE[0], _BACKSLASH

    def fits(chunk: bytes) -> bool:
        text = chunk[middle]
        if text and chunk[head] == before and chunk[tail] == after and quote not in text:
            return text[-1] != backslash
        return False

    return fits


def _padded(before: bytes, between: bytes, after: bytes) -> Shape:
    """The text and a string at the end, padding, may differ."""
    head, middle, tail = slice(len(before)), slice(len(before), -len(after)), slice(-len(after), None)
    quote = _QUOTE[0]

    def fits(chunk: bytes) -> bool:
        if chunk[head] != before or chunk[tail] != after:
            return False
        text, found, padding = chunk[middle].partition(between)
        return found != b"" and _is_text(text) and quote not in padding

    return fits


def _same_before(before: bytes) -> Shape:
    """Whatever follows the text in the same line may differ."""
    head, middle, tail = slice(len(before)), slice(len(before), -len(_END)), slice(-len(_END), None)
    line_end = _END[0]

    def fits(chunk: bytes) -> bool:
        if chunk[head] != before or chunk[tail] != _END:
            return False
        text, quote, _ = chunk[middle].partition(_QUOTE)
        return quote != b"" and _is_text(text) and line_end not in chunk[middle]

    return fits
