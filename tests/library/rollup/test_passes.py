"""Each pass on the smallest tree that needs it, and the order of the passes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from support.spans import TASK, TRACE, call, cost, http, reported, span, step, task, tool, usage

from agentprof.model import Span
from agentprof.rollup import passes, plain_tree, roll_up
from agentprof.summary import TaskSummary

ROOT = task("root", 0, 100_000_000)


def rolled(*spans: Span) -> TaskSummary:
    """The summary of a task of these spans."""
    return roll_up(TASK, [ROOT, *spans])


def warned(summary: TaskSummary) -> dict[str, int]:
    """Warnings by code."""
    return {warning.code: warning.count for warning in summary.warnings}


def test_the_order_of_the_passes() -> None:
    """It is part of the meaning; the reasons stand beside the list."""
    assert [make_plain.__name__ for make_plain in passes.PASSES] == [
        "end_open_spans",
        "give_evidence",
        "take_in_reports",
        "join_twins",
        "unwrap_calls",
        "keep_outermost_tools",
    ]


def test_of_copies_the_ended_then_the_later_then_the_fuller_counts() -> None:
    """Whatever order they come in."""
    started = call("c", 0, None, "root")
    early = call("c", 0, 10, "root", attributes_count=9)
    late = call("c", 0, 20, "root", attributes_count=1)
    fuller = call("c", 0, 20, "root", attributes_count=2, usage=usage(5, 1))
    assert rolled(started, early, late).busy_ns["model"] == 20
    assert rolled(fuller, late, started).tokens["input"] == 5


def test_an_open_span_ends_with_its_last_descendant_else_at_its_start() -> None:
    """Counted as `no_end`."""
    summary = rolled(step("s", 10, None, "root"), call("c", 20, 50, "s"), tool("x", 60, None, "root"))
    assert summary.timeline_ns["step"] == 10
    assert summary.timeline_ns["model"] == 30
    assert warned(summary) == {"no_end": 2}


def test_an_engine_span_gives_its_times_to_the_call_above() -> None:
    """Through an HTTP span; it is no call and no wrapper."""
    engine = call("e", 10, 90, "h", server_side=True, phases={"prefill": reported(30)}, usage=usage(7, 7))
    summary = rolled(call("c", 0, 100, "root", usage=usage(1, 1)), http("h", 5, 95, "c"), engine)
    assert (summary.calls, summary.tokens["input"]) == (1, 1)
    assert summary.timeline_ns["prefill"] == 30


def test_an_engine_span_with_no_call_above_is_the_call() -> None:
    """It is the only witness; a tool above is no call."""
    summary = rolled(tool("x", 0, 100, "root"), call("e", 10, 90, "x", server_side=True, usage=usage(7, 7)))
    assert (summary.calls, summary.tokens["input"]) == (1, 7)


def test_a_server_span_with_calls_below_stays() -> None:
    """A service that the task called, with its own work."""
    service = span("svc", 10, 90, "root", server_side=True)
    tree = plain_tree(TASK, [ROOT, service, call("c", 20, 50, "svc")])
    assert {node.span.span_id for node in tree.nodes} == {"svc", "c"}


def test_children_of_a_span_that_leaves_hang_from_its_parent() -> None:
    """The tool under the HTTP span is a child of the step then."""
    tree = plain_tree(TASK, [ROOT, step("s", 0, 90, "root"), http("h", 0, 80, "s"), tool("x", 10, 20, "h")])
    (found,) = tree.of_kind("tool")
    assert found.parent is not None
    assert found.parent.title == "s"


def test_a_wrapper_gives_what_only_it_knows_to_the_one_call_below() -> None:
    """Usage, cost and outcome; the call's own values stay."""
    wrapper = call("w", 0, 60, "root", usage=usage(10, 5), cost=cost("0.5"), error=True, provider="openai")
    inner = call("c", 10, 50, "w", usage=usage(9, None))
    summary = rolled(wrapper, inner)
    assert summary.calls == 1
    assert (summary.tokens["input"], summary.tokens["output"]) == (9, 5)
    assert summary.cost_usd == Decimal("0.5")
    assert summary.errors["call"] == 1
    assert summary.models["m"].provider == "openai"


