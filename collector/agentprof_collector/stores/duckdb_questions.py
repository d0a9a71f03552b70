"""Lists and groups of tasks as SQL on their columns."""

from __future__ import annotations

from typing import Any, Final

from agentprof.rollup.many import LABEL_PREFIX, QUANTILES
from agentprof_collector.stores import ListPlace, TaskFilter
from agentprof_collector.stores.group_answers import GROUP_COLUMNS
from agentprof_collector.stores.task_columns import AMOUNTS, KNOWN_SUMS, SUMS

Parameters = dict[str, Any]

_TOPS: Final = (
    "WITH chosen AS (SELECT *, rowid AS place FROM tasks WHERE {conditions}), "
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
_SHOWN: Final = (
    ", kept AS (SELECT coalesce(key, '') AS key, key IS NULL AS absent FROM (SELECT *, {key} AS key FROM tops) "
    "GROUP BY ALL ORDER BY bool_and(exact), sum(cost_usd) DESC NULLS LAST, count(*) DESC, absent, key LIMIT $most), "
    "shown AS (SELECT * FROM tops WHERE (coalesce({key}, ''), {key} IS NULL) IN (SELECT (key, absent) FROM kept)) "
)
"""The tasks of the groups that cost most; those whose columns do not hold their figures come first, and are told by."""
_RANKS: Final = (
    "SELECT key, rank, {value} FROM (SELECT {key} AS key, {value}, "
    "row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS rank, "
    "count(*) OVER (PARTITION BY {key}) AS n FROM {tasks} WHERE {known} IS NOT NULL) "
    "WHERE rank IN ({wanted})"
)
_RANKED: Final = {
    "wall_ns": ("wall_ns", "wall_ns", "wall_ns"),
    "cost_usd": ("cost_usd", "cost_usd, cost_usd_places", "cost_usd, start_ns DESC, task_id"),
}


def conditions(which: TaskFilter) -> tuple[str, Parameters]:
    """What must hold of a row of `tasks`, all but `tops`, and the parameters in it."""
    found = {
        "task_id IN (SELECT unnest($ids::VARCHAR[]))": {"ids": list(which.ids)} if which.ids else None,
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
    """A question for the places of tasks in the order of lists."""
    condition, parameters = conditions(which)
    sql = _TOPS.format(conditions=condition) + f"SELECT place FROM {'tops' if which.tops else 'chosen'}"
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
        most: groups at most, those that cost most; None: all.
    """

    def __init__(self, which: TaskFilter, group_by: str | None, most: int | None = None) -> None:
        condition, self.parameters = conditions(which)
        self._tops = _TOPS.format(conditions=condition)
        self._key = _key(group_by)
        self._tasks = "tops"
        if most is not None:
            self._tops += _SHOWN.format(key=self._key)
            self._tasks = "shown"
            self.parameters["most"] = most
        if group_by is not None and group_by.startswith(LABEL_PREFIX):
            self.parameters["group_label"] = group_by.removeprefix(LABEL_PREFIX)

    @property
    def sums(self) -> str:
        """Counts and sums, a row a group."""
        columns = ", ".join(_COUNTS[name] for name in GROUP_COLUMNS[1:])
        return f"{self._tops} SELECT {self._key} AS key, {columns} FROM {self._tasks} GROUP BY key"

    def ranks(self, figure: str) -> str:
        """The samples of `wall_ns` or `cost_usd` at the ranks of the quantiles."""
        known, value, order = _RANKED[figure]
        wanted = ", ".join(f"greatest(1, ceil({share}::DOUBLE * n))" for share in QUANTILES)
        return self._tops + _RANKS.format(
            key=self._key, known=known, value=value, order=order, wanted=wanted, tasks=self._tasks
        )


def _key(group_by: str | None) -> str:
    if group_by is None:
        return "NULL::VARCHAR"
    return group_by if group_by in ("name", "outcome") else "labels[$group_label]"


def _given(name: str, value: Any) -> Parameters | None:
    return None if value is None else {name: value}
