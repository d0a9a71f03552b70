from typing import Any

import pytest
from support.spans import TASK, TRACE, call, cost, failed, http, reported, span, step, task, tool, usage

from agentprof.rollup.waterfall import SpanRow, waterfall


def shape(rows: list[SpanRow]) -> list[tuple[int, str, str]]:
    """Depth, kind and name of each row."""
    return [(row.depth, row.kind, row.name) for row in rows]


def test_rows_are_the_tree_without_what_only_measures() -> None:
    """Transparent spans and HTTP spans have no row; what is below them hangs from the row above."""
    spans = [
        task("root", 0, 100),
        step("plan", 0, 60, "root"),
        span("noise", 5, 55, "plan"),
        call("ask", 10, 50, "noise", model="m"),
        http("post", 11, 49, "ask"),
        tool("look", 60, 90, "root"),
    ]
    found = waterfall(TASK, reversed(spans))
    assert shape(found.rows) == [
        (0, "task", "root"),
        (1, "step", "plan"),
        (2, "model", "m"),
        (1, "tool", "look"),
    ]
    assert found.total == 4
    assert [(row.start_ns, row.duration_ns) for row in found.rows] == [(0, 100), (0, 60), (10, 40), (60, 30)]
    assert sum(row.path_ns for row in found.rows) == 100
    assert [row.path_ns for row in found.rows] == [10, 20, 40, 30]


def test_a_call_has_its_phases_in_order() -> None:
    """They fill it, each with how it is known, and the call says its tokens, cost and attempts."""
    spans = [
        task("root", 0, 100),
        call(
            "ask",
            0,
            100,
            "root",
            attempts=2,
            failed_attempts=(failed(10, 5),),
            first_token_ns=60,
            phases={"queue": reported(20), "prefill": reported(25)},
            usage=usage(7, 3),
            cost=cost("0.5"),
            error=True,
            error_type="Cut",
            service="worker",
            content={"output": "said"},
        ),
    ]
    ask = waterfall(TASK, spans).rows[1]
    assert [(phase.name, phase.ns, phase.source) for phase in ask.phases] == [
        ("failed_attempt", 10, "observed"),
        ("backoff", 5, "observed"),
        ("queue", 20, "reported"),
        ("prefill", 25, "reported"),
        ("generation", 40, "observed"),
    ]
    assert (ask.attempts, ask.first_token_ns, str(ask.cost_usd)) == (2, 60, "0.5")
    assert (ask.tokens["input"], ask.tokens["output"], ask.tokens["reasoning"]) == (7, 3, None)
    assert (ask.error, ask.error_type, ask.service) == (True, "Cut", "worker")
    assert (ask.trace_id, ask.span_id, ask.has_content) == (TRACE, "ask", True)


def test_of_many_the_longest_with_all_above_them() -> None:
    """A short row stays where a long one hangs from it (a child may outlast its parent)."""
    spans = [
        task("root", 0, 1000),
        step("short", 0, 1, "root"),
        tool("outlasts", 0, 900, "short"),
        *(tool(f"t{at}", at, at + 2, "root") for at in range(1, 50)),
        tool("long", 100, 300, "root"),
    ]
    found = waterfall(TASK, spans, limit=4)
    assert [row.name for row in found.rows] == ["root", "short", "outlasts", "long"]
    assert found.total == 53


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_the_limit_holds_and_no_row_is_without_those_above(limit: int) -> None:
    """Also where the longest hang deep."""
    spans: list[Any] = [task("root", 0, 1000)]
    for at in range(10):
        spans.append(step(f"s{at}", 0, 990 - at, f"s{at - 1}" if at else "root"))
    spans.append(tool("flat", 0, 995, "root"))
    rows = waterfall(TASK, spans, limit=limit).rows
    assert len(rows) == limit
    for at, row in enumerate(rows):
        above = [other for other in rows[:at] if other.depth == row.depth - 1]
        assert above or row.depth == 0


def test_a_task_without_a_span_of_its_own() -> None:
    """The first row stands for it, with no span id."""
    rows = waterfall(TASK, [call("a", 0, 10), call("b", 20, 30)]).rows
    assert (rows[0].kind, rows[0].span_id, rows[0].duration_ns) == ("task", "", 30)
    assert [row.span_id for row in rows[1:]] == ["a", "b"]