def test_what_a_wrapper_of_two_calls_reports_is_dropped() -> None:
    """With a warning: whose it was cannot be told."""
    summary = rolled(
        call("w", 0, 90, "root", usage=usage(30, 30)),
        call("a", 10, 40, "w", usage=usage(10, 10)),
        call("b", 50, 80, "w", usage=usage(20, 20)),
    )
    assert (summary.calls, summary.tokens["input"]) == (2, 30)
    assert warned(summary) == {"double_report": 1}


def test_a_call_with_usage_and_an_id_of_its_own_is_no_wrapper() -> None:
    """A call made while another one streams, say."""
    outer = call("o", 0, 90, "root", usage=usage(1, 1), response_id="r1")
    assert rolled(outer, call("i", 10, 40, "o", usage=usage(2, 2), response_id="r2")).calls == 2
    assert rolled(outer, call("i", 10, 40, "o", usage=usage(2, 2), response_id="r1")).calls == 1
    assert rolled(outer, call("i", 10, 40, "o", usage=usage(2, 2))).calls == 1


def test_a_tool_between_two_model_spans_makes_them_two_calls() -> None:
    """A tool that calls a model."""
    summary = rolled(call("o", 0, 90, "root"), tool("x", 10, 80, "o"), call("i", 20, 70, "x"))
    assert summary.calls == 2


def test_twins_of_different_scopes_are_one_call_with_the_inner_interval() -> None:
    """The union of what they know, agentprof's values first."""
    summary = rolled(
        call("a", 10_000_000, 50_000_000, "root", scope="agentprof", response_id="r", usage=usage(5, None)),
        call("b", 8_000_000, 52_000_000, "root", scope="other", response_id="r", usage=usage(6, 7)),
    )
    assert (summary.calls, summary.busy_ns["model"]) == (1, 40_000_000)
    assert (summary.tokens["input"], summary.tokens["output"]) == (5, 7)


def test_alike_calls_at_once_do_not_swap_the_reports_around_them() -> None:
    """Where another scope's report stands above a call, no report of that scope beside it is the call's."""
    ms = 1_000_000
    spans: list[Span] = []
    for number in range(3):
        start = number * ms
        outer, middle = f"o{number}", f"m{number}"
        end = (60 - 10 * number) * ms
        spans += [
            call(outer, start, end, "root", scope="two", response_id=f"r{number}", usage=usage(5, 7)),
            call(middle, start, end, outer, scope="three", usage=usage(5, 7)),
            call(
                f"i{number}",
                start + ms,
                end - ms,
                middle,
                scope="one",
                response_id=f"r{number}",
                usage=usage(5, 7),
            ),
        ]
    summary = rolled(*spans)
    assert (summary.calls, summary.tokens["input"], summary.warnings) == (3, 15, [])


def test_twins_need_one_inside_the_other_within_five_milliseconds() -> None:
    """A shared response id alone is not enough: some frameworks use a run's id for all its calls."""
    first = call("a", 0, 20_000_000, "root", scope="one", response_id="run")
    assert rolled(first, call("b", 5_000_000, 25_000_000, "root", scope="two", response_id="run")).calls == 1
    assert rolled(first, call("b", 6_000_000, 26_000_001, "root", scope="two", response_id="run")).calls == 2
    assert rolled(first, call("b", 40_000_000, 60_000_000, "root", scope="two", response_id="run")).calls == 2


def test_twins_without_ids_need_the_same_model_and_counts() -> None:
    """Or the same interval, where one of them knows no counts."""
    known = call("a", 10, 50, "root", scope="one", usage=usage(5, 7))
    assert rolled(known, call("b", 5, 60, "root", scope="two", usage=usage(5, 7))).calls == 1
    assert rolled(known, call("b", 5, 60, "root", scope="two", usage=usage(5, 8))).calls == 2
    assert rolled(known, call("b", 5, 60, "root", scope="two", usage=usage(5, 7), model="n")).calls == 2
    assert rolled(known, call("b", 5, 60, "root", scope="two")).calls == 1
    assert rolled(known, call("b", 5, 90_000_000, "root", scope="two")).calls == 2
    asked = call("b", 5, 60, "root", scope="two", model="m-2026", request_model="m")
    assert rolled(known, asked).calls == 1


