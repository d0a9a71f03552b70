"""The walk against the rule of the design applied literally, scanning all children at every cut."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from support.generated import task_spans
from support.spans import TASK

from agentprof.model import Span
from agentprof.rollup import plain_tree
from agentprof.rollup.timeline import walk
from agentprof.rollup.tree import Node


def _decide(node: Node, low: int, cut: int, owned: Counter[str]) -> None:
    """The rule in its own words, recursive and quadratic."""
    children = [child for child in node.children if child.end > child.start]
    while cut > low:
        finished = [child for child in children if low < child.end <= cut]
        last = min(
            finished,
            key=lambda c: (-c.end, -c.start, c.span.trace_id, c.span.span_id),
            default=None,
        )
        gap_start = last.end if last is not None else low
        running = [child for child in children if child.start < cut < child.end]
        first = min(running, key=lambda c: (c.start, c.span.trace_id, c.span.span_id), default=None)
        mine_until = cut
        if first is not None and gap_start < cut:
            mine_until = max(gap_start, first.start)
            _decide(first, mine_until, cut, owned)
        owned[node.span.span_id] += mine_until - gap_start
        if last is None:
            return
        cut = max(low, last.start)
        _decide(last, cut, last.end, owned)


@given(task_spans())
def test_the_walk_gives_each_span_what_the_rule_gives_it(spans: list[Span]) -> None:
    """For every span of a task, whatever its shape."""
    tree = plain_tree(TASK, spans)
    expected: Counter[str] = Counter()
    _decide(tree.root, tree.root.start, tree.root.end, expected)
    found: Counter[str] = Counter()
    for owner, start, end in walk(tree):
        assert start < end
        found[owner.span.span_id] += end - start
    assert +found == +expected
