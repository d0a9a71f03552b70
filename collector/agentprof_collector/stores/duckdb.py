"""Store on one DuckDB file, or in memory; for any number of threads of one process."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof.rollup.many import dearest, group_key, group_rows, many
from agentprof.rollup.measured import AROUND_NS
from agentprof.summary import TaskSummary
from agentprof_collector.closing import Closing
from agentprof_collector.errors import StoreUnusable
from agentprof_collector.stores import ALL_TASKS, ListPlace, TaskFilter, TaskRow
from agentprof_collector.stores.duckdb_file import Cursor, DuckDbFile
from agentprof_collector.stores.duckdb_questions import GroupQuestions, list_question
from agentprof_collector.stores.duckdb_rows import (
    INSERT_TASKS,
    append,
    batch_rows,
    spans_by_trace,
    spans_in,
    summary_in,
    task_columns,
)
from agentprof_collector.stores.duckdb_schema import prepare, sql
from agentprof_collector.stores.group_answers import group_sums
from agentprof_collector.stores.ids import FIRST_TRACES, hashes, id_rows
from agentprof_collector.stores.recent import RecentBatches


class DuckDbStore(Closing):
    """See `Store` for the contract; spans are kept as JSON beside the columns they are found by."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._file: DuckDbFile = prepare(path, read_only)
        # Writers of one kind wait for each other: rows of tasks are read before they are replaced, and what is
        # being removed must not grow. Both at once only in this order.
        self._appending = threading.Lock()
        self._replacing = threading.Lock()
        self._recent = RecentBatches()
        # Most files hold no span of an engine: then there is nothing to look for. Once there is one, there is.
        self._holds_engines = bool(self._ask("count_engine_ids")[0])

    def add_spans(
        self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]], *, arrived_ns: int | None = None
    ) -> None:
        """See `Store.add_spans`."""
        by_trace = spans_by_trace(spans)
        arrived_ns = _now(arrived_ns)
        batches = batch_rows(by_trace, arrived_ns)
        distinct = sorted(set(pairs))
        ids = id_rows(spans)

        def work(cursor: Cursor) -> None:
            append(cursor, "batches", batches)
            append(cursor, "task_traces", distinct)
            append(cursor, "call_ids", ids.of_calls)
            append(cursor, "engine_ids", ids.of_engines)

        with self._appending:
            self._file.write(work)
        self._holds_engines = self._holds_engines or bool(ids.of_engines)
        self._recent.add(by_trace, arrived_ns)

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """See `Store.spans_of`."""

        def work(cursor: Cursor) -> list[Sequence[Span]]:
            rows = cursor.execute(sql("select_batches"), {"trace_ids": list(trace_ids)}).fetchall()
            names = Counter((trace_id, arrived_ns) for _, trace_id, arrived_ns in rows)
            known: list[Sequence[Span]] = []
            places = []
            for place, trace_id, arrived_ns in rows:
                spans = self._recent.get(trace_id, arrived_ns) if names[trace_id, arrived_ns] == 1 else None
                if spans is None:
                    places.append(place)
                else:
                    known.append(spans)
            bodies = _column(cursor, "select_bodies", places=places) if places else []
            return known + [spans_in(body) for body in bodies]

        with self._readable():
            return [span for spans in self._file.read(work) for span in spans] if trace_ids else []

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """See `Store.traces_of`."""
        return set(self._ask("select_traces", task_ids=list(task_ids)))

    def traces_tied(self, trace_ids: Collection[str]) -> set[str]:
        """See `Store.traces_tied`."""
        return set(self._ask("select_tied_traces", trace_ids=list(trace_ids)))

    def traces_by_id(self, call_ids: Collection[str], engine_ids: Collection[str]) -> set[str]:
        """See `Store.traces_by_id`."""
        found: set[str] = set()
        for name, ids in (("select_call_ids", call_ids), ("select_engine_ids", engine_ids)):
            if ids and (ids is call_ids or self._holds_engines):
                found.update(self._ask(name, ids=hashes(ids), first=FIRST_TRACES))
        return found

    def arrived_since(self, arrived_ns: int) -> set[str]:
        """See `Store.arrived_since`."""
        return set(self._ask("select_arrived", arrived_ns=arrived_ns))

    def added_up_to(self) -> int:
        """See `Store.added_up_to`."""
        (found,) = self._ask("select_added_up_to")
        return int(found)

    def set_added_up_to(self, arrived_ns: int) -> None:
        """See `Store.set_added_up_to`."""
        with self._replacing:
            self._file.write(lambda cursor: cursor.execute(sql("update_added_up_to"), {"to": arrived_ns}))

    def add_outcomes(self, facts: Sequence[OutcomeFact], *, arrived_ns: int | None = None) -> None:
        """See `Store.add_outcomes`."""
        columns: dict[str, Any] = {
            name: [getattr(fact, name) for fact in facts] for name in OutcomeFact.__struct_fields__
        }
        columns["arrived_ns"] = _now(arrived_ns)
        with self._appending:
            self._file.write(lambda cursor: cursor.execute(sql("insert_outcomes"), columns))

    def outcomes_of(self, task_ids: Collection[str]) -> list[OutcomeFact]:
        """See `Store.outcomes_of`."""
        parameters = {"task_ids": list(task_ids)}
        rows = self._file.read(lambda cursor: cursor.execute(sql("select_outcomes"), parameters).fetchall())
        return [
            OutcomeFact(task_id=task_id, outcome=outcome, score=score, recorded_ns=recorded_ns)
            for task_id, outcome, score, recorded_ns in rows
        ]

    def add_windows(self, windows: Sequence[EnergyWindow], *, arrived_ns: int | None = None) -> None:
        """See `Store.add_windows`."""
        arrived_ns = _now(arrived_ns)
        rows = [(*msgspec.structs.astuple(window), arrived_ns) for window in windows]
        with self._appending:
            self._file.write(lambda cursor: append(cursor, "energy_windows", rows))

    def windows_of(self, servers: Collection[str], start_ns: int, end_ns: int) -> list[EnergyWindow]:
        """See `Store.windows_of`."""
        if not servers:
            return []
        asked = {"servers": list(servers), "start_ns": start_ns, "end_ns": end_ns}
        rows = self._file.read(lambda cursor: _rows(cursor, "select_windows", **asked))
        return [EnergyWindow(**dict(zip(EnergyWindow.__struct_fields__, row, strict=True))) for row in rows]

    def traces_between(self, start_ns: int, end_ns: int) -> set[str]:
        """See `Store.traces_between`."""
        return set(self._ask("select_traces_between", start_ns=start_ns, end_ns=end_ns))

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """See `Store.put_tasks`."""
        given = list(_best(rows).values())
        # Before the others have to wait.
        columns = task_columns(given)
        with self._replacing:
            self._file.write(lambda cursor: _put_tasks(cursor, given, columns, trace_ids))

    def tasks(
        self, which: TaskFilter = ALL_TASKS, *, after: ListPlace | None = None, limit: int | None = None
    ) -> list[TaskSummary]:
        """See `Store.tasks`."""
        question = list_question(which, after, limit)

        def work(cursor: Cursor) -> list[bytes]:
            places = [place for (place,) in cursor.execute(*question).fetchall()]
            packed = dict(_rows(cursor, "select_summaries", places=places)) if places else {}
            return [packed[place] for place in places]

        with self._readable():
            return [summary_in(packed) for packed in self._file.read(work)]

    def groups(
        self, which: TaskFilter = ALL_TASKS, group_by: str | None = None, *, most: int | None = None
    ) -> list[dict[str, Any]]:
        """See `Store.groups`."""
        group_key(group_by)
        questions = GroupQuestions(which, group_by, most)

        def work(cursor: Cursor) -> list[dict[str, Any]] | None:
            answers = [
                cursor.execute(sql, questions.parameters).fetchall()
                for sql in (questions.sums, questions.ranks("wall_ns"), questions.ranks("cost_usd"))
            ]
            found = group_sums(*answers)
            return None if found is None else group_rows(found, group_by)

        found = self._file.read(work)
        if found is not None:
            return found
        every: list[dict[str, Any]] = many(self.tasks(which), group_by)["groups"]
        return every if most is None else dearest(every, most)

    def task(self, task_id: str) -> TaskSummary | None:
        """See `Store.task`."""
        found = self._ask("select_task", task_id=task_id)
        with self._readable():
            return summary_in(found[0]) if found else None

    def task_ids(self, begin: str, end: str = "") -> list[str]:
        """See `Store.task_ids`."""
        return self._ask("select_task_ids", begin=begin, end=end)

    def forget(self, before_ns: int) -> int:
        """See `Store.forget`."""
        with self._appending, self._replacing:
            removed = self._file.write(lambda cursor: _forget(cursor, before_ns))
        if removed:
            self._file.checkpoint()
        return removed

    def close(self) -> None:
        """See `Store.close`."""
        self._file.close()

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (msgspec.MsgspecError, zlib.error) as error:
            what = f"holds what this version cannot read ({error})"
            raise StoreUnusable(self._file.place, what) from error

    def _ask(self, name: str, **parameters: Any) -> list[Any]:
        return self._file.read(lambda cursor: _column(cursor, name, **parameters))


