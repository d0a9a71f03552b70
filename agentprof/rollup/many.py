"""Many tasks: one row each, and groups of them with their quantiles and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Any

from agentprof.model import Outcome
from agentprof.money import EXACT
from agentprof.rollup.quantiles import P99_SAMPLES, nearest_rank
from agentprof.rollup.rows import Sums
from agentprof.summary import SCHEMA, TIMELINE, TaskSummary

_TEN_PLACES = Decimal("1e-10")
"""Means and ratios of costs are given to ten places; sums are exact."""

LABEL_PREFIX = "label."

Key = Callable[[TaskSummary], str | None]


def many(
    summaries: Sequence[TaskSummary], group_by: str | None = None, selection: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Rows and groups of the tasks that have no parent among them, as JSON types but for Decimals.

    Args:
        summaries: The selected tasks; rows keep their order.
        group_by: `name`, `outcome` or `label.KEY`; None makes one group of all.
        selection: What selected them, repeated in the answer.

    Raises:
        ValueError: `group_by` is none of these.
    """
    with localcontext(EXACT):
        return _many(summaries, group_by, dict(selection or {}))


def _many(
    summaries: Sequence[TaskSummary], group_by: str | None, selection: dict[str, Any]
) -> dict[str, Any]:
    key = group_key(group_by)
    chosen = {summary.task_id for summary in summaries}
    tops = [summary for summary in summaries if summary.parent_task_id not in chosen]
    groups: dict[str | None, list[TaskSummary]] = {}
    for summary in tops:
        groups.setdefault(key(summary), []).append(summary)
    return {
        "schema": SCHEMA,
        "selection": selection,
        "tasks": [row(summary) for summary in tops],
        "groups": [
            {"key": {} if group_by is None else {group_by: value}, **group(members)}
            for value, members in sorted(groups.items(), key=lambda item: (item[0] is None, item[0] or ""))
        ],
        "next": None,
    }


def group_key(group_by: str | None) -> Key:
    """What tells the groups apart: the value of `name`, `outcome` or `label.KEY`; None where absent."""
    if group_by is None:
        return lambda summary: None
    if group_by == "name":
        return lambda summary: summary.name
    if group_by == "outcome":
        return lambda summary: summary.outcome
    label = group_by.removeprefix(LABEL_PREFIX)
    if group_by.startswith(LABEL_PREFIX) and label:
        return lambda summary: summary.labels.get(label)
    raise ValueError(f"cannot group by {group_by!r}: use name, outcome or label.KEY, as in label.customer")


def row(summary: TaskSummary) -> dict[str, Any]:
    """A task as one row: its summary without the profile."""
    fields = {name: getattr(summary, name) for name in summary.__struct_fields__}
    del fields["nodes"]
    return fields


def group(members: Sequence[TaskSummary]) -> dict[str, Any]:
    """Counts, quantiles with their sample sizes, and sums of a group of tasks."""
    sums = Sums()
    costs = [summary.cost_usd for summary in members if summary.cost_usd is not None]
    for summary in members:
        sums.add_tokens(summary.tokens)
        sums.add_cost(summary.cost_usd)
    outcomes = {
        "success": _count(members, "success"),
        "failure": _count(members, "failure"),
        "unknown": _count(members, None),
    }
    return {
        "tasks": len(members),
        "outcomes": outcomes,
        "wall_ns": _spread([summary.wall_ns for summary in members], lambda mean: round(mean)),
        "cost_usd": _spread(costs, lambda mean: mean.quantize(_TEN_PLACES)),
        "cost_per_success_usd": _per_success(sums.cost_usd, outcomes),
        "cost_complete": all(summary.cost_complete for summary in members),
        "timeline_ns": {part: sum(s.timeline_ns[part] for s in members) for part in TIMELINE},
        "calls": sum(summary.calls for summary in members),
        "attempts": _sum_known([summary.attempts for summary in members]),
        "transport_retries": _sum_known([summary.retries["transport"] for summary in members]),
        "errors": {what: sum(s.errors[what] for s in members) for what in ("call", "tool", "task")},
        "tokens": sums.tokens,
        "total_cost_usd": sums.cost_usd,
        "wasted_usd": _sum_known([summary.wasted["cost_usd"] for summary in members]),
        "unpriced": {
            reason: sum(summary.unpriced[reason] for summary in members) for reason in members[0].unpriced
        },
    }


def _count(members: Sequence[TaskSummary], outcome: Outcome | None) -> int:
    return sum(summary.outcome == outcome for summary in members)


def _spread(samples: Sequence[Any], rounded: Callable[[Any], Any]) -> dict[str, Any]:
    """Mean and quantiles of what is known; no p99 under 100 samples."""
    ordered = sorted(samples)
    n = len(ordered)
    if n == 0:
        return {"mean": None, "p50": None, "p95": None, "p99": None, "n": 0}
    return {
        "mean": rounded(sum(ordered) / n),
        "p50": nearest_rank(ordered, 0.50),
        "p95": nearest_rank(ordered, 0.95),
        "p99": nearest_rank(ordered, 0.99) if n >= P99_SAMPLES else None,
        "n": n,
    }


def _per_success(cost_usd: Decimal | None, outcomes: dict[str, int]) -> dict[str, Decimal] | None:
    """Low as if all unknown tasks had succeeded, high as if all had failed."""
    if cost_usd is None or not outcomes["success"]:
        return None
    low = cost_usd / (outcomes["success"] + outcomes["unknown"])
    high = cost_usd / outcomes["success"]
    return {"low": low.quantize(_TEN_PLACES), "high": high.quantize(_TEN_PLACES)}


def _sum_known(found: Sequence[Any]) -> Any:
    known = [value for value in found if value is not None]
    return sum(known[1:], known[0]) if known else None
