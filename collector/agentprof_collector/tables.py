"""Tables that leave out whole columns where a terminal is narrow, and say so, rather than cut figures."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAPS = (2, 1)
"""Between columns; the narrow one where that keeps all of them."""
_FIRST = 12
"""Columns the names of the rows have at least, if they are as long."""
_APART = 40
"""At most so many where names have to be told apart."""


class Column(NamedTuple):
    """A column after the first."""

    head: str
    leaves: int = 0
    """Where there is no room the column with the highest number goes first; 0 stays."""
    right: bool = True
    width: int = 1_000
    """Terminal columns at most; what is longer ends in "…"."""
    extra: bool = False
    """Shown only where there is room, and not missed elsewhere."""


class FittedTable:
    """Rows with a name and figures.

    Args:
        first: head of the names.
        columns: those of the figures, from left to right.
        apart: nothing but the names tells rows apart: they get the room that takes, before the figures.
    """

    def __init__(self, first: str, *columns: Column, apart: bool = False) -> None:
        self._first = first
        self._columns = columns
        self._apart = apart
        self._rows: list[tuple[Text, tuple[str | Text, ...]]] = []

    def add(self, name: Text, *cells: str | Text) -> None:
        """Add a row with a cell a column."""
        self._rows.append((name, cells))

    def print(self, console: Console) -> None:
        """Draw what fits, and name the columns that do not."""
        kept, gap = self._fitting(console.width)
        table = Table(box=None, pad_edge=False, expand=True, header_style="dim", padding=(0, gap, 0, 0))
        table.add_column(self._first, no_wrap=True, overflow="ellipsis", ratio=1, min_width=10)
        for at in kept:
            column = self._columns[at]
            table.add_column(
                column.head,
                justify="right" if column.right else "left",
                no_wrap=True,
                overflow="ellipsis",
                max_width=column.width,
            )
        for name, cells in self._rows:
            table.add_row(name, *(cells[at] for at in kept))
        console.print(table)
        left_out = [
            column.head for at, column in enumerate(self._columns) if at not in kept and not column.extra
        ]
        if left_out:
            hint = f"no room for: {', '.join(left_out)} (widen the terminal, or --json)"
            console.print(Text(hint, style="dim"))

    def _fitting(self, width: int) -> tuple[list[int], int]:
        """The columns that fit beside the names, and the gap between them."""
        sizes = [
            min(column.width, max(_cells(column.head), *(_cells(cells[at]) for _, cells in self._rows), 0))
            for at, column in enumerate(self._columns)
        ]
        names = max((name.cell_len for name, _ in self._rows), default=0)
        room = width - min(max(names, cell_len(self._first)), self._least())
        kept = list(range(len(self._columns)))
        for gap in _GAPS:
            if sum(sizes) + gap * len(sizes) <= room:
                return kept, gap
        while sum(sizes[at] + gap for at in kept) > room:
            last = max(kept, key=lambda at: self._columns[at].leaves, default=None)
            if last is None or not self._columns[last].leaves:
                break
            kept.remove(last)
        return kept, gap

    def _least(self) -> int:
        """Columns the names need."""
        names = sorted({name.plain for name, _ in self._rows}) if self._apart else []
        # Of two names that begin alike the first character that differs stays, and one more for the mark of the cut.
        return min(max([_FIRST, *(_alike(*pair) + 2 for pair in pairwise(names))]), _APART)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _cells(cell: str | Text) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(cell)
