"""The whole way of a span, in order: receive → normalise → price → store → roll up.

Start reading here. Each step is one call; the store is the only state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import BinaryIO

from agentprof.model import Facts, OutcomeFact, RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.vocabularies import normalise
from agentprof_collector.receive.files import read_batches
from agentprof_collector.stores import Store, TaskRow

_SPANS_PER_WRITE = 5_000
_TRACES_PER_RECOMPUTE = 500


class Pipeline:
    """Feeds one store.

    Args:
        store: where spans and summaries are kept.
        pricer: prices calls that nobody has priced yet, once, before they are stored.
    """

    def __init__(self, store: Store, pricer: Pricer) -> None:
        self._store = store
        self._pricer = pricer
        self.spans = 0
        """Spans stored by this pipeline, copies included."""
        self.skipped = 0
        """Spans that could not be kept, for want of an identity or a start."""
        self._touched: set[str] = set()

    def read(self, stream: BinaryIO, source: str, written: Callable[[], object] = lambda: None) -> None:
        """Store the spans of a file or stream; summaries follow with `recompute`.

        Args:
            stream: binary.
            source: its name, for errors.
            written: called after every write to the store.

        Raises:
            InputError: at the first place that cannot be read; what stood before it is stored.
        """
        pending: list[RawSpan] = []
        try:
            for batch in read_batches(stream, source):
                self.skipped += batch.skipped
                pending.extend(batch.spans)
                if len(pending) >= _SPANS_PER_WRITE:
                    self.accept(pending)
                    pending = []
                    written()
        finally:
            self.accept(pending)

    def accept(self, received: Sequence[RawSpan]) -> None:
        """Normalise, price and store spans, durably before it returns."""
        if not received:
            return
        spans = [self._pricer.price(normalise(span)) for span in received]
        self._store.add_spans(spans, _pairs(spans))
        self.spans += len(spans)
        self._touched.update(span.trace_id for span in spans)

    def recompute(self) -> list[str]:
        """Bring the summaries of all tasks up to date that the accepted spans belong to.

        Returns:
            The ids of the tasks added up.
        """
        todo, self._touched = self._touched, set()
        return recompute(self._store, todo)


def recompute(store: Store, trace_ids: Iterable[str]) -> list[str]:
    """Add up the tasks that have spans in the traces, with the tasks above and below them.

    Returns:
        The ids of the tasks added up.
    """
    done: set[str] = set()
    added_up: list[str] = []
    ordered = sorted(trace_ids)
    for at in range(0, len(ordered), _TRACES_PER_RECOMPUTE):
        todo = set(ordered[at : at + _TRACES_PER_RECOMPUTE]) - done
        if not todo:
            continue
        connected, spans = _connected(store, todo)
        done |= connected
        rows = list(_add_up(store, spans))
        store.put_tasks(rows, connected)
        added_up += [row.summary.task_id for row in rows]
    return added_up


def copy_traces(source: Store, target: Store, trace_ids: Iterable[str]) -> None:
    """Bring the spans of the traces into another store, and its summaries up to date."""
    ordered = sorted(trace_ids)
    for at in range(0, len(ordered), _TRACES_PER_RECOMPUTE):
        spans = source.spans_of(ordered[at : at + _TRACES_PER_RECOMPUTE])
        target.add_spans(spans, _pairs(spans))
    recompute(target, ordered)


def record_outcome(store: Store, fact: OutcomeFact) -> None:
    """Store an outcome and bring the task's summary up to date."""
    store.add_outcome(fact)
    recompute(store, _traces_of_task(store, fact.task_id))


def spans_of_tasks(store: Store, summaries: Iterable[TaskSummary]) -> dict[str, list[Span]]:
    """The spans of each task by its id, those of its sub-tasks included."""
    _, spans = _connected(store, {trace_id for summary in summaries for trace_id in summary.trace_ids})
    return tasks_in(spans)


def _traces_of_task(store: Store, task_id: str) -> set[str]:
    summary = store.task(task_id)
    return set(summary.trace_ids) if summary else set()


def _connected(store: Store, trace_ids: set[str]) -> tuple[set[str], list[Span]]:
    """The traces with all that share a task with them, or a task above or below, and all their spans."""
    traces: set[str] = set()
    tasks: set[str] = set()
    spans: list[Span] = []
    new = set(trace_ids)
    while new:
        found = store.spans_of(new)
        spans += found
        traces |= new
        mentioned = {task_id for task_id, _ in _pairs(found)} - tasks
        tasks |= mentioned
        new = store.traces_of(mentioned) - traces if mentioned else set()
    return traces, spans


def _pairs(spans: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """(task id, trace id) of every task a span names; a sub-task ties its trace to the task above too."""
    for span in spans:
        if span.task is not None:
            yield span.task.id, span.trace_id
            if span.task.parent_id is not None:
                yield span.task.parent_id, span.trace_id


def _add_up(store: Store, spans: Sequence[Span]) -> Iterator[TaskRow]:
    tasks = tasks_in(spans)
    facts = _facts(store, tasks.keys())
    for task_id, own in tasks.items():
        summary = roll_up(task_id, own, facts)
        distinct = len({span.key for span in own})
        yield TaskRow(summary=summary, spans=distinct, facts=len(facts.outcomes))


def _facts(store: Store, task_ids: Collection[str]) -> Facts:
    return Facts(outcomes=tuple(store.outcomes_of(task_ids)))
