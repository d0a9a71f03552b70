"""Adding up off the receive path: when it happens, what survives a failure and a kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.spans import call, reported, step, task
from support.watched import Noted, WatchedStore

from agentprof.model import EnergyWindow, OutcomeFact, Span
from agentprof.summary import TaskSummary
from agentprof_collector.collect import adder as adding
from agentprof_collector.collect.adder import Adder
from agentprof_collector.collect.meters import Meters
from agentprof_collector.errors import StoreNotWritten
from agentprof_collector.stores import TaskRow

FOREVER_S = 3600.0
At = tuple[str, int, float]
"""A task that was added up: its id, its model calls, and when."""


class Added:
    """An adder on a store; what it added up is noted."""

    def __init__(self, store: WatchedStore, **more: Any) -> None:
        self.store = store
        self.meters = Meters()
        self.tasks: Noted[At] = Noted()
        self.adder = Adder(store, self.meters, self._added_up, **more)

    def _added_up(self, summary: TaskSummary, spans: Sequence[Span]) -> None:
        self.tasks.note((summary.task_id, summary.calls, time.monotonic()))

    def come(self, *spans: Span, at: int | None = None) -> float:
        """Spans arrive; when, before the adder knows of them."""
        at = time.time_ns() if at is None else at
        self.store.arrived(*spans, at=at)
        now_s = time.monotonic()
        self.adder.arrived(spans, at)
        return now_s

    def wait_for(self, *tasks: tuple[str, int]) -> list[At]:
        """Until these were added up, with so many calls."""
        return self.tasks.wait_for(lambda items: set(tasks) <= {item[:2] for item in items})


@pytest.fixture
def store() -> Iterator[WatchedStore]:
    with WatchedStore() as opened:
        yield opened


Start = Callable[..., Added]


@pytest.fixture
def start(store: WatchedStore) -> Iterator[Start]:
    """Starts adders, and ends them when the test has ended."""
    started: list[Added] = []

    def start(store: WatchedStore, **more: Any) -> Added:
        started.append(Added(store, **more))
        return started[-1]

    yield start
    for added in started:
        added.store.failure_of_rows = None
        added.adder.close()


def of_task(at: int) -> list[Span]:
    """The spans of a task in a trace of its own, its root last."""
    trace, name = f"{at:032x}", f"t{at}"
    return [
        call(f"c{at}", 20, 30, "r", trace_id=trace),
        task("r", 10, 90, id=name, trace_id=trace),
    ]


def test_a_finished_task_is_added_up_when_it_is_quiet(store: WatchedStore, start: Start) -> None:
    """Two tenths of a second after the last span that came, the root among them; once."""
    added = start(store, open_s=FOREVER_S)
    child, root = of_task(1)
    added.come(root)
    last_s = added.come(child)
    ((_, calls, when_s),) = added.wait_for(("t1", 1))
    assert calls == 1
    assert when_s - last_s >= adding.QUIET_S
    added.adder.close()
    assert len(added.tasks.items) == 1
    assert added.adder.dirty == 0


def test_what_comes_late_of_a_finished_task_does_not_wait_as_if_it_were_open(
    store: WatchedStore, start: Start
) -> None:
    """As spans of an engine do, seconds after the calls they tell of."""
    added = start(store, open_s=FOREVER_S)
    child, root = of_task(1)
    added.come(root)
    added.wait_for(("t1", 0))
    last_s = added.come(child)
    *_, (_, calls, when_s) = added.wait_for(("t1", 1))
    assert calls == 1
    assert when_s - last_s >= adding.QUIET_S


def test_an_unfinished_task_is_added_up_now_and_then(store: WatchedStore, start: Start) -> None:
    """Some seconds after its first span, however many more come; a task without its root is none yet."""
    added = start(store, quiet_s=FOREVER_S, open_s=0.5)
    _, root = of_task(1)
    first_s = added.come(step("s", 5, 6, "r", trace_id=root.trace_id, task=root.task))
    while not added.tasks.items:
        added.come(step("s", 5, 6, "r", trace_id=root.trace_id, task=root.task))
    assert added.tasks.items[0][2] - first_s >= 0.5
    added.adder.close()


def test_who_asks_waits_for_no_rule(store: WatchedStore, start: Start) -> None:
    """Of the tasks asked for, declared and implicit; others stay as they are; of all: those that are done."""
    added = start(store, quiet_s=FOREVER_S, open_s=FOREVER_S)
    for at in (1, 2, 3):
        added.come(*of_task(at))
    open_child, _ = of_task(4)
    added.come(open_child)
    added.adder.up_to_date(["t2"])
    assert [item[0] for item in added.tasks.items] == ["t2"]
    added.adder.up_to_date()
    assert sorted(item[0] for item in added.tasks.items) == ["t1", "t2", "t3"]
    implicit = f"trace:{open_child.trace_id}"
    added.adder.up_to_date([implicit])
    assert added.tasks.items[-1][:2] == (implicit, 1)
    assert added.adder.dirty == 0
    added.adder.up_to_date(["nobody", "trace:nowhere"])
    added.adder.close()


def test_closing_adds_up_all_that_came(store: WatchedStore, start: Start) -> None:
    """And says so in the store, so that nobody does it again."""
    added = start(store, quiet_s=FOREVER_S, open_s=FOREVER_S)
    for at in range(600):
        added.come(*of_task(at), at=1000 + at)
    added.adder.close()
    assert len(store.tasks()) == 600
    assert store.added_up_to() == 1599
    again = start(store, quiet_s=0.0, open_s=0.0)
    again.adder.close()
    assert again.tasks.items == []


def test_what_a_killed_process_left_is_added_up(tmp_path: Path, start: Start) -> None:
    """Everything that arrived after the mark, outcomes included, at once."""
    path = tmp_path / "left.duckdb"
    with WatchedStore(path) as store:
        for at in range(3):
            store.arrived(*of_task(at), at=100 + at)
        store.set_added_up_to(100)
        store.add_outcomes([OutcomeFact(task_id="t0", outcome="failure", recorded_ns=5)], arrived_ns=200)
    with WatchedStore(path) as store:
        added = start(store, quiet_s=FOREVER_S, open_s=FOREVER_S)
        added.wait_for(("t0", 1), ("t1", 1), ("t2", 1))
        added.adder.close()
        kept = {found.task_id: found.outcome for found in store.tasks()}
    assert kept == {"t0": "failure", "t1": None, "t2": None}


@pytest.mark.parametrize("rooted", [True, False])
def test_the_mark_never_passes_what_is_not_added_up(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch, rooted: bool
) -> None:
    """Neither an open task, nor what was put back after a failure, in whatever order."""
    monkeypatch.setattr(adding, "_MARK_EVERY_S", 0.0)
    monkeypatch.setattr(adding, "_AGAIN_S", 0.01)
    marks: Noted[int] = Noted()
    monkeypatch.setattr(store, "set_added_up_to", marks.note)
    added = start(store, quiet_s=0.0 if rooted else FOREVER_S, open_s=FOREVER_S if rooted else 0.3)
    open_child, _ = of_task(0)
    added.come(open_child, at=1000)
    store.failure_of_rows = StoreNotWritten(Path("full"), "disk full")
    for at in range(1, 30):
        added.come(*of_task(at)[:: 1 if rooted else -1], at=1000 + at)
    if rooted:
        store.failure_of_rows = None
        added.wait_for(*((f"t{at}", 1) for at in range(1, 30)))
        assert max(marks.items, default=0) <= 999
    else:
        assert added.tasks.items == []
        assert max(marks.items, default=0) <= 999
        store.failure_of_rows = None
    added.adder.close()
    assert marks.items[-1] == 1029
    assert len(store.tasks()) == 30


def test_an_outcome_that_is_not_looked_up_holds_the_mark(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came after the spans of its task, which were added up without it."""
    added = start(store, quiet_s=0.0, open_s=FOREVER_S)
    added.come(*of_task(1), at=1000)
    added.wait_for(("t1", 1))
    marks: list[int] = []
    monkeypatch.setattr(store, "set_added_up_to", marks.append)
    with added.adder._changed:
        added.adder._judged["t1"] = 2000
        added.adder._last_arrival_ns = 3000
        added.adder._mark(now=True)
    assert marks in ([], [1999])
    added.adder.close()
    assert marks[-1] == 3000


