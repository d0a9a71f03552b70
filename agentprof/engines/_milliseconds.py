"""Reported times in milliseconds as phases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from agentprof.model import Phase

_NS_PER_MS: Final = 1_000_000
_top = msgspec.json.Decoder(dict[str, msgspec.Raw])


def phases_from(body: bytes, section: str, fields: Mapping[str, str]) -> dict[str, Phase]:
    """Read named numbers of one object of a body.

    Args:
        section: Name of the object.
        fields: Name of a number in it -> phase it is the time of.
    """
    try:
        top = _top.decode(body)
        if section not in top and "response" in top:
            top = _top.decode(top["response"])
        values = msgspec.json.decode(top[section])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {
        phase: Phase(ns=round(values[name] * _NS_PER_MS), source="reported", field=f"{section}.{name}")
        for name, phase in fields.items()
        if _is_time(values.get(name))
    }


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and 0 <= value < 1e12
    )
