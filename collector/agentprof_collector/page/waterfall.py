"""The waterfall of a task: a bar a run, on one scale of time, with the phases of calls inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentprof import _format as fmt
from agentprof._render import sum_tokens
from agentprof.rollup.profile import on_timeline
from agentprof_collector.page.bars import Piece, Scale, spans_of

ROWS = 300
"""Runs that are drawn; of more the longest."""
_DEPTH = 12
_COLOURS = {"tool": "tool", "human": "human", "model": "model"}
"""Of runs that own their time; those that only hold others are drawn as a line."""


def waterfall_view(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows of the runs of a task."""
    scale = spans_of(document["spans"])
    return {
        "rows": [_row(row, scale) for row in document["spans"]],
        "ticks": scale.ticks(),
        "hidden": document["count"] - len(document["spans"]),
        "shortest": fmt.duration(min(row["duration_ns"] for row in document["spans"])),
        "has_content": any(row["has_content"] for row in document["spans"]),
        "services": len({row["service"] for row in document["spans"]}) > 1,
    }


def _row(row: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    used = sum_tokens(row["tokens"])
    return {
        "depth": min(row["depth"], _DEPTH),
        "kind": row["kind"],
        "name": (row["name"] or "(no name)") + (" (inferred)" if row["inferred"] else ""),
        "error": row["error"],
        "error_type": row["error_type"] or "error",
        "service": row["service"] or "",
        "start": fmt.duration(max(0, row["start_ns"] - scale.start_ns)),
        "duration": fmt.duration(row["duration_ns"]),
        "own": fmt.duration(row["path_ns"]),
        "attempts": row["attempts"] if (row["attempts"] or 1) > 1 else None,
        "tokens": "" if used is None else fmt.short_count(used),
        "cost": "" if row["cost_usd"] is None else fmt.money(row["cost_usd"]),
        "holds": row["kind"] not in _COLOURS,
        "pieces": _pieces(row, scale),
        "phases": ", ".join(
            f"{phase['name'].replace('_', ' ')} {fmt.duration(phase['ns'])} ({phase['source']})"
            for phase in row["phases"]
        ),
        "more": _more(row),
    }


def _more(row: Mapping[str, Any]) -> str:
    """What else is known of a call: its measured token rates and its energy."""
    known = [
        f"{name} {fmt.rate(row[f'{name}_tokens_per_s'])} tokens"
        for name in ("prefill", "generation")
        if row[f"{name}_tokens_per_s"] is not None
    ]
    if row["energy_j"] is not None:
        known.append(fmt.energy(row["energy_j"]))
    return ", ".join(known)


def _pieces(row: Mapping[str, Any], scale: Scale) -> list[Piece]:
    """The phases of a call, one after the other; of another run one piece."""
    begin, end = row["start_ns"], row["start_ns"] + row["duration_ns"]
    if not row["phases"]:
        name = _COLOURS.get(row["kind"], "holds")
        return [scale.piece(name, begin, end, f"{row['kind']} {fmt.duration(row['duration_ns'])}")]
    found = []
    for phase in row["phases"]:
        title = f"{phase['name'].replace('_', ' ')} {fmt.duration(phase['ns'])}, {phase['source']}"
        found.append(scale.piece(on_timeline(phase["name"]), begin, begin + phase["ns"], title))
        begin += phase["ns"]
    return found