def _put_tasks(
    cursor: Cursor, given: Sequence[TaskRow], columns: dict[str, list[Any]], trace_ids: Collection[str]
) -> None:
    ids = {row.summary.task_id for row in given}
    kept = {
        task_id: (place, (spans, facts))
        for place, task_id, spans, facts in _rows(cursor, "select_versions", ids=list(ids))
    }
    winners = [
        row for row in given if (row.spans, row.facts) >= kept.get(row.summary.task_id, (0, (0, 0)))[1]
    ]
    places = _former(cursor, ids, trace_ids)
    places += [kept[row.summary.task_id][0] for row in winners if row.summary.task_id in kept]
    if places:
        cursor.execute(sql("delete_tasks"), {"places": places})
    if winners:
        cursor.execute(INSERT_TASKS, columns if len(winners) == len(given) else task_columns(winners))


def _former(cursor: Cursor, ids: Collection[str], trace_ids: Collection[str]) -> list[int]:
    """Places of rows of other tasks that lie wholly in the traces."""
    given = set(trace_ids)
    places = _column(cursor, "select_rows_by_trace", trace_ids=list(given))
    return [
        place
        for place, task_id, traces in (
            _rows(cursor, "select_traces_of_rows", places=places) if places else ()
        )
        if task_id not in ids and given.issuperset(traces)
    ]


