"""Many tasks: one row each, and groups of them with their quantiles and sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any, Final, NamedTuple

import msgspec

from agentprof.model import Outcome
from agentprof.money import EXACT
from agentprof.rollup.energy import joules, microjoules
from agentprof.rollup.quantiles import P99_SAMPLES, nearest_rank
from agentprof.rollup.rows import Sums
from agentprof.summary import SCHEMA, TIMELINE, TaskSummary, Tokens

_TEN_PLACES = Decimal("1e-10")
"""Means and ratios of costs are given to ten places; sums are exact."""

LABEL_PREFIX = "label."

QUANTILES: Final = (0.50, 0.95, 0.99)

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
        "groups": group_rows({value: _sums(members) for value, members in groups.items()}, group_by),
        "next": None,
    }


def group_rows(groups: Mapping[str | None, GroupSums], group_by: str | None) -> list[dict[str, Any]]:
    """One row a group, in the order of their keys, the one without the key last."""
    return [
        {"key": {} if group_by is None else {group_by: value}, **group_row(sums)}
        for value, sums in sorted(groups.items(), key=lambda item: (item[0] is None, item[0] or ""))
    ]


def dearest(groups: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Of rows of groups those that cost most, in their order; of equals those of more tasks, then the first."""

    def rank(group: dict[str, Any]) -> tuple[bool, Decimal, int]:
        cost_usd = group["total_cost_usd"]
        return cost_usd is not None, cost_usd or Decimal(0), group["tasks"]

    kept = set(map(id, sorted(groups, key=rank, reverse=True)[:most]))
    return [group for group in groups if id(group) in kept]


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


class Samples(NamedTuple):
    """What is known of one figure over the tasks of a group."""

    n: int
    total: Any
    """None without a sample."""
    quantiles: Mapping[float, Any]
    """By nearest rank, at least those of `QUANTILES`; empty without a sample."""


class GroupSums(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, sums and ranks of a group, from which its row follows; whoever adds up, and wherever."""

    tasks: int
    outcomes: dict[str, int]
    """`success`, `failure` and `unknown`."""
    wall_ns: Samples
    cost_usd: Samples
    cost_complete: bool
    timeline_ns: dict[str, int]
    calls: int
    attempts: int | None
    transport_retries: int | None
    errors: dict[str, int]
    tokens: Tokens
    wasted_usd: Decimal | None
    unpriced: dict[str, int]
    energy_low_uj: int | None
    energy_high_uj: int | None
    calls_without_energy: int | None


def group(members: Sequence[TaskSummary]) -> dict[str, Any]:
    """Counts, quantiles with their sample sizes, and sums of a group of tasks."""
    with localcontext(EXACT):
        return group_row(_sums(members))


def group_row(sums: GroupSums) -> dict[str, Any]:
    """A group as one row, as JSON types but for Decimals."""
    with localcontext(EXACT):
        return {
            "tasks": sums.tasks,
            "outcomes": sums.outcomes,
            "wall_ns": _spread(sums.wall_ns, lambda mean: round(mean)),
            "cost_usd": _spread(sums.cost_usd, lambda mean: mean.quantize(_TEN_PLACES)),
            "cost_per_success_usd": _per_success(sums.cost_usd.total, sums.outcomes),
            "cost_complete": sums.cost_complete,
            "timeline_ns": sums.timeline_ns,
            "calls": sums.calls,
            "attempts": sums.attempts,
            "transport_retries": sums.transport_retries,
            "errors": sums.errors,
            "tokens": sums.tokens,
            "total_cost_usd": sums.cost_usd.total,
            "wasted_usd": sums.wasted_usd,
            "unpriced": sums.unpriced,
            **_energy(sums),
        }


def _sums(members: Sequence[TaskSummary]) -> GroupSums:
    tokens = Sums()
    for summary in members:
        tokens.add_tokens(summary.tokens)
    costs = [summary.cost_usd for summary in members if summary.cost_usd is not None]
    bounds = [microjoules(summary.energy_j) for summary in members if summary.energy_j is not None]
    return GroupSums(
        tasks=len(members),
        outcomes={
            "success": _count(members, "success"),
            "failure": _count(members, "failure"),
            "unknown": _count(members, None),
        },
        wall_ns=_samples([summary.wall_ns for summary in members]),
        cost_usd=_samples(costs),
        cost_complete=all(summary.cost_complete for summary in members),
        timeline_ns={part: sum(s.timeline_ns[part] for s in members) for part in TIMELINE},
        calls=sum(summary.calls for summary in members),
        attempts=_sum_known([summary.attempts for summary in members]),
        transport_retries=_sum_known([summary.retries["transport"] for summary in members]),
        errors={what: sum(s.errors[what] for s in members) for what in ("call", "tool", "task")},
        tokens=tokens.tokens,
        wasted_usd=_sum_known([summary.wasted["cost_usd"] for summary in members]),
        unpriced={
            reason: sum(summary.unpriced[reason] for summary in members) for reason in members[0].unpriced
        },
        energy_low_uj=_sum_known([low for low, _ in bounds]),
        energy_high_uj=_sum_known([high for _, high in bounds]),
        calls_without_energy=_sum_known([summary.calls_without_energy for summary in members]),
    )


def _count(members: Sequence[TaskSummary], outcome: Outcome | None) -> int:
    return sum(summary.outcome == outcome for summary in members)


def _samples(values: Sequence[Any]) -> Samples:
    ordered = sorted(values)
    ranks = {share: nearest_rank(ordered, share) for share in QUANTILES} if ordered else {}
    return Samples(len(ordered), _sum_known(ordered), ranks)


def _spread(samples: Samples, rounded: Callable[[Any], Any]) -> dict[str, Any]:
    """Mean and quantiles of what is known; no p99 under 100 samples."""
    if samples.n == 0:
        return {"mean": None, "p50": None, "p95": None, "p99": None, "n": 0}
    return {
        "mean": rounded(samples.total / samples.n),
        "p50": samples.quantiles[0.50],
        "p95": samples.quantiles[0.95],
        "p99": samples.quantiles[0.99] if samples.n >= P99_SAMPLES else None,
        "n": samples.n,
    }


def _per_success(cost_usd: Decimal | None, outcomes: dict[str, int]) -> dict[str, Decimal] | None:
    """Low as if all unknown tasks had succeeded, high as if all had failed."""
    if cost_usd is None or not outcomes["success"]:
        return None
    low = cost_usd / (outcomes["success"] + outcomes["unknown"])
    high = cost_usd / outcomes["success"]
    return {"low": low.quantize(_TEN_PLACES), "high": high.quantize(_TEN_PLACES)}


def _energy(sums: GroupSums) -> dict[str, Any]:
    """What is known, and the same for each success: low as if all unknown tasks had succeeded, high as if failed."""
    low, high = sums.energy_low_uj, sums.energy_high_uj
    per_success = None
    if low is None or high is None:
        known = None
    else:
        known = joules(low, high)
        successes = sums.outcomes["success"]
        if successes:
            per_success = joules(round(low / (successes + sums.outcomes["unknown"])), round(high / successes))
    return {
        "energy_j": known,
        "energy_per_success_j": per_success,
        "calls_without_energy": sums.calls_without_energy,
    }


def _sum_known(found: Sequence[Any]) -> Any:
    known = [value for value in found if value is not None]
    return sum(known[1:], known[0]) if known else None
