"""Lists and groups of tasks as ClickHouse SQL on their columns."""

from __future__ import annotations

from typing import Any, Final

from agentprof.rollup.many import LABEL_PREFIX, QUANTILES
from agentprof_collector.stores import ListPlace, TaskFilter
from agentprof_collector.stores.group_answers import GROUP_COLUMNS
from agentprof_collector.stores.task_columns import AMOUNTS, KNOWN_SUMS, SUMS

Parameters = dict[str, Any]

_TOPS: Final = (
    "WITH chosen AS (SELECT * FROM tasks FINAL WHERE {conditions}), "
    "tops AS (SELECT * FROM chosen WHERE parent_id IS NULL OR parent_id NOT IN (SELECT task_id FROM chosen)) "
)
# Sums of Int64 are Int64 here and would wrap around.
_COUNTS: Final = {
    "tasks": "count()",
    "exact": "min(exact)",
    "success": "countIf(outcome = 'success')",
    "failure": "countIf(outcome = 'failure')",
    "unknown": "countIf(outcome IS NULL)",
    "wall_ns": "sum(toInt128(wall_ns))",
    "cost_samples": "count(cost_usd)",
    "cost_complete": "min(cost_complete)",
    **{name: f"sum(toInt128({name}))" for name in (*SUMS, *KNOWN_SUMS)},
    **{name: f"sum({name})" for name in AMOUNTS},
    **{f"{name}_places": f"max({name}_places)" for name in AMOUNTS},
}
_SHOWN: Final = (
    ", kept AS (SELECT ifNull(grouped, '') AS key, isNull(grouped) AS absent "
    "FROM (SELECT exact, cost_usd, {key} AS grouped FROM tops) GROUP BY grouped "
    "ORDER BY min(exact), sum(cost_usd) DESC NULLS LAST, count() DESC, absent, key LIMIT {most:UInt64}), "
    "shown AS (SELECT * FROM tops WHERE (ifNull({key}, ''), isNull({key})) IN (SELECT key, absent FROM kept)) "
)
"""The tasks of the groups that cost most; those whose columns do not hold their figures come first, and are told by."""
_RANKS: Final = (
    "SELECT key, rank, {value} FROM (SELECT {key} AS key, {value}, "
    "row_number() OVER (PARTITION BY key ORDER BY {order}) AS rank, "
    "count() OVER (PARTITION BY key) AS n FROM {tasks} WHERE {known} IS NOT NULL) "
    "WHERE has([{wanted}], toUInt64(rank))"
)
_RANKED: Final = {
    "wall_ns": ("wall_ns", "wall_ns", "wall_ns"),
    "cost_usd": ("cost_usd", "cost_usd, cost_usd_places", "cost_usd, start_ns DESC, task_id"),
}


def conditions(which: TaskFilter) -> tuple[str, Parameters]:
    """What must hold of a row of `tasks`, all but `tops`, and the parameters in it."""
    found = {
        "task_id IN {ids:Array(String)}": {"ids": list(which.ids)} if which.ids else None,
        "name = {name:String}": _given("name", which.name),
        "ifNull(outcome, 'unknown') = {outcome:String}": _given("outcome", which.outcome),
        "has(services, {service:String})": _given("service", which.service),
        "start_ns >= {since_ns:Int64}": _given("since_ns", which.since_ns),
        "start_ns < {until_ns:Int64}": _given("until_ns", which.until_ns),
        "(position(lowerUTF8(name), lowerUTF8({search:String})) > 0 "
        "OR position(lowerUTF8(task_id), lowerUTF8({search:String})) > 0)": _given("search", which.search),
    }
    for at, (key, value) in enumerate(which.labels.items()):
        condition = "mapContains(labels, {label:String}) AND labels[{label:String}] = {value:String}"
        condition = condition.replace("{label:", f"{{label_{at}:").replace("{value:", f"{{value_{at}:")
        found[condition] = {f"label_{at}": key, f"value_{at}": value}
    held = {condition: given for condition, given in found.items() if given is not None}
    parameters = {name: value for given in held.values() for name, value in given.items()}
    return " AND ".join(held) or "true", parameters


def list_question(which: TaskFilter, after: ListPlace | None, limit: int | None) -> tuple[str, Parameters]:
    """A question for summaries in the order of lists."""
    condition, parameters = conditions(which)
    sql = _TOPS.replace("{conditions}", condition)
    sql += f"SELECT summary FROM {'tops' if which.tops else 'chosen'}"
    if after is not None:
        sql += " WHERE start_ns < {start_ns:Int64} OR (start_ns = {start_ns:Int64} AND task_id > {task_id:String})"
        parameters |= {"start_ns": after.start_ns, "task_id": after.task_id}
    sql += " ORDER BY start_ns DESC, task_id"
    if limit is not None:
        sql += " LIMIT {limit:UInt64}"
        parameters["limit"] = limit
    return sql, parameters


class GroupQuestions:
    """The questions for the groups of tasks.

    Args:
        which: the tasks.
        group_by: as of `Store.groups`, and known to be right.
        most: groups at most, those that cost most; None: all.
    """

    def __init__(self, which: TaskFilter, group_by: str | None, most: int | None = None) -> None:
        condition, self.parameters = conditions(which)
        self._tops = _TOPS.replace("{conditions}", condition)
        self._key = _key(group_by)
        self._tasks = "tops"
        if most is not None:
            self._tops += _SHOWN.replace("{key}", self._key)
            self._tasks = "shown"
            self.parameters["most"] = most
        if group_by is not None and group_by.startswith(LABEL_PREFIX):
            self.parameters["group_label"] = group_by.removeprefix(LABEL_PREFIX)

    @property
    def sums(self) -> str:
        """Counts and sums, a row a group."""
        columns = ", ".join(f"{_COUNTS[name]} AS of_{name}" for name in GROUP_COLUMNS[1:])
        return f"{self._tops} SELECT {self._key} AS key, {columns} FROM {self._tasks} GROUP BY key"

    def ranks(self, figure: str) -> str:
        """The samples of `wall_ns` or `cost_usd` at the ranks of the quantiles."""
        known, value, order = _RANKED[figure]
        wanted = ", ".join(f"toUInt64(greatest(1., ceil({share} * n)))" for share in QUANTILES)
        given = {
            "tasks": self._tasks,
            "key": self._key,
            "known": known,
            "value": value,
            "order": order,
            "wanted": wanted,
        }
        sql = _RANKS
        for name, text in given.items():
            sql = sql.replace(f"{{{name}}}", text)
        return self._tops + sql


def _key(group_by: str | None) -> str:
    if group_by is None:
        return "CAST(NULL, 'Nullable(String)')"
    if group_by in ("name", "outcome"):
        return f"CAST({group_by}, 'Nullable(String)')"
    return "if(mapContains(labels, {group_label:String}), toNullable(labels[{group_label:String}]), NULL)"


def _given(name: str, value: Any) -> Parameters | None:
    return None if value is None else {name: value}
