from pathlib import Path

import duckdb
import msgspec
import pytest
from store_contract import call, root, row
from store_joins import ID, the_call

from agentprof.model import Facts, OutcomeFact, Span
from agentprof_collector.errors import StoreUnusable
from agentprof_collector.stores import TaskFilter, TaskRow, open_store

VERSION_1 = """
CREATE TABLE agentprof_meta (schema_version INTEGER NOT NULL);
CREATE TABLE spans (
    trace_id VARCHAR NOT NULL, span_id VARCHAR NOT NULL, start_ns BIGINT NOT NULL, body VARCHAR NOT NULL
);
CREATE TABLE task_traces (task_id VARCHAR NOT NULL, trace_id VARCHAR NOT NULL);
CREATE TABLE outcomes (
    task_id VARCHAR NOT NULL, outcome VARCHAR NOT NULL, score DOUBLE, recorded_ns BIGINT NOT NULL
);
CREATE TABLE tasks (
    task_id VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, outcome VARCHAR, start_ns BIGINT NOT NULL,
    trace_ids VARCHAR[] NOT NULL, spans BIGINT NOT NULL, facts BIGINT NOT NULL, summary VARCHAR NOT NULL
);
INSERT INTO agentprof_meta VALUES (1);
"""
"""What agentprof 0.1.0 made."""

FACT = OutcomeFact(task_id="a7", outcome="failure", score=0.5, recorded_ns=3)


def spans_of_task(number: int) -> list[Span]:
    """A task with two calls."""
    trace, task = f"t{number}", f"a{number}"
    return [root(trace, task), *(call(trace, f"c{n}", f"root-{task}") for n in range(2))]


def version_1_file(path: Path, tasks: int) -> list[TaskRow]:
    """A file as it was, one task with an outcome recorded later; what its rows say."""
    rows: list[TaskRow] = []
    with duckdb.connect(path) as connection:
        connection.execute(VERSION_1)
        connection.begin()
        for number in range(tasks):
            spans = spans_of_task(number)
            task = f"a{number}"
            for span in spans:
                body = msgspec.json.encode(span).decode()
                values = [span.trace_id, span.span_id, span.start_ns, body]
                connection.execute("INSERT INTO spans VALUES (?, ?, ?, ?)", values)
            connection.execute("INSERT INTO task_traces VALUES (?, ?)", [task, f"t{number}"])
            rows.append(row(task, spans, Facts(outcomes=(FACT,)) if task == FACT.task_id else None))
            summary = rows[-1].summary
            values = [task, summary.name, summary.outcome, summary.start_ns, summary.trace_ids]
            values += [rows[-1].spans, rows[-1].facts, msgspec.json.encode(summary).decode()]
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        connection.execute(
            "INSERT INTO outcomes VALUES (?, ?, ?, ?)",
            [FACT.task_id, FACT.outcome, FACT.score, FACT.recorded_ns],
        )
        connection.commit()
    return rows


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_of_version_1_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """In place, in pieces, whoever opens it: the same spans, pairs, outcomes and summaries, and it goes on."""
    monkeypatch.setattr("agentprof_collector.stores.duckdb_schema._ROWS_AT_ONCE", 4)
    path = tmp_path / "s.duckdb"
    rows = version_1_file(path, 12)
    for _ in range(2):
        with open_store(path, read_only=read_only) as store:
            assert sorted(store.tasks(), key=lambda s: s.task_id) == sorted(
                (row.summary for row in rows), key=lambda s: s.task_id
            )
            spans = store.spans_of(["t3", "t11"])
            assert sorted(spans, key=lambda s: s.key) == sorted(
                spans_of_task(3) + spans_of_task(11), key=lambda s: s.key
            )
            assert store.traces_of(["a7"]) == {"t7"}
            assert store.outcomes_of(["a7"]) == [FACT]
            assert (store.added_up_to(), store.arrived_since(0)) == (0, set())
            (group,) = store.groups(TaskFilter(outcome="failure"), "outcome")
            assert (group["tasks"], group["calls"]) == (1, 2)
    with open_store(path) as store:
        store.put_tasks([TaskRow(summary=rows[0].summary, spans=9, facts=0)], {"t0"})
        assert len(store.tasks()) == 12
    with duckdb.connect(path, read_only=True) as connection:
        names = {name for (name,) in connection.execute("SHOW TABLES").fetchall()}
    assert names == {
        "agentprof_meta",
        "batches",
        "task_traces",
        "call_ids",
        "engine_ids",
        "energy_windows",
        "outcomes",
        "tasks",
    }


def test_an_update_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """A row that cannot be read stops it; the file is of version 1 still, with everything in it."""
    path = tmp_path / "s.duckdb"
    version_1_file(path, 3)
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE tasks SET summary = '{\"schema\":1}' WHERE task_id = 'a2'")
    with pytest.raises(StoreUnusable, match="version 1 and holds what cannot be read"):
        open_store(path)
    with duckdb.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT schema_version FROM agentprof_meta").fetchall() == [(1,)]
        assert connection.execute("SELECT count(*) FROM spans").fetchall() == [(9,)]
        assert connection.execute("SELECT count(*) FROM tasks").fetchall() == [(3,)]


ADDED_IN_3 = ("energy_low_uj", "energy_high_uj", "calls_without_energy")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_of_version_2_gets_its_new_columns_and_tables(tmp_path: Path, read_only: bool) -> None:
    """What was added up before energy was has none, which is not 0; what comes after has, and is found by its ids."""
    path = tmp_path / "s.duckdb"
    spans = spans_of_task(0)
    with open_store(path) as store:
        store.put_tasks([row("a0", spans)], {"t0"})
    with duckdb.connect(path) as connection:
        for name in ADDED_IN_3:
            connection.execute(f"ALTER TABLE tasks DROP COLUMN {name}")
        for name in ("call_ids", "engine_ids", "energy_windows"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("UPDATE agentprof_meta SET schema_version = 2")
    for _ in range(2):
        with open_store(path, read_only=read_only) as store:
            (group,) = store.groups()
            assert (group["tasks"], group["calls_without_energy"], group["energy_j"]) == (1, None, None)
    with open_store(path) as store:
        store.put_tasks([row("a0", spans)], {"t0"})
        assert store.groups()[0]["calls_without_energy"] == 2
        store.add_spans([the_call()], [])
        assert store.traces_by_id([ID], []) == {"t1"}
    with duckdb.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT schema_version FROM agentprof_meta").fetchall() == [(3,)]
