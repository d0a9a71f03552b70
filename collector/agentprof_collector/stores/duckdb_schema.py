"""The tables of a DuckDB file: made where there are none, brought up to date where they are older."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from agentprof.model import Span
from agentprof.summary import TaskSummary
from agentprof_collector.errors import StoreUnusable
from agentprof_collector.stores import TaskRow
from agentprof_collector.stores.duckdb_file import Cursor, DuckDbFile
from agentprof_collector.stores.duckdb_rows import (
    INSERT_TASKS,
    append,
    batch_rows,
    spans_by_trace,
    task_columns,
)

SCHEMA_VERSION: Final = 3
_ROWS_AT_ONCE: Final = 5_000
_ADDED_IN_3: Final = ("energy_low_uj", "energy_high_uj", "calls_without_energy")
"""Columns of `tasks`; of what was added up before they are unknown."""
_TABLES: Final = ("batches", "task_traces", "call_ids", "engine_ids", "outcomes", "energy_windows", "tasks")


@cache
def sql(name: str) -> str:
    """A statement, from the file that is named for what it does."""
    return (resources.files(__package__) / "sql" / "duckdb" / f"{name}.sql").read_text(encoding="utf-8")


def prepare(path: Path | None, read_only: bool) -> DuckDbFile:
    """The database of a file, with the tables of this version.

    A file of an older version is brought up to date in one transaction, also by who only wants to read: by then
    it has been opened for writing and closed again.

    Raises:
        StoreError: see `DuckDbFile`; or it is a database of something else, or of a later version.
    """
    file = DuckDbFile(path, read_only=read_only)
    try:
        version = file.read(_version)
        if version is None and not read_only and not file.read(_names):
            file.write(_create)
        elif version is None:
            raise StoreUnusable(file.place, "is a database of something else")
        elif version < SCHEMA_VERSION and read_only:
            file.close()
            prepare(path, read_only=False).close()
            return prepare(path, read_only=True)
        elif version == 1:
            _bring_up_to_date(file)
        elif version == 2:
            file.write(_from_version_2)
        elif version != SCHEMA_VERSION:
            what = f"has schema version {version}, this program reads version {SCHEMA_VERSION} and older"
            raise StoreUnusable(file.place, what)
    except BaseException:
        file.close()
        raise
    return file


def _names(cursor: Cursor) -> set[str]:
    return {row[0] for row in cursor.execute("SHOW TABLES").fetchall()}


def _version(cursor: Cursor) -> int | None:
    """None where there are no tables of ours, which say one version."""
    if "agentprof_meta" not in _names(cursor):
        return None
    rows = cursor.execute("SELECT schema_version FROM agentprof_meta").fetchall()
    return int(rows[0][0]) if len(rows) == 1 else None


def _create(cursor: Cursor) -> None:
    for name in ("meta", *_TABLES):
        cursor.execute(sql(name))
    cursor.execute("INSERT INTO agentprof_meta VALUES (?, 0)", [SCHEMA_VERSION])


def _bring_up_to_date(file: DuckDbFile) -> None:
    try:
        file.write(_from_version_1)
    except msgspec.MsgspecError as error:
        what = f"is of schema version 1 and holds what cannot be read ({error})"
        raise StoreUnusable(file.place, what) from error


def _from_version_2(cursor: Cursor) -> None:
    for name in _ADDED_IN_3:
        cursor.execute(f"ALTER TABLE tasks ADD COLUMN {name} BIGINT")
    for name in ("call_ids", "engine_ids", "energy_windows"):
        cursor.execute(sql(name))
    cursor.execute("UPDATE agentprof_meta SET schema_version = ?", [SCHEMA_VERSION])


def _from_version_1(cursor: Cursor) -> None:
    """What was one row a span becomes one row a trace; rows of tasks get their columns from the summaries."""
    for name in ("tasks", "outcomes"):
        cursor.execute(f"ALTER TABLE {name} RENAME TO {name}_1")
    cursor.execute("DROP TABLE agentprof_meta")
    _create(cursor)
    cursor.execute("INSERT INTO outcomes SELECT task_id, outcome, score, recorded_ns, 0 FROM outcomes_1")
    for bodies in _pieces(cursor, "SELECT body FROM spans"):
        spans = [msgspec.json.decode(body, type=Span) for (body,) in bodies]
        # When they arrived was not kept: before everything that comes now.
        append(cursor, "batches", batch_rows(spans_by_trace(spans), 0))
    for found in _pieces(cursor, "SELECT summary, spans, facts FROM tasks_1"):
        rows = [
            TaskRow(summary=msgspec.json.decode(text, type=TaskSummary), spans=spans, facts=facts)
            for text, spans, facts in found
        ]
        cursor.execute(INSERT_TASKS, task_columns(rows))
    for name in ("spans", "tasks_1", "outcomes_1"):
        cursor.execute(f"DROP TABLE {name}")


def _pieces(cursor: Cursor, question: str) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a whole table, some at a time."""
    table = question.rpartition(" ")[2]
    ((last,),) = cursor.execute(f"SELECT coalesce(max(rowid), -1) FROM {table}").fetchall()
    for at in range(0, last + 1, _ROWS_AT_ONCE):
        yield cursor.execute(f"{question} WHERE rowid BETWEEN {at} AND {at + _ROWS_AT_ONCE - 1}").fetchall()
