"""Joining what two instrumentations saw of one call moves spans, and loses none."""

from __future__ import annotations

from support.spans import TASK, call, step, task, usage

from agentprof.rollup import plain_tree, roll_up
from agentprof.rollup.calls import call_rows

MS = 1_000_000


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


def test_calls_made_at_once_keep_their_own_reports() -> None:
    """Of reports that say neither tokens nor an id the nearest in time is joined: each call has its own then."""
    first = {"model": "m", "response_id": "first", "usage": usage(1, 2)}
    second = {"model": "m", "response_id": "second", "usage": usage(4, 74)}
    spans = [
        task("root", 0, 1000 * MS),
        call("wrapper", 14 * MS, 87 * MS, "root", scope="two", **first),
        call("a", 15 * MS, 86 * MS, "wrapper", scope="one", **first),
        call("bare a", 14 * MS, 87 * MS, "wrapper", scope="three", model="m"),
        call("beside", 9 * MS, 90 * MS, "root", scope="two", **second),
        call("b", 11 * MS, 88 * MS, "root", scope="one", **second),
        call("bare b", 10 * MS, 89 * MS, "root", scope="three", model="m"),
    ]
    summary = roll_up(TASK, spans)
    assert (summary.calls, summary.tokens["input"], summary.tokens["output"]) == (2, 5, 76)
