"""Store in a database of ClickHouse, for any number of collectors; in process with chdb for tests.

A trial of the protocol: what it lacks for service is listed in docs/stores.md.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

import clickhouse_connect
import msgspec
from clickhouse_connect.driver.exceptions import ClickHouseError

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof.rollup.many import dearest, group_key, group_rows, many
from agentprof.rollup.measured import AROUND_NS
from agentprof.rollup.tasks import IMPLICIT_PREFIX
from agentprof.summary import TaskSummary
from agentprof_collector.closing import Closing
from agentprof_collector.errors import StoreNotWritten, StoreUnusable
from agentprof_collector.stores import ALL_TASKS, ListPlace, TaskFilter, TaskRow
from agentprof_collector.stores.clickhouse_questions import GroupQuestions, list_question
from agentprof_collector.stores.clickhouse_rows import FIGURE_TYPES, span_columns, task_columns
from agentprof_collector.stores.group_answers import group_sums
from agentprof_collector.stores.ids import FIRST_TRACES, hashes, id_rows

_T = TypeVar("_T")
_LATEST_NS: Final = 2**63 - 1
_TABLES: Final = (
    "spans",
    "task_traces",
    "call_ids",
    "engine_ids",
    "outcomes",
    "energy_windows",
    "added_up",
    "tasks",
)

_decode_span = msgspec.json.Decoder(Span).decode
_decode_summary = msgspec.json.Decoder(TaskSummary).decode


@cache
def _sql(name: str) -> str:
    return (resources.files(__package__) / "sql" / "clickhouse" / f"{name}.sql").read_text(encoding="utf-8")


class ClickHouseStore(Closing):
    """See `Store` for the contract.

    Args:
        database: made, with its tables, if it is not there.
        connection: what `clickhouse_connect.get_client` takes: `host`, `port`, `username`, `password`, or
            `interface="chdb"` and `path`.

    Raises:
        StoreError: the server cannot be reached.
    """

    def __init__(self, database: str, **connection: Any) -> None:
        self._place = Path(f"clickhouse:{database}")
        # A client answers one question at a time.
        self._asking = threading.Lock()
        self._written_ns = 0
        try:
            self._client = clickhouse_connect.get_client(**connection, autogenerate_session_id=False)
            self._client.command(f"CREATE DATABASE IF NOT EXISTS {_quoted(database)}")
            self._client.database = database
            figures = ", ".join(f"{name} {kind}" for name, kind in FIGURE_TYPES.items())
            for name in _TABLES:
                self._client.command(_sql(name).replace("{figures}", figures))
            added = (f"ADD COLUMN IF NOT EXISTS {name} {kind}" for name, kind in FIGURE_TYPES.items())
            self._client.command(f"ALTER TABLE tasks {', '.join(added)}")
        except ClickHouseError as error:
            raise StoreUnusable(self._place, f"cannot be opened ({_first_line(error)})") from error

    def add_spans(
        self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]], *, arrived_ns: int | None = None
    ) -> None:
        """See `Store.add_spans`; pairs first, as a pair without its spans does no harm."""
        distinct = sorted(set(pairs))
        if distinct:
            columns = {
                "task_id": [task_id for task_id, _ in distinct],
                "trace_id": [trace_id for _, trace_id in distinct],
            }
            self._insert("task_traces", columns)
        ids = id_rows(spans)
        for table, rows in (("call_ids", ids.of_calls), ("engine_ids", ids.of_engines)):
            if rows:
                self._insert(table, {"id": [row[0] for row in rows], "trace_id": [row[1] for row in rows]})
        if spans:
            self._insert("spans", span_columns(spans, _now(arrived_ns)))

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """See `Store.spans_of`."""
        sql = "SELECT body FROM spans WHERE trace_id IN {ids:Array(String)}"
        return [_decode_span(body) for (body,) in self._ask(sql, ids=list(trace_ids))]

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """See `Store.traces_of`."""
        sql = "SELECT DISTINCT trace_id FROM task_traces WHERE task_id IN {ids:Array(String)}"
        return {row[0] for row in self._ask(sql, ids=list(task_ids))}

    def traces_tied(self, trace_ids: Collection[str]) -> set[str]:
        """See `Store.traces_tied`; a question a step, as recursive ones of ClickHouse do not stop at circles."""
        sql = (
            "SELECT DISTINCT trace_id FROM task_traces WHERE task_id IN "
            "(SELECT task_id FROM task_traces WHERE trace_id IN {ids:Array(String)})"
        )
        tied = set(trace_ids)
        new = set(tied)
        while new:
            new = {row[0] for row in self._ask(sql, ids=list(new))} - tied
            tied |= new
        return tied

    def traces_by_id(self, call_ids: Collection[str], engine_ids: Collection[str]) -> set[str]:
        """See `Store.traces_by_id`."""
        found: set[str] = set()
        for table, ids in (("call_ids", call_ids), ("engine_ids", engine_ids)):
            sql = (
                "SELECT DISTINCT arrayJoin(arraySlice(arraySort(traces), 1, {first:UInt8})) FROM "
                f"(SELECT groupUniqArray(trace_id) AS traces FROM {table} "
                "WHERE id IN {ids:Array(UInt64)} GROUP BY id)"
            )
            if ids:
                found |= {row[0] for row in self._ask(sql, ids=hashes(ids), first=FIRST_TRACES)}
        return found

    def arrived_since(self, arrived_ns: int) -> set[str]:
        """See `Store.arrived_since`."""
        spans = self._ask("SELECT DISTINCT trace_id FROM spans WHERE arrived_ns > {at:Int64}", at=arrived_ns)
        judged = self._ask(
            "SELECT DISTINCT task_id FROM outcomes WHERE arrived_ns > {at:Int64}", at=arrived_ns
        )
        tasks = [task_id for (task_id,) in judged]
        implicit = {task.removeprefix(IMPLICIT_PREFIX) for task in tasks if task.startswith(IMPLICIT_PREFIX)}
        ((windows, start_ns, end_ns),) = self._ask(
            "SELECT count(), min(start_ns), max(end_ns) FROM energy_windows WHERE arrived_ns > {at:Int64}",
            at=arrived_ns,
        )
        measured = self.traces_between(start_ns, end_ns) if windows else set()
        return {row[0] for row in spans} | implicit | self.traces_of(tasks) | measured

    def added_up_to(self) -> int:
        """See `Store.added_up_to`."""
        rows = self._ask("SELECT arrived_ns FROM added_up FINAL")
        return int(rows[0][0]) if rows else 0

    def set_added_up_to(self, arrived_ns: int) -> None:
        """See `Store.set_added_up_to`."""
        columns = {"id": [0], "arrived_ns": [arrived_ns], "written_ns": [self._later()]}
        self._insert("added_up", columns)

    def add_outcomes(self, facts: Sequence[OutcomeFact], *, arrived_ns: int | None = None) -> None:
        """See `Store.add_outcomes`."""
        known = set(self.outcomes_of({fact.task_id for fact in facts}))
        new = [fact for fact in dict.fromkeys(facts) if fact not in known]
        if not new:
            return
        columns: dict[str, list[Any]] = {
            name: [getattr(fact, name) for fact in new] for name in OutcomeFact.__struct_fields__
        }
        self._insert("outcomes", columns | {"arrived_ns": [_now(arrived_ns)] * len(new)})

    def outcomes_of(self, task_ids: Collection[str]) -> list[OutcomeFact]:
        """See `Store.outcomes_of`."""
        sql = (
            "SELECT DISTINCT task_id, outcome, score, recorded_ns FROM outcomes "
            "WHERE task_id IN {ids:Array(String)} ORDER BY recorded_ns"
        )
        return [
            OutcomeFact(task_id=task_id, outcome=outcome, score=score, recorded_ns=recorded_ns)
            for task_id, outcome, score, recorded_ns in self._ask(sql, ids=list(task_ids))
        ]

    def add_windows(self, windows: Sequence[EnergyWindow], *, arrived_ns: int | None = None) -> None:
        """See `Store.add_windows`."""
        columns: dict[str, list[Any]] = {
            name: [getattr(window, name) for window in windows] for name in EnergyWindow.__struct_fields__
        }
        if windows:
            self._insert("energy_windows", columns | {"arrived_ns": [_now(arrived_ns)] * len(windows)})

    def windows_of(self, servers: Collection[str], start_ns: int, end_ns: int) -> list[EnergyWindow]:
        """See `Store.windows_of`."""
        names = EnergyWindow.__struct_fields__
        sql = (
            f"SELECT DISTINCT {', '.join(names)} FROM energy_windows WHERE lower(server) IN {{ids:Array(String)}} "
            "AND start_ns < {end:Int64} AND end_ns > {start:Int64}"
        )
        rows = self._ask(sql, ids=list(servers), start=start_ns, end=end_ns)
        return [EnergyWindow(**dict(zip(names, row, strict=True))) for row in rows]

    def traces_between(self, start_ns: int, end_ns: int) -> set[str]:
        """See `Store.traces_between`."""
        sql = (
            "SELECT DISTINCT arrayJoin(trace_ids) FROM tasks FINAL "
            "WHERE start_ns < {end:Int64} AND end_ns > {start:Int64}"
        )
        return {row[0] for row in self._ask(sql, start=start_ns, end=end_ns)}

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """See `Store.put_tasks`."""
        former = (
            "DELETE FROM tasks WHERE hasAll({traces:Array(String)}, trace_ids) "
            "AND NOT has({ids:Array(String)}, task_id)"
        )
        ids = [row.summary.task_id for row in rows]
        self._command(former, traces=list(trace_ids), ids=ids)
        # Of equal versions in one insert no order is promised.
        for row in rows if len(set(ids)) < len(ids) else ():
            self._insert("tasks", task_columns([row], self._later()))
        if len(set(ids)) == len(ids) and rows:
            self._insert("tasks", task_columns(rows, self._later()))

    def tasks(
        self, which: TaskFilter = ALL_TASKS, *, after: ListPlace | None = None, limit: int | None = None
    ) -> list[TaskSummary]:
        """See `Store.tasks`."""
        sql, parameters = list_question(which, after, limit)
        return [_decode_summary(text) for (text,) in self._ask(sql, **parameters)]

    def groups(
        self, which: TaskFilter = ALL_TASKS, group_by: str | None = None, *, most: int | None = None
    ) -> list[dict[str, Any]]:
        """See `Store.groups`."""
        group_key(group_by)
        questions = GroupQuestions(which, group_by, most)
        answers = [
            self._ask(sql, **questions.parameters)
            for sql in (questions.sums, questions.ranks("wall_ns"), questions.ranks("cost_usd"))
        ]
        found = group_sums(*answers)
        if found is not None:
            return group_rows(found, group_by)
        every: list[dict[str, Any]] = many(self.tasks(which), group_by)["groups"]
        return every if most is None else dearest(every, most)

    def task(self, task_id: str) -> TaskSummary | None:
        """See `Store.task`."""
        found = self._ask("SELECT summary FROM tasks FINAL WHERE task_id = {id:String}", id=task_id)
        return _decode_summary(found[0][0]) if found else None

    def task_ids(self, begin: str, end: str = "") -> list[str]:
        """See `Store.task_ids`."""
        sql = (
            "SELECT task_id FROM tasks FINAL WHERE startsWith(task_id, {begin:String}) "
            "AND endsWith(task_id, {end:String}) "
            "AND length(task_id) >= length({begin:String}) + length({end:String}) ORDER BY task_id LIMIT 100"
        )
        return [row[0] for row in self._ask(sql, begin=begin, end=end)]

    def forget(self, before_ns: int) -> int:
        """See `Store.forget`."""
        traces = list(self._old_traces(before_ns))
        counted = self._ask(
            "SELECT count() FROM spans WHERE trace_id IN {traces:Array(String)}", traces=traces
        )
        for sql in (
            "DELETE FROM tasks WHERE hasAny({traces:Array(String)}, trace_ids)",
            "DELETE FROM task_traces WHERE trace_id IN {traces:Array(String)}",
            "DELETE FROM call_ids WHERE trace_id IN {traces:Array(String)}",
            "DELETE FROM engine_ids WHERE trace_id IN {traces:Array(String)}",
            "DELETE FROM spans WHERE trace_id IN {traces:Array(String)}",
        ):
            if traces:
                self._command(sql, traces=traces)
        outcomes = (
            "DELETE FROM outcomes WHERE arrived_ns < {before:Int64} "
            "AND task_id NOT IN (SELECT task_id FROM task_traces) "
            "AND task_id NOT IN (SELECT task_id FROM tasks FINAL) "
            "AND task_id NOT IN (SELECT concat('trace:', trace_id) FROM spans)"
        )
        self._command(outcomes, before=before_ns)
        left = self._ask(
            "SELECT start_ns, end_ns FROM tasks FINAL WHERE start_ns < {early:Int64}",
            early=min(before_ns + AROUND_NS, _LATEST_NS),
        )
        measured = (
            "DELETE FROM energy_windows WHERE end_ns < {before:Int64} AND arrived_ns < {before:Int64} "
            "AND NOT arrayExists((task_start, task_end) -> task_start - {around:Int64} < end_ns "
            "AND task_end > start_ns - {around:Int64}, {starts:Array(Int64)}, {ends:Array(Int64)})"
        )
        starts, ends = [start_ns for start_ns, _ in left], [end_ns for _, end_ns in left]
        self._command(measured, before=before_ns, around=AROUND_NS, starts=starts, ends=ends)
        return int(counted[0][0])

    def _old_traces(self, before_ns: int) -> set[str]:
        """The traces in which nothing happened since, nor in any that is tied to them by a task."""
        links: dict[str, set[str]] = {}
        tasks: dict[str, set[str]] = {}
        pairs = "SELECT task_id, trace_id FROM task_traces UNION DISTINCT "
        pairs += "SELECT task_id, arrayJoin(trace_ids) AS trace_id FROM tasks FINAL"
        for task_id, trace_id in self._ask(pairs):
            links.setdefault(task_id, set()).add(trace_id)
            tasks.setdefault(trace_id, set()).add(task_id)
        arrived = dict(self._ask("SELECT trace_id, max(arrived_ns) FROM spans GROUP BY trace_id"))
        late = (
            "SELECT task_id FROM tasks FINAL WHERE end_ns >= {at:Int64} UNION DISTINCT "
            "SELECT task_id FROM outcomes WHERE arrived_ns >= {at:Int64}"
        )
        todo = {trace_id for trace_id, at in arrived.items() if at >= before_ns}
        todo |= {
            trace_id for (task_id,) in self._ask(late, at=before_ns) for trace_id in links.get(task_id, ())
        }
        living: set[str] = set()
        while todo:
            living |= todo
            tied = {task_id for trace_id in todo for task_id in tasks.get(trace_id, ())}
            todo = {trace_id for task_id in tied for trace_id in links[task_id]} - living
        return (arrived.keys() | tasks.keys()) - living

    def close(self) -> None:
        """See `Store.close`."""
        self._client.close()

    def _later(self) -> int:
        """A time that is later than that of every row this store wrote."""
        with self._asking:
            self._written_ns = max(self._written_ns + 1, time.time_ns())
            return self._written_ns

    def _ask(self, sql: str, **parameters: Any) -> list[Any]:
        try:
            return self._alone(lambda: list(self._client.query(sql, parameters=parameters).result_rows))
        except ClickHouseError as error:
            raise StoreUnusable(self._place, f"cannot be read ({_first_line(error)})") from error

    def _command(self, sql: str, **parameters: Any) -> None:
        try:
            self._alone(lambda: self._client.command(sql, parameters=parameters))
        except ClickHouseError as error:
            raise StoreNotWritten(self._place, _first_line(error)) from error

    def _insert(self, table: str, columns: dict[str, list[Any]]) -> None:
        try:
            self._alone(
                lambda: self._client.insert(
                    table, list(columns.values()), column_names=list(columns), column_oriented=True
                )
            )
        except ClickHouseError as error:
            raise StoreNotWritten(self._place, _first_line(error)) from error

    def _alone(self, work: Callable[[], _T]) -> _T:
        with self._asking:
            return work()


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _now(arrived_ns: int | None) -> int:
    return time.time_ns() if arrived_ns is None else arrived_ns
