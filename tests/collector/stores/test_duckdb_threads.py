import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from store_contract import call, root

from agentprof.model import OutcomeFact, Span
from agentprof.rollup import tasks_in
from agentprof.summary import TaskSummary
from agentprof_collector.errors import StoreUnusable
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, TaskFilter, open_store

TASKS = 60
CALLS = 5


def spans_of_task(number: int) -> list[Span]:
    """A task with calls."""
    trace, task = f"t{number}", f"a{number}"
    return [root(trace, task), *(call(trace, f"c{n}", f"root-{task}") for n in range(CALLS))]


class Workers:
    """Threads that start together; the first error of any of them is raised at the end."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.failed: list[BaseException] = []
        self._writing: list[threading.Thread] = []
        self._reading: list[threading.Thread] = []

    def once(self, work: Callable[[], object]) -> None:
        """Has an end of its own."""
        self._writing.append(threading.Thread(target=self._guarded, args=(work,)))

    def again_and_again(self, work: Callable[[], object]) -> None:
        """Goes on until all that have an end are done."""

        def repeat() -> None:
            while not self.done.is_set():
                work()

        self._reading.append(threading.Thread(target=self._guarded, args=(repeat,)))

    def run(self) -> None:
        """Start all, and wait for all."""
        for thread in (*self._reading, *self._writing):
            thread.start()
        for thread in self._writing:
            thread.join()
        self.done.set()
        for thread in self._reading:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            self.failed.append(error)


def write_part(store: Store, part: int, of: int) -> None:
    """Tasks of one writer, each in two deliveries."""
    for number in range(part, TASKS, of):
        spans = spans_of_task(number)
        for some in (spans[1:], spans[:1]):
            store.add_spans(some, pairs_of(some))
        store.add_outcomes([OutcomeFact(task_id=f"a{number}", outcome="success", recorded_ns=number)])


def add_up_as_it_comes(store: Store) -> None:
    """What the collector does beside."""
    at = store.added_up_to()
    fresh = store.arrived_since(at)
    recompute(store, fresh)
    store.set_added_up_to(at)


def ask(store: Store) -> None:
    """Whatever is seen is whole."""
    for summary in store.tasks(TaskFilter(tops=True), limit=20):
        assert isinstance(summary, TaskSummary)
        spans = tasks_in(store.spans_of(summary.trace_ids))
        assert len(spans.get(summary.task_id, ())) in (0, CALLS, CALLS + 1)
    for group in store.groups(group_by="outcome"):
        assert group["calls"] <= TASKS * CALLS


@pytest.mark.parametrize("on_disk", [True, False])
def test_writers_adders_and_readers_at_once(tmp_path: Path, on_disk: bool) -> None:
    """Nobody fails or waits for ever, each task has one row in the end, and no span is lost."""
    with open_store(tmp_path / "s.duckdb" if on_disk else None) as store:
        workers = Workers()
        for part in range(3):
            workers.once(lambda part=part: write_part(store, part, 3))
        for _ in range(2):
            workers.again_and_again(lambda: add_up_as_it_comes(store))
            workers.again_and_again(lambda: ask(store))
        workers.again_and_again(lambda: store.forget(1))
        workers.run()
        recompute(store, store.arrived_since(0))
        summaries = store.tasks()
        assert sorted(summary.task_id for summary in summaries) == sorted(f"a{n}" for n in range(TASKS))
        assert {(s.calls, s.outcome) for s in summaries} == {(CALLS, "success")}
        spans = store.spans_of([f"t{n}" for n in range(TASKS)])
        assert len({span.key for span in spans}) == len(spans) == TASKS * (CALLS + 1)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """To every later question, also of another thread; closing twice does nothing."""
    store = open_store(tmp_path / "s.duckdb")
    store.close()
    store.close()
    with pytest.raises(StoreUnusable, match="is closed"):
        store.tasks()
    with open_store(tmp_path / "s.duckdb") as again:
        assert again.tasks() == []
