"""Joining what two instrumentations saw of one call moves spans, and loses none."""

from __future__ import annotations

from support.spans import TASK, call, step, task, usage

from agentprof.rollup import plain_tree, roll_up
from agentprof.rollup.calls import call_rows


def test_pairs_that_lie_in_each_other() -> None:
    """Each of two calls has below it a step, and in that what the other call became: both are there, once."""
    spans = [
        task("root", 0, 100),
        call("a", 0, 90, "root", scope="one", response_id="first", usage=usage(1, 1)),
        step("in a", 5, 60, "a"),
        call("m", 10, 50, "in a", scope="two", response_id="second", usage=usage(2, 2)),
        call("b", 0, 90, "root", scope="one", response_id="second", usage=usage(2, 2)),
        step("in b", 5, 60, "b"),
        call("n", 10, 50, "in b", scope="two", response_id="first", usage=usage(1, 1)),
    ]
    tree = plain_tree(TASK, spans)
    assert {node.span.span_id for node in tree.top_down()} == {node.span.span_id for node in tree.nodes} - {
        "root"
    }
    above = {
        node.span.span_id: node.parent.span.span_id for node in tree.top_down() if node.parent is not None
    }
    assert above == {"in a": "root", "m": "in a", "in b": "root", "n": "in b"}
    summary = roll_up(TASK, spans)
    assert (summary.calls, summary.tokens["input"]) == (2, 3)
    assert sum(node.self.calls for node in summary.nodes) == 2
    assert [row.path for row in call_rows(TASK, spans)] == [["root", "in a", "m"], ["root", "in b", "m"]]
