"""Names, ids and labels as a program gives them, made texts of bounded length: any value, never an error."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Final

from agentprof import _guard

NAME_CHARS: Final = 256
ID_CHARS: Final = 256
VALUE_CHARS: Final = 1024
"""Characters of the value of a label."""
LABELS: Final = 64
"""Labels of one task: with more, a span of the SDK would push out what else it says."""

_HASH_CHARS: Final = 32


def text(value: object, limit: int) -> str | None:
    """A value as a text that can be encoded, cut at a number of characters; None if nothing is in it."""
    if value is None:
        return None
    try:
        found = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except Exception:
        _guard.failed("reading a name")
        return None
    # Names of files may hold halves of surrogate pairs, which no receiver would take.
    return found.encode("utf-8", "replace").decode()[:limit] or None


def identity(value: object) -> str:
    """The id of a task: a new one where none is given; a long one keeps its own by a hash of what is cut."""
    found = text(value, VALUE_CHARS * VALUE_CHARS)
    if found is None:
        return uuid.uuid4().hex
    if len(found) <= ID_CHARS:
        return found
    known = hashlib.sha256(found.encode()).hexdigest()[:_HASH_CHARS]
    return f"{found[: ID_CHARS - _HASH_CHARS - 1]}~{known}"


def labels(given: object) -> dict[str, str]:
    """The labels of a mapping, as far as there is room."""
    found: dict[str, str] = {}
    if given is None:
        return found
    if not isinstance(given, Mapping):
        _guard.noted("labels", "agentprof: labels must be a mapping of keys to values; others are left out")
        return found
    for key, value in given.items():
        put_label(found, key, value)
    return found


def put_label(found: dict[str, str], key: object, value: object) -> None:
    """Add a label, or change it, if there is room for it and something in it."""
    name, said = text(key, NAME_CHARS), text(value, VALUE_CHARS)
    if name is None or said is None:
        return
    if name not in found and len(found) >= LABELS:
        _guard.noted("labels", f"agentprof: a task has {LABELS} labels at most; others are left out")
        return
    found[name] = said
