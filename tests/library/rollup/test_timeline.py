"""The timeline of small trees, computed by hand."""

from __future__ import annotations

import pytest
from support.spans import TASK, TRACE, call, failed, http, observed, reported, span, step, task, tool

from agentprof.model import Span, TaskMark
from agentprof.rollup import plain_tree, roll_up
from agentprof.rollup.timeline import walk

OTHER_TRACE = "0" * 31 + "2"
ROOT = task("root", 0, 100)

CASES: dict[str, tuple[list[Span], dict[str, int]]] = {
    "an empty task is all other": ([ROOT], {"other": 100}),
    "one call in the middle": ([ROOT, call("c", 20, 60, "root")], {"model": 40, "other": 60}),
    "call and tool in turn": (
        [ROOT, call("c", 0, 40, "root"), tool("x", 50, 90, "root")],
        {"model": 40, "tool": 40, "other": 20},
    ),
    # From 100: the branch with b2 (95..100) finishes last; in every gap of 1 the other branch is running.
    "two parallel branches with gaps of 1 between their parts": (
        [
            ROOT,
            call("a1", 0, 30, "root"),
            call("a2", 31, 60, "root"),
            call("a3", 61, 95, "root"),
            tool("b1", 0, 45, "root"),
            tool("b2", 46, 100, "root"),
        ],
        # 100..46 tool b2; 46..45: a2 runs; b1 45..0.
        {"tool": 99, "model": 1},
    ),
    # The stream s is open to the end: it finishes last and owns everything from its start.
    "a stream left open to the end": (
        [ROOT, call("s", 10, 100, "root"), tool("x", 20, 50, "root")],
        {"model": 90, "other": 10},
    ),
    # bg ends after the root: it runs at every cut and takes each gap, but no finished child's stretch.
    "a background step over everything": (
        [ROOT, step("bg", 0, 150, "root"), call("c", 20, 40, "root"), tool("x", 60, 90, "root")],
        {"model": 20, "tool": 30, "step": 50},
    ),
    # x finishes last (80); at its start (30) the stream c (to 50) is running and takes 30..10.
    "a tool that starts while its call still streams": (
        [ROOT, call("c", 10, 50, "root"), tool("x", 30, 80, "root")],
        {"tool": 50, "model": 20, "other": 30},
    ),
    # The child runs past its parent: at the parent's end it is running, from its start on.
    "overflow past the parent": (
        [ROOT, step("s", 10, 50, "root"), call("c", 30, 70, "s")],
        {"step": 20, "model": 20, "other": 60},
    ),
    # Both end at 80: the later start is taken first; at 40 the other one runs (it ends later) and has 40..20.
    "equal ends": (
        [ROOT, call("c", 20, 80, "root"), tool("x", 40, 80, "root")],
        {"tool": 40, "model": 20, "other": 40},
    ),
    "equal ends and starts: the smaller id": (
        [ROOT, call("a", 20, 80, "root"), tool("b", 20, 80, "root")],
        {"model": 60, "other": 40},
    ),
    "zero lengths own nothing": (
        [ROOT, call("c", 50, 50, "root"), tool("x", 100, 100, "root")],
        {"other": 100},
    ),
    "a task over two traces": (
        [
            ROOT,
            call("c", 10, 30, "root"),
            tool("far", 40, 90, None, trace_id=OTHER_TRACE, task=TaskMark(id=TASK)),
            call("deep", 50, 60, "far", trace_id=OTHER_TRACE),
        ],
        {"model": 30, "tool": 40, "other": 30},
    ),
    # The wrapper's own time is other; the call inside owns its part.
    "a wrapper around a call": (
        [ROOT, call("w", 10, 60, "root"), call("c", 20, 50, "w")],
        {"model": 30, "other": 70},
    ),
    # The HTTP span and the engine's span leave; the engine's figures divide the call.
    "engine and HTTP spans under a call": (
        [
            ROOT,
            call("c", 0, 100, "root"),
            http("h", 5, 95, "c"),
            call(
                "e",
                10,
                90,
                "h",
                server_side=True,
                phases={"queue": reported(10), "prefill": reported(20), "generation": reported(40)},
            ),
        ],
        {"network": 30, "queue": 10, "prefill": 20, "generation": 40},
    ),
    "time inside a transparent span is that of the tool above": (
        [ROOT, tool("x", 0, 100, "root"), span("db", 20, 60, "x")],
        {"tool": 100},
    ),
    "a call inside a tool": (
        [ROOT, tool("x", 10, 90, "root"), call("c", 30, 50, "x")],
        {"tool": 60, "model": 20, "other": 20},
    ),
    "waiting for a person": (
        [ROOT, span("h", 30, 90, "root", kind="human"), call("c", 0, 30, "root")],
        {"human": 60, "model": 30, "other": 10},
    ),
    # The call owns 0..10 and 60..100 of 0..100: its backoff (20..40) lies in what the tool owns.
    "a call that owns some stretches contributes what lies inside them": (
        [
            ROOT,
            call(
                "c",
                0,
                100,
                "root",
                attempts=2,
                failed_attempts=(failed(20, 20),),
                first_token_ns=70,
                phases={"client": observed(10)},
            ),
            tool("x", 10, 60, "c"),
        ],
        # failed 0..20, backoff 20..40, wait 40..70, generation 70..90, client 90..100
        {"failed_attempt": 10, "tool": 50, "wait": 10, "generation": 20, "other": 10},
    ),
    # At 100 both run on; the one that started first has the gap from its start, 20; then nothing is left.
    "of several running children the one that started first": (
        [ROOT, call("c", 20, 130, "root"), tool("x", 40, 120, "root")],
        {"model": 80, "other": 20},
    ),
    "a child wholly outside its parent owns nothing": (
        [ROOT, step("s", 10, 40, "root"), call("c", 50, 70, "s")],
        {"step": 30, "other": 70},
    ),
    "a span with a missing parent hangs from the task": (
        [ROOT, call("c", 30, 50, "gone", task=TaskMark(id=TASK))],
        {"model": 20, "other": 80},
    ),
    "a parent cycle hangs from the task": (
        [
            ROOT,
            step("a", 10, 50, "b", task=TaskMark(id=TASK)),
            step("b", 60, 90, "a", task=TaskMark(id=TASK)),
        ],
        {"step": 70, "other": 30},
    ),
}


