"""Times that engines report: read into phases, or named as faults where they cannot be true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agentprof.model import Phase, Source

if TYPE_CHECKING:
    from agentprof.dialects import Answer

MILLISECONDS: Final = 1_000_000
"""In ns."""
SECONDS: Final = 1_000_000_000

NEGATIVE: Final = "negative"
NOT_A_NUMBER: Final = "not a number"
TOO_LONG: Final = "longer than any call"

_LONGEST_NS: Final = 10**18
_FAULTS: Final = 16
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def object_at(body: bytes, path: str) -> dict[str, Any] | None:
    """An object inside a body, or inside the `response` an event carries; None: there is none.

    Args:
        path: Names with dots between them.
    """
    names = path.split(".")
    try:
        found = _fields_of(body)
        if names[0] not in found and "response" in found:
            found = _fields_of(found["response"])
        for name in names[:-1]:
            found = _fields_of(found[name])
        value = msgspec.json.decode(found[names[-1]])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def duration(value: object, field: str, unit_ns: int, answer: Answer) -> int | None:
    """A duration in ns; None: not given, or one that cannot be, which is then a fault of the answer.

    Args:
        value: A number, or the text of one.
        field: Path of the raw field.
        unit_ns: What it counts in.
    """
    if value is None:
        return None
    counted = number(value)
    if counted is None:
        fault(answer, field, NOT_A_NUMBER)
    elif counted < 0:
        fault(answer, field, NEGATIVE)
    elif counted * unit_ns >= _LONGEST_NS:
        fault(answer, field, TOO_LONG)
    else:
        return round(counted * unit_ns)
    return None


def note(answer: Answer, phase: str, ns: int | None, field: str, source: Source = "reported") -> None:
    """Note a phase, if its time is known and no finer reader has given it; what cannot be is a fault."""
    if ns is not None and ns >= _LONGEST_NS:
        fault(answer, field, TOO_LONG)
    elif ns is not None:
        answer.phases.setdefault(phase, Phase(ns=ns, source=source, field=field))


def note_fields(
    answer: Answer, values: Mapping[str, Any], section: str, fields: Mapping[str, str], unit_ns: int
) -> None:
    """Note the numbers of one object.

    Args:
        section: Path of the object.
        fields: Name of a number in it -> phase it is the time of.
        unit_ns: What the numbers count in.
    """
    for name, phase in fields.items():
        field = f"{section}.{name}"
        note(answer, phase, duration(values.get(name), field, unit_ns, answer), field)


def fault(answer: Answer, field: str, reason: str) -> None:
    """Name a reported time that cannot be."""
    said = f"{field}: {reason}"
    if said not in answer.timing_faults and len(answer.timing_faults) < _FAULTS:
        answer.timing_faults += (said,)


def number(value: object) -> float | None:
    """A finite number, or the text of one; None: it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
