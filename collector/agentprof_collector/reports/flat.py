"""Nested documents → flat rows with fixed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def flat_row(document: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """The values at dotted paths, as text or numbers; None where the document has nothing.

    A list or an object in a cell is written as JSON, truth as `true` or `false`.
    """
    return {column: _cell(_at(document, column)) for column in columns}


def _at(document: Mapping[str, Any], path: str) -> Any:
    value: Any = document
    for key in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode() if value else ""
    return value
