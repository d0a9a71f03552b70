"""Who owns each instant of a task: the walk back from its end.

Jaeger's critical path with one difference: time it gives to a parent although a child was running goes to
that child. In a stretch of a span, from a cut (at first its end): the child that was last to finish at or
before the cut is taken; the gap between that finish and the cut belongs to the child still running at the
cut that started first, from its start on; what is left of the gap is the span's own. Then the finished
child's stretch follows, and its start is the next cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter

from agentprof.rollup.tree import Node, Tree

Stretch = tuple[Node, int, int]
"""A piece of the wall: the span whose own time it is, start and end."""


_Piece = tuple[int, int]
"""Start and end of a part of a span's time; those of one span stand in order, the latest first."""

_MANY_PIECES = 8
"""Of a span with more, those that one child has whole are passed on together."""

_end_and_start = attrgetter("end", "start")


def _minus_low(piece: _Piece) -> int:
    return -piece[0]


class _Children:
    """Children of one span, sorted once by end, with who started first among those that end later."""

    __slots__ = ("by_end", "ends", "first_started")

    def __init__(self, nodes: list[Node]) -> None:
        by_end = sorted((node for node in nodes if node.end > node.start), key=_end_and_start)
        if len(set(map(_end_and_start, by_end))) < len(by_end):
            # Two sorts, the second stable: of equal ends and starts the smaller ids come last and are taken first.
            by_end.sort(key=lambda node: (node.span.trace_id, node.span.span_id), reverse=True)
            by_end.sort(key=_end_and_start)
        self.by_end = by_end
        self.ends = [node.end for node in by_end]
        self.first_started: list[Node] = []
        first: Node | None = None
        for node in reversed(by_end):
            if (
                first is None
                or node.start < first.start
                or (node.start == first.start and node.order < first.order)
            ):
                first = node
            self.first_started.append(first)
        self.first_started.reverse()


def walk(tree: Tree) -> Iterator[Stretch]:
    """The own stretches of all spans; together they cover the root's interval exactly once, in no order."""
    pending: list[tuple[Node, list[_Piece]]] = [(tree.root, [(tree.root.start, tree.root.end)])]
    while pending:
        owner, pieces = pending.pop()
        if not owner.children:
            for low, cut in pieces:
                if low < cut:
                    yield owner, low, cut
            continue
        below = _Children(owner.children)
        given: dict[int, tuple[Node, list[_Piece]]] = {}
        at = 0
        while at < len(pieces):
            low, cut = pieces[at]
            passed = _passed_on(below, pieces, at) if at + _MANY_PIECES < len(pieces) else None
            if passed is not None:
                child, end = passed
                _give(given, child, pieces if at == 0 and end == len(pieces) else pieces[at:end])
                at = end
                continue
            at += 1
            while cut > low:
                i = bisect_right(below.ends, cut)
                finished = below.by_end[i - 1] if i and below.ends[i - 1] > low else None
                gap_start = low if finished is None else finished.end
                if gap_start < cut:
                    running = below.first_started[i] if i < len(below.ends) else None
                    own_end = cut
                    if running is not None and running.start < cut:
                        own_end = max(gap_start, running.start)
                        _give(given, running, [(own_end, cut)])
                    if gap_start < own_end:
                        yield owner, gap_start, own_end
                if finished is None:
                    break
                cut = max(finished.start, low)
                _give(given, finished, [(cut, finished.end)])
        pending.extend(given.values())


def _passed_on(below: _Children, pieces: list[_Piece], at: int) -> tuple[Node, int] | None:
    """The child that has the piece and those after it up to a place whole; None: the piece is divided.

    Where one child runs along all of many pieces they are not looked at one by one: else spans one inside the other
    beside as many gaps would cost their product.
    """
    low, cut = pieces[at]
    i = bisect_right(below.ends, cut)
    if i == len(below.ends):
        return None
    running = below.first_started[i]
    if running.start > low or (i and below.ends[i - 1] > low):
        return None
    floor = max(running.start, below.ends[i - 1]) if i else running.start
    return running, bisect_right(pieces, -floor, lo=at + 1, key=_minus_low)


def _give(given: dict[int, tuple[Node, list[_Piece]]], child: Node, pieces: list[_Piece]) -> None:
    """Add pieces, which lie before all that the child has so far."""
    known = given.get(id(child))
    if known is None:
        given[id(child)] = (child, pieces)
    else:
        known[1].extend(pieces)
