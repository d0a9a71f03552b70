"""Lists and groups of tasks as SQL on their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from agentprof.rollup.many import LABEL_PREFIX, QUANTILES, GroupSums, Samples
from agentprof.summary import TIMELINE, TOKENS
from agentprof_collector.stores import ListPlace, TaskFilter
from agentprof_collector.stores.task_columns import (
    AMOUNTS,
    ERRORS,
    KNOWN_SUMS,
    SUMS,
    UNPRICED,
    amount_of,
    by_name,
)

Parameters = dict[str, Any]

_TOPS: Final = (
    "WITH chosen AS (FROM tasks WHERE {conditions}), "
    "tops AS (FROM chosen AS c ANTI JOIN chosen AS above ON c.parent_id = above.task_id) "
)
_COUNTS: Final = {
    "tasks": "count(*)",
    "exact": "bool_and(exact)",
    "success": "count(*) FILTER (outcome = 'success')",
    "failure": "count(*) FILTER (outcome = 'failure')",
    "unknown": "count(*) FILTER (outcome IS NULL)",
    "wall_ns": "sum(wall_ns)",
    "cost_samples": "count(cost_usd)",
    "cost_complete": "bool_and(cost_complete)",
    **{name: f"sum({name})" for name in (*SUMS, *KNOWN_SUMS, *AMOUNTS)},
    **{f"{name}_places": f"max({name}_places)" for name in AMOUNTS},
}
_RANKS: Final = (
    "SELECT key, rank, {value} FROM (SELECT {key} AS key, {value}, "
    "row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS rank, "
    "count(*) OVER (PARTITION BY {key}) AS n FROM tops WHERE {known} IS NOT NULL) "
    "WHERE rank IN ({wanted})"
)
# By nearest rank, and of equal amounts the order of lists, as they may be written differently.
_RANKED: Final = {
    "wall_ns": ("wall_ns", "wall_ns", "wall_ns"),
    "cost_usd": ("cost_usd", "cost_usd, cost_usd_places", "cost_usd, start_ns DESC, task_id"),
}


def conditions(which: TaskFilter) -> tuple[str, Parameters]:
    """What must hold of a row of `tasks`, all but `tops`, and the parameters in it."""
    found = {
        "list_contains($ids::VARCHAR[], task_id)": {"ids": list(which.ids)} if which.ids else None,
        "name = $name": _given("name", which.name),
        "coalesce(outcome, 'unknown') = $outcome": _given("outcome", which.outcome),
        "list_contains(services, $service)": _given("service", which.service),
        "start_ns >= $since_ns": _given("since_ns", which.since_ns),
        "start_ns < $until_ns": _given("until_ns", which.until_ns),
        "(contains(lower(name), lower($search)) OR contains(lower(task_id), lower($search)))": _given(
            "search", which.search
        ),
    }
    for at, (key, value) in enumerate(which.labels.items()):
        found[f"labels[$label_{at}] = $value_{at}"] = {f"label_{at}": key, f"value_{at}": value}
    held = {condition: given for condition, given in found.items() if given is not None}
    parameters = {name: value for given in held.values() for name, value in given.items()}
    return " AND ".join(held) or "true", parameters


def list_question(which: TaskFilter, after: ListPlace | None, limit: int | None) -> tuple[str, Parameters]:
    """A question for summaries in the order of lists."""
    condition, parameters = conditions(which)
    sql = _TOPS.format(conditions=condition) + f"SELECT summary FROM {'tops' if which.tops else 'chosen'}"
    if after is not None:
        sql += " WHERE start_ns < $start_ns OR (start_ns = $start_ns AND task_id > $task_id)"
        parameters |= {"start_ns": after.start_ns, "task_id": after.task_id}
    sql += " ORDER BY start_ns DESC, task_id"
    if limit is not None:
        sql += " LIMIT $limit"
        parameters["limit"] = limit
    return sql, parameters


class GroupQuestions:
    """The questions for the groups of tasks, and the groups from their answers.

    Args:
        which: the tasks.
        group_by: as of `Store.groups`, and known to be right.
    """

    def __init__(self, which: TaskFilter, group_by: str | None) -> None:
        condition, self.parameters = conditions(which)
        self._tops = _TOPS.format(conditions=condition)
        self._key = _key(group_by)
        if group_by is not None and group_by.startswith(LABEL_PREFIX):
            self.parameters["group_label"] = group_by.removeprefix(LABEL_PREFIX)

    @property
    def sums(self) -> str:
        """Counts and sums, a row a group."""
        columns = ", ".join(f"{what} AS {name}" for name, what in _COUNTS.items())
        return f"{self._tops} SELECT {self._key} AS key, {columns} FROM tops GROUP BY ALL"

    def ranks(self, figure: str) -> str:
        """The samples of `wall_ns` or `cost_usd` at the ranks of the quantiles."""
        known, value, order = _RANKED[figure]
        wanted = ", ".join(f"greatest(1, ceil({share}::DOUBLE * n))" for share in QUANTILES)
        return self._tops + _RANKS.format(key=self._key, known=known, value=value, order=order, wanted=wanted)


def _key(group_by: str | None) -> str:
    if group_by is None:
        return "NULL::VARCHAR"
    return group_by if group_by in ("name", "outcome") else "labels[$group_label]"


def _given(name: str, value: Any) -> Parameters | None:
    return None if value is None else {name: value}


def group_sums(
    rows: list[tuple[Any, ...]], walls: list[tuple[Any, ...]], costs: list[tuple[Any, ...]]
) -> dict[str | None, GroupSums] | None:
    """The groups, from the answers to `GroupQuestions`; None if the columns do not hold all figures exactly."""
    if not all(row[1 + list(_COUNTS).index("exact")] for row in rows):
        return None
    wall_ranks: dict[str | None, dict[int, int]] = {}
    for key, rank, wall_ns in walls:
        wall_ranks.setdefault(key, {})[rank] = wall_ns
    cost_ranks: dict[str | None, dict[int, Decimal | None]] = {}
    for key, rank, cost_usd, places in costs:
        cost_ranks.setdefault(key, {})[rank] = amount_of(cost_usd, places)
    return {
        row[0]: _sums(by_name(("key", *_COUNTS), row), wall_ranks.get(row[0], {}), cost_ranks.get(row[0], {}))
        for row in rows
    }


def _sums(row: Mapping[str, Any], walls: Mapping[int, int], costs: Mapping[int, Decimal | None]) -> GroupSums:
    cost_usd, wasted_usd = (amount_of(row[name], row[f"{name}_places"]) for name in AMOUNTS)
    return GroupSums(
        tasks=row["tasks"],
        outcomes={outcome: row[outcome] for outcome in ("success", "failure", "unknown")},
        wall_ns=_samples(row["tasks"], row["wall_ns"], walls),
        cost_usd=_samples(row["cost_samples"], cost_usd, costs),
        cost_complete=row["cost_complete"],
        timeline_ns={part: row[f"{part}_ns"] for part in TIMELINE},
        calls=row["calls"],
        attempts=row["attempts"],
        transport_retries=row["transport_retries"],
        errors={what: row[f"{what}_errors"] for what in ERRORS},
        tokens={name: row[f"{name}_tokens"] for name in TOKENS},
        wasted_usd=wasted_usd,
        unpriced={reason: row[f"unpriced_{reason}"] for reason in UNPRICED},
    )


def _samples(n: int, total: Any, by_rank: Mapping[int, Any]) -> Samples:
    ranks = {share: by_rank[max(1, math.ceil(share * n))] for share in QUANTILES} if n else {}
    return Samples(n, total, ranks)
