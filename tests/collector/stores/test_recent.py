"""Batches of a moment ago are read as they were, and the store alone says what there is."""

from __future__ import annotations

from pathlib import Path

import duckdb
from support.spans import call

from agentprof.model import Span
from agentprof_collector.stores import open_store
from agentprof_collector.stores.recent import RecentBatches

ONE, OTHER = "1" * 32, "2" * 32


def spans(trace_id: str, count: int) -> list[Span]:
    """Some calls of one trace."""
    return [call(f"{trace_id[0]}-{number}", 0, number + 1, trace_id=trace_id) for number in range(count)]


def test_the_oldest_go_when_there_are_too_many() -> None:
    """The bound is in spans, and holds after every batch."""
    recent = RecentBatches(limit=10)
    recent.add({ONE: spans(ONE, 6)}, 1)
    recent.add({OTHER: spans(OTHER, 4)}, 1)
    assert recent.get(ONE, 1) == spans(ONE, 6)
    recent.add({ONE: spans(ONE, 5)}, 2)
    assert (recent.get(ONE, 1), recent.get(OTHER, 1)) == (None, spans(OTHER, 4))
    recent.add({ONE: spans(ONE, 11)}, 3)
    assert [recent.get(ONE, 2), recent.get(ONE, 3), recent.get(OTHER, 1)] == [None, None, None]


def test_two_batches_of_one_name_are_none() -> None:
    """Which of them is asked for cannot be told: both are read from the store."""
    recent = RecentBatches()
    recent.add({ONE: spans(ONE, 1)}, 1)
    recent.add({ONE: spans(ONE, 2)}, 1)
    recent.add({ONE: spans(ONE, 3)}, 1)
    assert recent.get(ONE, 1) is None


def test_a_store_gives_each_batch_once(tmp_path: Path) -> None:
    """Batches with the same time of arrival, and such as were written by another process, are all there."""
    path = tmp_path / "spans.duckdb"
    with open_store(path) as store:
        store.add_spans(spans(ONE, 2), [], arrived_ns=7)
    with open_store(path) as store:
        store.add_spans(spans(ONE, 3), [], arrived_ns=8)
        assert len(store.spans_of([ONE])) == 5
        store.add_spans(spans(ONE, 4), [], arrived_ns=8)
        assert sorted(span.span_id for span in store.spans_of([ONE])) == sorted(
            span.span_id for count in (2, 3, 4) for span in spans(ONE, count)
        )


def test_a_batch_named_like_one_of_before_is_not_taken_for_it(tmp_path: Path) -> None:
    """A trace may have a batch of the same time from before the store was opened."""
    path = tmp_path / "spans.duckdb"
    for count in (2, 3):
        with open_store(path) as store:
            store.add_spans(spans(ONE, count), [], arrived_ns=7)
            found = store.spans_of([ONE])
    assert sorted(span.span_id for span in found) == sorted(
        span.span_id for count in (2, 3) for span in spans(ONE, count)
    )


def test_what_is_forgotten_is_not_remembered(tmp_path: Path) -> None:
    """The rows say what there is, whatever was written a moment ago."""
    path = tmp_path / "spans.duckdb"
    with open_store(path) as store:
        store.add_spans(spans(ONE, 2), [], arrived_ns=7)
        store.add_spans(spans(OTHER, 1), [], arrived_ns=7)
        store._file.write(lambda cursor: cursor.execute("DELETE FROM batches WHERE trace_id = ?", [ONE]))  # type: ignore[attr-defined]
        assert store.spans_of([ONE, OTHER]) == spans(OTHER, 1)
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM batches").fetchall() == [(1,)]
