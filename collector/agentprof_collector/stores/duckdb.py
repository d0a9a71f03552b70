"""Store on one DuckDB file, or in memory; for use by one thread of one process at a time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import msgspec

from agentprof.model import OutcomeFact, Span
from agentprof.summary import TaskSummary
from agentprof_collector.errors import StoreLocked, StoreMissing, StoreUnusable
from agentprof_collector.stores import TaskRow

SCHEMA_VERSION = 1
_TABLES = ("spans", "task_traces", "outcomes", "tasks")
# The file must be usable with no network, and nothing is fetched behind the user's back.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}

_encode = msgspec.json.Encoder().encode
_decode_span = msgspec.json.Decoder(Span).decode
_decode_summary = msgspec.json.Decoder(TaskSummary).decode


@cache
def _sql(name: str) -> str:
    return (resources.files(__package__) / "sql" / "duckdb" / f"{name}.sql").read_text(encoding="utf-8")


class DuckDbStore:
    """See `Store` for the contract; spans are kept as JSON beside the columns they are found by."""

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._place = path or Path(":memory:")
        self._connection = _connect(path, read_only)
        try:
            self._prepare(read_only)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, read_only: bool) -> None:
        found = {row[0] for row in self._rows("SHOW TABLES")}
        if not found and not read_only:
            with self._transaction():
                for name in ("meta", *_TABLES):
                    self._connection.execute(_sql(name))
                self._connection.execute("INSERT INTO agentprof_meta VALUES (?)", [SCHEMA_VERSION])
        elif "agentprof_meta" not in found:
            raise StoreUnusable(self._place, "is a database of something else")
        else:
            ((version,),) = self._rows("SELECT schema_version FROM agentprof_meta")
            if version != SCHEMA_VERSION:
                what = f"has schema version {version}, this program reads version {SCHEMA_VERSION}"
                raise StoreUnusable(self._place, what)

    def add_spans(self, spans: Sequence[Span], pairs: Iterable[tuple[str, str]]) -> None:
        """See `Store.add_spans`."""
        kept = {
            "trace_ids": [span.trace_id for span in spans],
            "span_ids": [span.span_id for span in spans],
            "starts": [span.start_ns for span in spans],
            "bodies": [_encode(span).decode() for span in spans],
        }
        distinct = sorted(set(pairs))
        with self._transaction():
            self._connection.execute(_sql("insert_spans"), kept)
            if distinct:
                columns = {
                    "task_ids": [task_id for task_id, _ in distinct],
                    "trace_ids": [trace_id for _, trace_id in distinct],
                }
                self._connection.execute(_sql("insert_task_traces"), columns)

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        """See `Store.spans_of`."""
        rows = self._rows(_sql("select_spans"), {"trace_ids": list(trace_ids)})
        return [_decode_span(body) for (body,) in rows]

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        """See `Store.traces_of`."""
        return {row[0] for row in self._rows(_sql("select_traces"), {"task_ids": list(task_ids)})}

    def add_outcome(self, fact: OutcomeFact) -> None:
        """See `Store.add_outcome`."""
        with self._transaction():
            self._connection.execute(_sql("insert_outcome"), msgspec.structs.asdict(fact))

    def outcomes_of(self, task_ids: Collection[str]) -> list[OutcomeFact]:
        """See `Store.outcomes_of`."""
        rows = self._rows(_sql("select_outcomes"), {"task_ids": list(task_ids)})
        return [
            OutcomeFact(task_id=task_id, outcome=outcome, score=score, recorded_ns=recorded_ns)
            for task_id, outcome, score, recorded_ns in rows
        ]

    def put_tasks(self, rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        """See `Store.put_tasks`."""
        summaries = [row.summary for row in rows]
        ids = [summary.task_id for summary in summaries]
        columns = {
            "ids": ids,
            "names": [summary.name for summary in summaries],
            "outcomes": [summary.outcome for summary in summaries],
            "starts": [summary.start_ns for summary in summaries],
            "trace_ids": [list(summary.trace_ids) for summary in summaries],
            "spans": [row.spans for row in rows],
            "facts": [row.facts for row in rows],
            "summaries": [_encode(summary).decode() for summary in summaries],
        }
        with self._transaction():
            self._connection.execute(_sql("delete_former_tasks"), {"trace_ids": list(trace_ids), "ids": ids})
            if rows:
                self._connection.execute(_sql("insert_tasks"), columns)

    def tasks(self, *, name: str | None = None, outcome: str | None = None) -> list[TaskSummary]:
        """See `Store.tasks`."""
        rows = self._rows(_sql("select_tasks"), {"name": name, "outcome": outcome})
        return [_decode_summary(summary) for (summary,) in rows]

    def task(self, task_id: str) -> TaskSummary | None:
        """See `Store.task`."""
        rows = self._rows(_sql("select_task"), {"task_id": task_id})
        return _decode_summary(rows[0][0]) if rows else None

    def task_ids(self, begin: str, end: str = "") -> list[str]:
        """See `Store.task_ids`."""
        return [row[0] for row in self._rows(_sql("select_task_ids"), {"begin": begin, "end": end})]

    def close(self) -> None:
        """See `Store.close`."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[Any]:
        return self._connection.execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
            self._connection.commit()
        except duckdb.Error as error:
            self._undo()
            raise StoreUnusable(self._place, f"cannot be written ({_first_line(error)})") from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        # A failed commit has already ended the transaction.
        with contextlib.suppress(duckdb.TransactionException):
            self._connection.rollback()


def _connect(path: Path | None, read_only: bool) -> duckdb.DuckDBPyConnection:
    if path is None:
        return duckdb.connect(":memory:", config=_CONFIG)
    if read_only and not path.exists():
        raise StoreMissing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return duckdb.connect(path, read_only=read_only, config=_CONFIG)
    except OSError as error:
        raise StoreUnusable(path, f"cannot be opened ({error.strerror or error})") from error
    except duckdb.Error as error:
        text = str(error)
        if "Could not set lock" in text:
            pid = re.search(r"\(PID (\d+)\)", text)
            raise StoreLocked(path, int(pid[1]) if pid else None) from error
        raise StoreUnusable(path, f"cannot be opened ({_first_line(error)})") from error


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0]
