"""Bars as pieces of a drawing 10,000 units wide: the page stretches it to whatever room there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agentprof import _format as fmt
from agentprof import _lines

WIDTH = 10_000
_LEAST = 60
"""Units of the narrowest piece: what is there can be seen."""


class Piece(NamedTuple):
    """A rectangle of a bar."""

    name: str
    """Part of a timeline, or kind of a run; chooses the colour."""
    x: int
    width: int
    title: str


class LegendRow(NamedTuple):
    """A part of a timeline in words."""

    name: str
    time: str
    share: str
    meaning: str
    known: str
    """How: `reported 80%, observed 20%`; empty where nothing says."""


def stacked(document: Mapping[str, Any]) -> list[Piece]:
    """The parts of a timeline, one beside the other; they fill the bar.

    Args:
        document: has `timeline_ns` and `wall_ns`.
    """
    parts = _lines.parts(document)
    whole = sum(part.ns for part in parts)
    widths = [max(_LEAST, round(WIDTH * part.ns / whole)) for part in parts]
    scale = WIDTH / sum(widths) if widths else 1
    pieces = []
    x = 0.0
    for part, width in zip(parts, widths, strict=True):
        title = f"{_words(part.name)} {fmt.duration(part.ns)} ({part.share}): {_lines.PHASES[part.name][1]}"
        pieces.append(Piece(part.name, round(x), round(x + width * scale) - round(x), title))
        x += width * scale
    return pieces


def legend(document: Mapping[str, Any]) -> list[LegendRow]:
    """The parts of a timeline that are there, with how they are known where the document says it."""
    evidence = document.get("evidence_ns", {})
    return [
        LegendRow(
            part.name,
            fmt.duration(part.ns),
            part.share,
            _lines.PHASES[part.name][1],
            _known(evidence.get(part.name, {})),
        )
        for part in _lines.parts(document)
    ]


def of_groups(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group of tasks as what bars are drawn from: the walls of all its tasks together."""
    return {
        "timeline_ns": group["timeline_ns"],
        "wall_ns": sum(group["timeline_ns"].values()),
        "transport_retries": group["transport_retries"],
    }


class Scale(NamedTuple):
    """Places on a bar that stands for a stretch of time."""

    start_ns: int
    length_ns: int

    def x(self, at_ns: int) -> int:
        """Where a moment is."""
        if self.length_ns <= 0:
            return 0
        return min(WIDTH, max(0, round(WIDTH * (at_ns - self.start_ns) / self.length_ns)))

    def piece(self, name: str, start_ns: int, end_ns: int, title: str) -> Piece:
        """A stretch; one too short to be seen is a line."""
        x = min(self.x(start_ns), WIDTH - _LEAST // 3)
        return Piece(name, x, max(_LEAST // 3, self.x(end_ns) - x), title)

    def ticks(self) -> list[str]:
        """Times at the four quarters, counted from the start."""
        return [fmt.duration(self.length_ns * quarter // 4) for quarter in range(5)]


def spans_of(rows: Iterable[Mapping[str, Any]]) -> Scale:
    """The stretch in which all rows of a waterfall lie."""
    found = list(rows)
    start = min(row["start_ns"] for row in found)
    return Scale(start, max(row["start_ns"] + row["duration_ns"] for row in found) - start)


def _known(by_source: Mapping[str, int]) -> str:
    whole = sum(by_source.values())
    ordered = sorted(by_source.items(), key=lambda item: -item[1])
    if len(ordered) == 1:
        return ordered[0][0]
    return ", ".join(f"{source} {fmt.share(ns, whole)}" for source, ns in ordered if ns)


def _words(name: str) -> str:
    return name.replace("_", " ")
