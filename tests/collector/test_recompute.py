"""Which spans are read to add tasks up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from support.spans import call, task

from agentprof.model import OutcomeFact, Span
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import open_store
from agentprof_collector.stores.duckdb import DuckDbStore

LONG = 300


class Counted(DuckDbStore):
    """A store that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: Counter[str] = Counter()

    def spans_of(self, trace_ids: Collection[str]) -> list[Span]:
        self.asked["spans_of"] += 1
        return super().spans_of(trace_ids)

    def traces_of(self, task_ids: Collection[str]) -> set[str]:
        self.asked["traces_of"] += 1
        return super().traces_of(task_ids)


def chain(length: int) -> list[Span]:
    """Tasks in traces of their own, each started by the one before."""
    tasks = [task(f"r{n}", n, 1_000 - n, id=f"t{n}", trace_id=f"{n:032x}", **above(n)) for n in range(length)]
    return [*tasks, call("c", 400, 500, f"r{length - 1}", trace_id=f"{length - 1:032x}")]


def above(n: int) -> dict[str, Any]:
    return {"parent_id": f"t{n - 1}"} if n else {}


def test_a_long_chain_of_traces_is_asked_for_in_a_few_questions() -> None:
    """However many tasks stand one below the other, in traces of their own; the row of the first has all of them."""
    asked = []
    for length in (20, LONG):
        with Counted() as store:
            spans = chain(length)
            store.add_spans(spans, pairs_of(spans))
            recompute(store, [f"{length - 1:032x}"])
            summary = store.task("t0")
            assert summary is not None
            assert (summary.sub_tasks, summary.calls, len(summary.trace_ids)) == (length - 1, 1, length)
            asked.append(store.asked.total())
    assert asked[0] == asked[1] < 12


def test_outcomes_of_a_trace_hold_for_the_task_in_it() -> None:
    """The last of many, by the id of the trace, whichever task the trace turned out to hold."""
    with open_store(None) as store:
        spans = chain(3)
        store.add_spans(spans, pairs_of(spans))
        store.add_outcomes(
            [
                OutcomeFact(task_id=f"trace:{n:032x}", outcome=("success", "failure")[at % 2], recorded_ns=at)
                for n in (0, 2)
                for at in range(50)
            ]
        )
        recompute(store, [f"{0:032x}"])
        found = {summary.task_id: summary.outcome for summary in store.tasks()}
        assert found == {"t0": "failure", "t1": None, "t2": None}
