"""Energy of the calls of a task: what is known, by how it is known and by what it includes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentprof.model import ENERGY_SOURCES, Energy, EnergySource
from agentprof.rollup.tree import Node
from agentprof.summary import EnergyRow, Joules

_Key = tuple[EnergySource, str, str, str | None]


def energy_fields(calls: Sequence[Node]) -> dict[str, Any]:
    """`energy_j`, the rows that it is the sum of, and the calls that are in none of them."""
    known = [node.call.energy for node in calls if node.call is not None and node.call.energy is not None]
    rows: dict[_Key, list[Energy]] = {}
    for energy in known:
        rows.setdefault((energy.source, energy.boundary, energy.covers, energy.basis), []).append(energy)
    return {
        "energy_j": _sum(known),
        "energy": [_row(key, rows[key]) for key in sorted(rows, key=_order)],
        "calls_without_energy": len(calls) - len(known),
    }


def joules_of(node: Node) -> Joules | None:
    """The energy of a call, where known."""
    energy = energy_of(node)
    return None if energy is None else joules(energy.low_uj, energy.high_uj)


def energy_of(node: Node) -> Energy | None:
    """What is known of a call's energy."""
    return node.call.energy if node.kind == "model" and node.call is not None else None


def joules(low_uj: int, high_uj: int) -> Joules:
    """An interval of whole microjoules in joules."""
    return {"low": low_uj / 1e6, "high": high_uj / 1e6}


def microjoules(bounds: Joules) -> tuple[int, int]:
    """An interval as it was before `joules`."""
    return round(bounds["low"] * 1e6), round(bounds["high"] * 1e6)


def _row(key: _Key, found: Sequence[Energy]) -> EnergyRow:
    source, boundary, covers, basis = key
    return EnergyRow(
        source=source,
        boundary=boundary,
        covers=covers,
        basis=basis,
        low_j=sum(energy.low_uj for energy in found) / 1e6,
        high_j=sum(energy.high_uj for energy in found) / 1e6,
        calls=len(found),
    )


def _sum(found: Sequence[Energy]) -> Joules | None:
    if not found:
        return None
    return joules(sum(energy.low_uj for energy in found), sum(energy.high_uj for energy in found))


def _order(key: _Key) -> tuple[int, str, str, str]:
    source, boundary, covers, basis = key
    return ENERGY_SOURCES.index(source), boundary, covers, basis or ""