def _best(rows: Sequence[TaskRow]) -> dict[str, TaskRow]:
    """Of several rows of one task the one that holds."""
    best: dict[str, TaskRow] = {}
    for row in rows:
        other = best.get(row.summary.task_id)
        if other is None or (row.spans, row.facts) >= (other.spans, other.facts):
            best[row.summary.task_id] = row
    return best


def _forget(cursor: Cursor, before_ns: int) -> int:
    traces = _column(cursor, "select_old_traces", before_ns=before_ns)
    (removed,) = _column(cursor, "count_spans", trace_ids=traces)
    for name in (
        "delete_old_tasks",
        "delete_task_traces",
        "delete_call_ids",
        "delete_engine_ids",
        "delete_batches",
    ):
        cursor.execute(sql(name), {"trace_ids": traces})
    cursor.execute(sql("delete_outcomes"), {"before_ns": before_ns})
    cursor.execute(sql("delete_windows"), {"before_ns": before_ns, "around_ns": AROUND_NS})
    return int(removed)


def _column(cursor: Cursor, name: str, **parameters: Any) -> list[Any]:
    return [row[0] for row in _rows(cursor, name, **parameters)]


def _rows(cursor: Cursor, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return cursor.execute(sql(name), parameters).fetchall()


def _now(arrived_ns: int | None) -> int:
    return time.time_ns() if arrived_ns is None else arrived_ns