def test_a_task_is_not_looked_at_again_and_again_while_it_is_open(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for its time costs nothing meanwhile."""
    monkeypatch.setattr(adding, "_MARK_EVERY_S", 0.01)
    added = start(store, open_s=0.5)
    rounds: list[None] = []
    due = added.adder._due
    monkeypatch.setattr(added.adder, "_due", lambda: rounds.append(None) or due())  # type: ignore[func-returns-value]
    child, _ = of_task(1)
    added.come(child)
    added.wait_for((f"trace:{child.trace_id}", 1))
    added.adder.close()
    assert len(rounds) < 200


def test_an_outcome_brings_its_task_up_to_date(store: WatchedStore, start: Start) -> None:
    """Of a task that was added up before, and that nothing more comes of."""
    added = start(store, quiet_s=0.0, open_s=FOREVER_S)
    added.come(*of_task(1))
    added.wait_for(("t1", 1))
    store.add_outcomes([OutcomeFact(task_id="t1", outcome="success", recorded_ns=5)])
    added.adder.concerns(["t1"], time.time_ns())
    added.adder.up_to_date(["t1"])
    summary = store.task("t1")
    assert summary is not None
    assert summary.outcome == "success"
    added.adder.close()


def test_a_store_that_fails_is_asked_again(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forgotten meanwhile, and what comes meanwhile is added up with the rest."""
    monkeypatch.setattr(adding, "_AGAIN_S", 0.01)
    added = start(store, quiet_s=0.0, open_s=FOREVER_S)
    child, root = of_task(1)
    store.arrived(child, root)
    store.failure_of_rows = StoreNotWritten(Path("full"), "disk full")
    added.adder.arrived([root], 1)
    assert any(_fails(added, child) for _ in range(1000))
    assert added.adder.is_alive
    store.failure_of_rows = None
    added.wait_for(("t1", 1))
    added.adder.close()


def _fails(added: Added, span: Span) -> bool:
    """Whether who asks gets to know it; the adder itself may have been first."""
    added.adder.arrived([span], 2)
    try:
        added.adder.up_to_date(["t1"])
    except StoreNotWritten:
        return True
    return False


def test_a_trace_that_cannot_be_read_costs_no_other(store: WatchedStore, start: Start) -> None:
    """It is counted, and the adder goes on."""
    store.refused_trace = of_task(2)[0].trace_id
    added = start(store, quiet_s=FOREVER_S, open_s=FOREVER_S)
    for at in (1, 3):
        added.come(*of_task(at))
    added.adder.arrived(of_task(2), time.time_ns())
    added.adder.up_to_date()
    assert sorted(item[0] for item in added.tasks.items) == ["t1", "t3"]
    assert "agentprof_tasks_not_added_up_total 1.0" in added.meters.text().decode()
    added.adder.close()


def test_a_large_backlog_is_worked_off_in_rounds(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that who asks for one task waits for one round at most."""
    monkeypatch.setattr(adding, "AT_ONCE", 10)
    sizes: list[int] = []
    recompute = adding.recompute
    monkeypatch.setattr(
        adding,
        "recompute",
        lambda store, taken, *a, **n: sizes.append(len(taken)) or recompute(store, taken, *a, **n),  # type: ignore[func-returns-value]
    )
    added = start(store, quiet_s=0.05, open_s=FOREVER_S)
    for at in range(60):
        added.come(*of_task(at))
    added.wait_for(*((f"t{at}", 1) for at in range(60)))
    added.adder.close()
    assert max(sizes) <= 20
    assert sum(sizes) == 60


def test_what_is_forgotten_while_it_is_added_up_has_no_row(
    store: WatchedStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting waits for the rows that are being made of spans read before, and takes them along."""
    forgotten = threading.Event()
    told: list[int] = []
    put_tasks = store.put_tasks

    def forget() -> None:
        told.append(added.adder.forget(2_000))
        forgotten.set()

    forgetting = threading.Thread(target=forget)

    def forget_before_they_are_written(rows: Sequence[TaskRow], trace_ids: Collection[str]) -> None:
        if rows:
            forgetting.start()
            forgotten.wait(0.2)
        put_tasks(rows, trace_ids)

    added = start(store, quiet_s=FOREVER_S, open_s=FOREVER_S)
    added.come(*of_task(1), at=1_001)
    monkeypatch.setattr(store, "put_tasks", forget_before_they_are_written)
    added.adder.up_to_date(["t1"])
    forgetting.join()
    assert told == [2]
    assert store.tasks() == []
    assert store.spans_of([f"{1:032x}"]) == []


def measured(store: WatchedStore, at: int) -> EnergyWindow:
    """Stores a window of 7 joules that one request had for itself."""
    window = EnergyWindow(
        server="gpu1", node="n", start_ns=0, end_ns=100, energy_uj=7 * 10**6, running_low=1, running_high=1
    )
    store.add_windows([window], arrived_ns=at)
    return window


def test_energy_that_is_measured_later_is_in_the_summary(store: WatchedStore, start: Start) -> None:
    """A task that was added up before is added up again: now if it is asked for, else after some seconds."""
    added = start(store, open_s=0.3)
    own = call("c1", 20, 30, "r", trace_id="1", server="gpu1", phases={"queue": reported(0)})
    added.come(own, task("r", 10, 90, id="t1", trace_id="1"))
    added.wait_for(("t1", 1))
    at = time.time_ns()
    window = measured(store, at)
    added.adder.measured([(window.start_ns, window.end_ns)], at)
    added.tasks.wait_for(lambda items: len(items) == 2)
    summary = store.task("t1")
    assert summary is not None
    assert summary.energy_j == {"low": 0.7, "high": 0.7}
    added.adder.measured([(window.start_ns, window.end_ns)], at + 1)
    added.adder.up_to_date(["t1"])
    assert len(added.tasks.items) == 3


def test_energy_that_came_before_an_end_is_taken_up_after_it(tmp_path: Path, start: Start) -> None:
    """By the next process, as spans are."""
    with WatchedStore(tmp_path / "s.duckdb") as store:
        added = start(store, open_s=0.3)
        own = call("c1", 20, 30, "r", trace_id="1", server="gpu1", phases={"queue": reported(0)})
        added.come(own, task("r", 10, 90, id="t1", trace_id="1"))
        added.wait_for(("t1", 1))
        added.adder.close()
        measured(store, time.time_ns())
        again = start(store, open_s=0.3)
        again.wait_for(("t1", 1))
        summary = store.task("t1")
        assert summary is not None
        assert summary.energy_j == {"low": 0.7, "high": 0.7}
        again.adder.close()
