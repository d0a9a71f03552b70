"""Law 1: timeline parts sum to the wall, phases of a call to the call, node selfs to the totals."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from support.generated import agent_loops, task_spans
from support.spans import TASK

from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.rollup.calls import call_rows
from agentprof.summary import EVIDENCED, TOKENS, NodeTotals, TaskSummary


@given(task_spans() | agent_loops())
def test_every_nanosecond_of_the_wall_has_one_owner(spans: list[Span]) -> None:
    """The parts of the timeline, how they are known, and the overlap view all sum to the same wall."""
    summary = roll_up(TASK, spans)
    assert sum(summary.timeline_ns.values()) == summary.wall_ns == summary.end_ns - summary.start_ns
    assert min(summary.timeline_ns.values()) >= 0
    for part in EVIDENCED:
        assert sum(summary.evidence_ns[part].values()) == summary.timeline_ns[part]
    overlap = summary.overlap_ns
    assert overlap["model"] + overlap["tool"] - overlap["both"] + overlap["neither"] == summary.wall_ns
    assert min(overlap.values()) >= 0


@given(task_spans())
def test_phases_fill_every_call(spans: list[Span]) -> None:
    """However wrong or partial the evidence, and no phase is negative."""
    for row in call_rows(TASK, spans):
        assert sum(row.phases_ns.values()) == row.duration_ns
        assert min(row.phases_ns.values(), default=0) >= 0


@given(task_spans() | agent_loops())
def test_selfs_sum_to_the_totals(spans: list[Span]) -> None:
    """Of time on the timeline, busy time, calls, tokens and cost, for the task and for each row of it."""
    summary = roll_up(TASK, spans)
    selfs = _sum([row.self for row in summary.nodes])
    assert selfs["path_ns"] == summary.wall_ns
    assert selfs["busy_ns"] == sum(summary.busy_ns.values())
    assert selfs["calls"] == summary.calls
    assert (selfs["cost_usd"] or 0) == (summary.cost_usd or 0)
    assert {name: selfs[name] for name in TOKENS} == summary.tokens
    for row in summary.nodes:
        below = [other.self for other in summary.nodes if other.path[: len(row.path)] == row.path]
        assert _sum(below) == _sum([row.total])


@given(task_spans())
def test_cost_classes_sum_to_the_cost(spans: list[Span]) -> None:
    """And models and tools together hold all of it."""
    summary = roll_up(TASK, spans)
    total = summary.cost_usd or Decimal(0)
    assert sum(summary.cost_by_class_usd.values(), Decimal(0)) == total
    assert _parts(summary) == total


def _parts(summary: TaskSummary) -> Decimal:
    rows = [*summary.models.values(), *summary.tools.values()]
    return sum((row.cost_usd for row in rows if row.cost_usd is not None), Decimal(0))


def _sum(totals: list[NodeTotals]) -> dict[str, object]:
    found: dict[str, object] = {
        "path_ns": sum(t.path_ns for t in totals),
        "busy_ns": sum(t.busy_ns for t in totals),
        "calls": sum(t.calls for t in totals),
    }
    costs = [t.cost_usd for t in totals if t.cost_usd is not None]
    found["cost_usd"] = sum(costs, Decimal(0)) if costs else None
    for name in TOKENS:
        counts = [count for t in totals if (count := t.tokens[name]) is not None]
        found[name] = sum(counts) if counts else None
    return found


@given(task_spans() | agent_loops())
def test_the_energy_of_a_task_is_that_of_its_calls(spans: list[Span]) -> None:
    """To the microjoule, low never above high, by how it is known and all together; the others are counted."""
    summary = roll_up(TASK, spans)
    known = [row.energy_j for row in call_rows(TASK, spans) if row.energy_j is not None]
    assert summary.calls_without_energy == summary.calls - len(known)
    assert sum(row.calls for row in summary.energy) == len(known)
    if summary.energy_j is None:
        assert (known, summary.energy) == ([], [])
        return
    for bound, name in (("low", "low_j"), ("high", "high_j")):
        total = round(summary.energy_j[bound] * 1e6)
        assert sum(round(energy[bound] * 1e6) for energy in known) == total
        assert sum(round(getattr(row, name) * 1e6) for row in summary.energy) == total
    assert 0 <= summary.energy_j["low"] <= summary.energy_j["high"]
