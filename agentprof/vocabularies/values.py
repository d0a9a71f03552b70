"""Attribute values as they arrive: int, double, text of a number, wrapped JSON; read or refused, never raised."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

from agentprof.money import billed

TEXT_LIMIT = 1024
"""Characters kept of a text: names are short, and what is longer is likely content."""

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What is raised for a text that is no JSON, or JSON nested too deep."""

_HASH_CHARS = 32
_MAX_COUNT = 10**15
_MAX_SECONDS = 10**9


def text(value: Any) -> str | None:
    """A non-empty text, cut at `TEXT_LIMIT`; other values of one piece in their own spelling."""
    if type(value) is str:
        return value[:TEXT_LIMIT] or None
    if isinstance(value, bool) or value is None or isinstance(value, (list, tuple, dict, bytes)):
        return None
    try:
        return str(value)[:TEXT_LIMIT] or None
    except ValueError:  # an int of more digits than are written
        return None


def identity(value: Any, limit: int = TEXT_LIMIT) -> str | None:
    """A text by which something is told from others: of a longer one a hash stands for what is cut."""
    found = value if type(value) is str else text(value)
    if not found or len(found) <= limit:
        return found or None
    known = hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{found[: limit - _HASH_CHARS - 1]}~{known}"


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts; also one text, or a JSON list in a text."""
    if value is None:
        return ()
    if isinstance(value, str) and value.startswith("["):
        try:
            value = msgspec.json.decode(value)
        except UNREADABLE:
            return (value[:TEXT_LIMIT],)
    if isinstance(value, (list, tuple)):
        return tuple(t for item in value if (t := text(item)) is not None)
    one = text(value)
    return () if one is None else (one,)


def number(value: Any) -> float | None:
    """A finite number from int, double, numeric text, or a text like `{"intValue": "3"}`."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        value = _unwrapped(value)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:
    """A whole number of things, zero or more."""
    if type(value) is int:
        return value if 0 <= value <= _MAX_COUNT else None
    found = number(value)
    if found is None or found != int(found) or not 0 <= found <= _MAX_COUNT:
        return None
    return int(found)


def seconds_as_ns(value: Any) -> int | None:
    """Seconds of zero or more, as whole nanoseconds; engines write -1 for "not measured"."""
    found = number(value)
    return round(found * 1e9) if found is not None and 0 <= found <= _MAX_SECONDS else None


def list_of_seconds_as_ns(value: Any) -> list[int]:
    """A list of durations in seconds; what is no duration counts as 0, so that places are kept."""
    items: Iterable[Any] = value if isinstance(value, (list, tuple)) else ()
    return [seconds_as_ns(item) or 0 for item in items]


def flag(value: Any) -> bool | None:
    """A truth value from a bool or the texts `true` and `false`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return None


def usd(value: Any) -> Decimal | None:
    """An amount of zero or more; a double keeps the digits it prints with. What no bill can hold is absent."""
    return None if isinstance(value, bool) or value is None else billed(value)


_NAME = re.compile(r"[\w.:/\[\]-]{1,128}")


def name(value: Any) -> str | None:
    """A text that is one word, as names of error types are; a sentence may be content and is absent."""
    found = text(value)
    return found if found is not None and _NAME.fullmatch(found) else None


def _unwrapped(value: str) -> Any:
    if value.startswith("{"):
        try:
            inner = msgspec.json.decode(value)
        except UNREADABLE:
            return None
        return next(iter(inner.values()), None) if isinstance(inner, dict) and len(inner) == 1 else None
    return value
