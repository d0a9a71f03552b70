"""Reported times as phases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from agentprof.model import Phase

MILLISECONDS: Final = 1_000_000
"""In ns."""
SECONDS: Final = 1_000_000_000

_LONGEST_NS: Final = 10**18
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def phases_from(body: bytes, section: str, fields: Mapping[str, str], unit_ns: int) -> dict[str, Phase]:
    """Read named numbers of one object of a body.

    Args:
        section: Path of the object, names with dots between them.
        fields: Name of a number in it -> phase it is the time of.
        unit_ns: What the numbers count in.
    """
    try:
        values = _object_at(body, section.split("."))
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {
        phase: Phase(ns=round(values[name] * unit_ns), source="reported", field=f"{section}.{name}")
        for name, phase in fields.items()
        if _is_time(values.get(name), unit_ns)
    }


def _object_at(body: bytes | msgspec.Raw, path: list[str]) -> Any:
    found = _fields_of(body)
    if path[0] not in found and "response" in found:
        found = _fields_of(found["response"])
    for name in path[:-1]:
        found = _fields_of(found[name])
    return msgspec.json.decode(found[path[-1]])


def _is_time(value: object, unit_ns: int) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value * unit_ns < _LONGEST_NS
    )
