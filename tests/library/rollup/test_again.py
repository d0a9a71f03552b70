"""Retries, repeats and the waste of failed runs, told by fingerprints."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support.spans import TASK, call, cost, failed, step, task, tool, usage

from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.summary import TaskSummary


def rolled(*spans: Span) -> TaskSummary:
    return roll_up(TASK, [task("root", 0, 1000), *spans])


def ran(span_id: str, start: int, end: int, arguments: str | None, **more: Any) -> Span:
    return tool(span_id, start, end, "root", **{"title": "search", "fingerprint": arguments} | more)


def test_a_failed_call_asked_again_is_a_retry() -> None:
    """Its cost, tokens and time are waste; the run that succeeded is not."""
    spent = {"usage": usage(100, 5), "cost": cost("0.01"), "fingerprint": "a"}
    summary = rolled(
        call("c1", 0, 10, "root", error=True, **spent),
        call("c2", 20, 40, "root", error=True, **spent),
        call("c3", 50, 90, "root", **spent),
        call("c4", 100, 110, "root", error=True, fingerprint="b"),
    )
    assert (summary.retries["call"], summary.repeats["call"]) == (2, 0)
    assert summary.wasted == {
        "cost_usd": Decimal("0.02"),
        "input_tokens": 200,
        "output_tokens": 10,
        "time_ns": 30,
    }


def test_a_call_that_succeeded_and_is_asked_again_is_a_repeat() -> None:
    """Which is no waste."""
    summary = rolled(
        call("c1", 0, 10, "root", fingerprint="a", usage=usage(1, 1)),
        call("c2", 20, 30, "root", fingerprint="a", usage=usage(1, 1)),
        call("c3", 20, 30, "root", fingerprint="b"),
    )
    assert (summary.retries["call"], summary.repeats["call"]) == (0, 1)
    assert summary.wasted["time_ns"] == 0


def test_asked_several_times_at_once() -> None:
    """A vote is made of repeats; a second request beside one that fails later is neither retry nor repeat."""
    vote = rolled(*(call(f"c{i}", i, 50 + i, "root", fingerprint="a") for i in range(3)))
    hedge = rolled(
        call("c1", 0, 50, "root", fingerprint="a", error=True), call("c2", 10, 40, "root", fingerprint="a")
    )
    assert (vote.retries["call"], vote.repeats["call"]) == (0, 2)
    assert (hedge.retries["call"], hedge.repeats["call"]) == (0, 0)
    assert hedge.wasted["time_ns"] == 0


def test_a_stream_left_early_and_asked_again_is_a_retry() -> None:
    """And counts once in the waste."""
    summary = rolled(
        call("c1", 0, 10, "root", fingerprint="a", stream_end="abandoned", usage=usage(5, 2)),
        call("c2", 20, 30, "root", fingerprint="a"),
    )
    assert summary.retries["call"] == 1
    assert (summary.wasted["input_tokens"], summary.wasted["time_ns"]) == (5, 10)


def test_attempts_inside_a_failed_run_count_once() -> None:
    """The time of the run contains that of its attempts."""
    attempts = {"attempts": 2, "failed_attempts": (failed(3, 2), failed(4, 0, "500"))}
    again = rolled(
        call("c1", 0, 10, "root", fingerprint="a", error=True, **attempts),
        call("c2", 20, 30, "root", fingerprint="a", attempts=1),
    )
    alone = rolled(call("c1", 0, 10, "root", fingerprint="a", error=True, **attempts))
    assert again.wasted["time_ns"] == 10
    assert alone.wasted["time_ns"] == 9


def test_a_failed_tool_run_again() -> None:
    """Same tool, same arguments; what its run had called is waste with it, and its time counts once."""
    summary = rolled(
        ran("t1", 0, 50, "x", error=True, cost=cost("0.5")),
        call("c1", 10, 40, "t1", usage=usage(7, 1), cost=cost("0.1"), stream_end="abandoned"),
        ran("t2", 60, 80, "x"),
        ran("t3", 90, 95, "y", error=True),
        ran("t4", 100, 105, "x"),
    )
    assert summary.retries["tool"] == 1
    assert summary.repeats["tool"] == 1
    assert summary.wasted == {
        "cost_usd": Decimal("0.6"),
        "input_tokens": 7,
        "output_tokens": 1,
        "time_ns": 50,
    }


@pytest.mark.parametrize("fingerprint", [None, "a"])
def test_unknown_where_nothing_says_what_was_asked(fingerprint: str | None) -> None:
    """Calls without fingerprints are not told apart: null, not 0; a task without any has none for certain."""
    summary = rolled(call("c1", 0, 10, "root", fingerprint=fingerprint), step("s", 20, 30, "root"))
    known = None if fingerprint is None else 0
    assert (summary.retries["call"], summary.repeats["call"]) == (known, known)
    assert (summary.retries["tool"], summary.repeats["tool"]) == (0, 0)


def test_different_tools_with_the_same_arguments() -> None:
    """Are different things."""
    assert rolled(ran("t1", 0, 10, "x"), ran("t2", 20, 30, "x", title="fetch")).repeats["tool"] == 0
