"""Law 4: missing usage, price, phase, attempt count or outcome is absent and counted, never 0."""

from __future__ import annotations

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from support.generated import agent_loops, task_spans, without_results, without_usage
from support.spans import TASK, call, task

from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.rollup.calls import call_rows
from agentprof.summary import TIMELINE, TOKENS


@given(task_spans())
def test_a_task_whose_calls_report_nothing_has_no_tokens_and_no_cost(spans: list[Span]) -> None:
    """Absent, with every call counted as lacking it."""
    blind = [without_usage(span) if span.kind == "model" else span for span in spans]
    summary = roll_up(TASK, blind)
    assume(summary.calls)
    assert summary.tokens == dict.fromkeys(TOKENS)
    assert summary.calls_without_usage == summary.calls
    assert summary.cost_complete is False
    missing = summary.unpriced["no_usage"] + summary.unpriced["abandoned_attempts"]
    assert missing >= summary.calls
    if summary.tool_cost_usd is None:
        assert summary.cost_usd is None


@given(task_spans())
def test_what_is_counted_is_what_somebody_reported(spans: list[Span]) -> None:
    """A class of tokens is there exactly if a call of the task has it."""
    summary = roll_up(TASK, spans)
    rows = call_rows(TASK, spans)
    for name in TOKENS:
        assert (summary.tokens[name] is None) == all(row.tokens[name] is None for row in rows)
    assert (summary.attempts is None) == (bool(rows) and all(row.attempts is None for row in rows))
    assert summary.calls_without_attempts == sum(row.attempts is None for row in rows)
    assert (summary.first_token_ns is None) == all(row.first_token_ns is None for row in rows)


@given(task_spans())
def test_an_unpriced_call_makes_the_cost_incomplete(spans: list[Span]) -> None:
    """And a whole cost means that every call has an amount, and no attempt was abandoned."""
    summary = roll_up(TASK, spans)
    if summary.cost_complete:
        assert all(row.cost_usd is not None for row in call_rows(TASK, spans) if row.stream_end == "complete")
        assert sum(summary.unpriced.values()) == 0


@given(st.integers(1, 10**9), st.booleans(), st.none() | st.integers(0, 10**9))
def test_a_call_nobody_divided_is_not_divided(duration_ns: int, error: bool, seen_ns: int | None) -> None:
    """Without evidence a call is `model`, with only a first token it is `wait` and generation: no guess."""
    summary = roll_up(TASK, [task("root", 0, duration_ns), call("c", 0, duration_ns, "root", error=error)])
    assert summary.timeline_ns["model"] == duration_ns
    assert summary.estimates == []
    if seen_ns is not None and seen_ns <= duration_ns:
        seen = call("c", 0, duration_ns, "root", first_token_ns=seen_ns)
        summary = roll_up(TASK, [task("root", 0, duration_ns), seen])
        assert summary.timeline_ns["queue"] == summary.timeline_ns["prefill"] == 0
        assert summary.timeline_ns["wait"] == seen_ns
        assert summary.timeline_ns["generation"] == duration_ns - seen_ns


@given(task_spans() | agent_loops())
def test_what_is_marked_keeps_its_time_beside_inferred_tools(spans: list[Span]) -> None:
    """Where no result was sent no tool is inferred; where one was, only idle time of tasks and steps is its."""
    silent = roll_up(TASK, [without_results(span) for span in spans])
    told = roll_up(TASK, spans)
    assert "inferred" not in silent.evidence_ns["tool"]
    assert all(not row.inferred_ns for row in silent.nodes)
    inferred = told.evidence_ns["tool"].get("inferred", 0)
    assert told.timeline_ns["tool"] == silent.timeline_ns["tool"] + inferred
    idle = {"step", "other"}
    assert sum(silent.timeline_ns[part] - told.timeline_ns[part] for part in idle) == inferred
    assert min(silent.timeline_ns[part] - told.timeline_ns[part] for part in idle) >= 0
    for part in set(TIMELINE) - idle - {"tool"}:
        assert told.timeline_ns[part] == silent.timeline_ns[part]
    assert sum(row.inferred_ns for row in told.nodes) == inferred
    assert sum(row.inferred_ns for row in told.tools.values()) == inferred
    assert {name: row.runs for name, row in told.tools.items() if row.runs} == {
        name: row.runs for name, row in silent.tools.items()
    }


@given(task_spans())
def test_an_outcome_nobody_gave_is_unknown(spans: list[Span]) -> None:
    """Unless the task's own span failed; sub-tasks and calls that fail do not decide it."""
    unsaid = [
        msgspec.structs.replace(span, task=msgspec.structs.replace(span.task, outcome=None), error=False)
        if span.task is not None and span.task.starts and span.task.id == TASK
        else span
        for span in spans
    ]
    assume(any(span.task is not None and span.task.starts and span.task.id == TASK for span in unsaid))
    assert roll_up(TASK, unsaid).outcome is None