@pytest.mark.parametrize(("spans", "expected"), CASES.values(), ids=CASES.keys())
def test_timeline_equals_the_hand_computed_values(spans: list[Span], expected: dict[str, int]) -> None:
    """Each part of the timeline, and nothing in any other part."""
    summary = roll_up(TASK, spans)
    assert {part: ns for part, ns in summary.timeline_ns.items() if ns} == expected
    assert summary.wall_ns == 100


def test_the_only_agent_root_of_a_trace_counts_as_the_task() -> None:
    """Its own time is other, while an agent below it is a step."""
    root = span("agent", 0, 100, kind="agent")
    inner = span("inner", 10, 40, "agent", kind="agent")
    summary = roll_up(f"trace:{TRACE}", [root, inner])
    assert (summary.timeline_ns["other"], summary.timeline_ns["step"]) == (70, 30)
    assert summary.name == "agent"


def test_several_roots_span_from_the_first_start_to_the_last_end() -> None:
    """With no span that starts the task the wall is the extent."""
    summary = roll_up(f"trace:{TRACE}", [call("a", 10, 30), call("b", 50, 80)])
    assert summary.wall_ns == 70
    assert summary.timeline_ns["model"] == 50


def test_a_task_of_one_call_has_the_call_below_it() -> None:
    """A root that is a call is what the task did, not the task."""
    summary = roll_up(f"trace:{TRACE}", [call("c", 10, 30, model="gpt")])
    assert [row.path for row in summary.nodes] == [["gpt"], ["gpt", "gpt"]]
    assert summary.timeline_ns["model"] == summary.wall_ns == 20


def test_the_walk_of_ten_thousand_siblings_has_at_most_two_stretches_a_span() -> None:
    """However they overlap, so that the walk stays n log n; `benchmarks/rollup.py` has the seconds."""
    n = 10_000
    spans = [task("root", 0, 4 * n)]
    spans += [call(f"c{i}", i, i + 2 * n + i % 7, "root") for i in range(n)]
    tree = plain_tree(TASK, spans)
    stretches = list(walk(tree))
    assert sum(end - start for _, start, end in stretches) == 4 * n
    assert len(stretches) <= 2 * n + 1
