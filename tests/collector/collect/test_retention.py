"""Old tasks are forgotten, as far as it was asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.spans import call, task
from support.watched import Noted, WatchedStore

from agentprof_collector.collect import retention as forgetting
from agentprof_collector.collect.retention import Retention
from agentprof_collector.errors import StoreNotWritten
from agentprof_collector.recompute import recompute

HOUR_NS = 3600 * 10**9


def feed(store: WatchedStore, ended_ago_ns: int, name: str) -> None:
    """A task that ended so long ago, and came when it ended."""
    end_ns = time.time_ns() - ended_ago_ns
    trace_id = f"{len(name):032x}"
    store.arrived(
        task("r", end_ns - 100, end_ns, id=name, trace_id=trace_id),
        call("c", end_ns - 50, end_ns - 10, "r", trace_id=trace_id),
        at=end_ns,
    )
    recompute(store, [trace_id])


def test_old_tasks_go_at_once_and_younger_ones_stay() -> None:
    """With their spans; how many spans went is told."""
    with WatchedStore() as store:
        feed(store, 3 * HOUR_NS, "old")
        feed(store, HOUR_NS, "young")
        told: Noted[int] = Noted()
        retention = Retention(store.forget, 2 * HOUR_NS, told.note)
        told.wait_for(lambda counts: counts == [2])
        retention.close()
        assert [found.task_id for found in store.tasks()] == ["young"]
        assert store.spans_of([f"{3:032x}"]) == []
        assert len(store.spans_of([f"{5:032x}"])) == 2


def test_a_store_that_fails_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on, whatever went wrong."""
    monkeypatch.setattr(forgetting, "EVERY_S", 0.01)
    failures = iter([StoreNotWritten(Path("full"), "disk full"), ValueError("a mistake")])
    with WatchedStore() as store:
        feed(store, 3 * HOUR_NS, "old")
        forget = store.forget

        def fail_first(before_ns: int) -> int:
            failure = next(failures, None)
            if failure is not None:
                raise failure
            return forget(before_ns)

        monkeypatch.setattr(store, "forget", fail_first)
        told: Noted[int] = Noted()
        retention = Retention(store.forget, 2 * HOUR_NS, told.note)
        told.wait_for(lambda counts: 2 in counts)
        retention.close()
        assert store.tasks() == []


def test_closing_does_not_wait_for_the_next_time() -> None:
    """It ends at once."""
    with WatchedStore() as store:
        told: Noted[int] = Noted()
        retention = Retention(store.forget, HOUR_NS, told.note)
        told.wait_for(lambda counts: counts == [0])
        retention.close()
        assert not retention._thread.is_alive()