def test_calls_of_which_nothing_is_known_are_twins_only_if_their_intervals_are_the_same() -> None:
    """Two unknown counts are not equal counts."""
    first = call("a", 0, 50_000_000, "root", scope="one", error=True)
    assert rolled(first, call("b", 1_000_000, 51_000_000, "root", scope="two", error=True)).calls == 1
    assert rolled(first, call("b", 10_000_000, 40_000_000, "root", scope="two", error=True)).calls == 2


def test_spans_of_one_scope_are_never_twins() -> None:
    """Two equal calls at once are two calls."""
    two = [call(i, 10, 50, "root", scope="one", usage=usage(5, 7)) for i in ("a", "b")]
    assert rolled(*two).calls == 2


def test_children_of_twins_hang_from_the_result() -> None:
    """Also those of the span that went away."""
    tree = plain_tree(
        TASK,
        [
            ROOT,
            call("a", 10, 50, "root", scope="one", response_id="r"),
            call("b", 5, 60, "root", scope="two", response_id="r"),
            tool("x", 20, 30, "b"),
        ],
    )
    (found,) = tree.of_kind("tool")
    assert found.parent is tree.of_kind("model")[0]


def test_of_nested_tools_the_outermost_is_the_run() -> None:
    """Unless a call stands between; costs of the parts go to the whole that has none."""
    summary = rolled(
        tool("outer", 0, 90, "root"),
        tool("part", 10, 40, "outer", cost=cost("0.25")),
        step("between", 40, 80, "outer"),
        tool("part2", 50, 60, "between", cost=cost("0.5")),
        call("c", 60, 80, "outer"),
        tool("own", 65, 70, "c"),
    )
    assert {name: row.runs for name, row in summary.tools.items()} == {"outer": 1, "own": 1}
    assert summary.tool_cost_usd == Decimal("0.75")
    assert warned(summary) == {"nested_tool": 2}


def test_what_lies_outside_its_parent_keeps_cost_and_counts_as_skew() -> None:
    """Nothing is shifted."""
    late = call("c", 60, 70, "s", usage=usage(3, 3), cost=cost("0.1"))
    summary = rolled(step("s", 10, 40, "root"), late)
    assert summary.timeline_ns["model"] == 0
    assert (summary.tokens["input"], summary.cost_usd) == (3, Decimal("0.1"))
    assert warned(summary) == {"clock_skew": 1}


def test_what_runs_past_the_task_counts_in_cost_not_in_time() -> None:
    """With a warning."""
    summary = rolled(call("c", 90_000_000, 150_000_000, "root", cost=cost("0.1")))
    assert (summary.wall_ns, summary.timeline_ns["model"]) == (100_000_000, 10_000_000)
    assert summary.cost_usd == Decimal("0.1")
    assert warned(summary) == {"past_end": 1}


def test_an_implicit_task_is_the_trace() -> None:
    """Named by its root, failed if the root failed, complete if nothing is known to be missing."""
    root = span("POST /chat", 0, 100, server_side=True, error=True)
    summary = roll_up(f"trace:{TRACE}", [root, call("c", 0, 50, "POST /chat")])
    assert (summary.name, summary.task_source, summary.outcome) == ("POST /chat", "trace", "failure")
    assert summary.complete
    assert not roll_up(f"trace:{TRACE}", [root, call("c", 0, 50, "gone")]).complete


@pytest.mark.parametrize("same_counts", [True, False])
@pytest.mark.parametrize("apart_ns", [0, 10_000])
def test_a_thousand_calls_at_once_seen_by_two_are_a_thousand(same_counts: bool, apart_ns: int) -> None:
    """However close together they start, and whether or not their tokens tell them apart."""
    spans = [task("t", 0, 2 * 10**9)]
    for number in range(1000):
        start = 10**6 + number * apart_ns
        known = {"usage": usage(10 if same_counts else number, 5)}
        spans.append(call(f"a{number:04}", start, 10**9 + start, "t", scope="first", **known))
        spans.append(call(f"b{number:04}", start + 1000, 10**9 + start - 1000, "t", scope="second", **known))
    summary = roll_up(TASK, spans)
    assert summary.calls == 1000
    assert summary.tokens["input"] == (10_000 if same_counts else 499_500)
