"""The whole way of a span, in order: receive → normalise → price → store → roll up.

Start reading here. Each step is one call; the store is the only state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from agentprof.model import Facts, OutcomeFact, RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.vocabularies import normalise
from agentprof_collector.errors import StoreError, TaskNotAddedUp
from agentprof_collector.receive import Batch
from agentprof_collector.receive.files import read_batches
from agentprof_collector.stores import Store, TaskRow

_SPANS_PER_WRITE = 5_000
_TRACES_PER_RECOMPUTE = 500
_LARGE = 5_000
"""Spans of a task, or of tasks tied together, that wait until all smaller ones are added up."""

Failed = Callable[[TaskNotAddedUp], object]
"""Takes note of a task that cannot be added up; the others go on."""

_log = logging.getLogger(__name__)


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
        self.lost = 0
        """Values left out because they were of a wrong type."""
        self.first_left_out: str | None = None
        """Where the first span or value was left out."""
        self._touched: set[str] = set()

    def read(self, stream: BinaryIO, source: str, written: Callable[[], object] = lambda: None) -> None:
        """Store the spans of a file or stream; summaries follow with `recompute`.

        Args:
            stream: binary.
            source: its name, for errors.
            written: called after every write to the store.

        Raises:
            InputError: a place cannot be read; what could be is stored.
        """
        pending: list[RawSpan] = []
        try:
            for batch in read_batches(stream, source):
                self._count_left_out(batch, source)
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
        spans = [span for span in map(self._understood, received) if span is not None]
        self._store.add_spans(spans, _pairs(spans))
        self.spans += len(spans)
        self._touched.update(span.trace_id for span in spans)

    def _understood(self, received: RawSpan) -> Span | None:
        """None, and counted, for a span that breaks what reads it: it must not cost the others."""
        try:
            return self._pricer.price(normalise(received))
        except Exception as error:  # noqa: BLE001
            self.skipped += 1
            _log.warning("a span is left out (%s: %s)", type(error).__name__, error)
            return None

    def _count_left_out(self, batch: Batch, source: str) -> None:
        self.skipped += batch.skipped
        self.lost += batch.lost
        if self.first_left_out is None and batch.line is not None:
            self.first_left_out = f"{source}, line {batch.line:,}"

    def recompute(
        self, failed: Failed | None = None, progress: Callable[[int, int], object] = lambda done, of: None
    ) -> list[str]:
        """Bring the summaries of all tasks up to date that the accepted spans belong to; see `recompute`."""
        todo, self._touched = self._touched, set()
        return recompute(self._store, todo, failed, progress)


def recompute(
    store: Store,
    trace_ids: Iterable[str],
    failed: Failed | None = None,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> list[str]:
    """Add up the tasks that have spans in the traces, with the tasks above and below them.

    Tasks are written as they are added up, the largest last, so that one that takes long, or cannot be added
    up at all, keeps no other from its row.

    Args:
        failed: told of each task that cannot be added up; without it they are logged.
        progress: told how many of how many traces are done.

    Returns:
        The ids of the tasks added up.
    """
    note = failed or (lambda error: _log.warning("%s", error))
    done: set[str] = set()
    added_up: list[str] = []
    large: list[set[str]] = []
    ordered = sorted(trace_ids)
    for at in range(0, len(ordered), _TRACES_PER_RECOMPUTE):
        todo = set(ordered[at : at + _TRACES_PER_RECOMPUTE]) - done
        if not todo:
            continue
        connected, spans = _connected(store, todo)
        done |= connected
        parts = sorted(_parts(connected, spans), key=lambda part: len(part.spans))
        large += [part.traces for part in parts if len(part.spans) > _LARGE]
        added_up += _add_up(store, [part for part in parts if len(part.spans) <= _LARGE], note)
        progress(min(at + _TRACES_PER_RECOMPUTE, len(ordered)), len(ordered))
    for traces in large:
        added_up += _add_up(store, [_Part(*_connected(store, traces))], note)
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


class _Part(NamedTuple):
    """Traces that share tasks, apart from all others."""

    traces: set[str]
    spans: list[Span]


def _parts(traces: Iterable[str], spans: Sequence[Span]) -> list[_Part]:
    """The traces in groups that have no task in common."""
    above: dict[str, str] = {}

    def top(node: str) -> str:
        while (parent := above.setdefault(node, node)) != node:
            above[node] = above[parent]
            node = above[node]
        return node

    for task_id, trace_id in _pairs(spans):
        above[top(f"task {task_id}")] = top(f"trace {trace_id}")
    parts: dict[str, _Part] = {}
    for trace_id in traces:
        parts.setdefault(top(f"trace {trace_id}"), _Part(set(), [])).traces.add(trace_id)
    for span in spans:
        parts[top(f"trace {span.trace_id}")].spans.append(span)
    return list(parts.values())


def _add_up(store: Store, parts: Sequence[_Part], failed: Failed) -> list[str]:
    """Write the rows of the tasks in the parts; their ids."""
    found: list[tuple[_Part, dict[str, list[Span]]]] = []
    for part in parts:
        try:
            found.append((part, tasks_in(part.spans)))
        except Exception as error:  # noqa: BLE001
            failed(TaskNotAddedUp(f"trace:{min(part.traces)}", error))
    outcomes = store.outcomes_of([task_id for _, tasks in found for task_id in tasks])
    made = [(part.traces, _rows(tasks, outcomes, failed)) for part, tasks in found]
    _put(store, made, failed)
    return [row.summary.task_id for _, rows in made for row in rows]


def _rows(tasks: dict[str, list[Span]], outcomes: Iterable[OutcomeFact], failed: Failed) -> list[TaskRow]:
    facts = Facts(outcomes=tuple(fact for fact in outcomes if fact.task_id in tasks))
    rows = []
    for task_id, own in tasks.items():
        try:
            summary = roll_up(task_id, own, facts)
        except Exception as error:  # noqa: BLE001
            failed(TaskNotAddedUp(task_id, error))
            continue
        distinct = len({span.key for span in own})
        rows.append(TaskRow(summary=summary, spans=distinct, facts=len(facts.outcomes)))
    return rows


def _put(store: Store, made: Sequence[tuple[set[str], list[TaskRow]]], failed: Failed) -> None:
    """All in one write; one by one where one of them cannot be written."""
    try:
        rows = [row for _, rows in made for row in rows]
        store.put_tasks(rows, {trace_id for traces, _ in made for trace_id in traces})
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001
        if len(made) > 1:
            for one in made:
                _put(store, [one], failed)
        elif made[0][1]:
            failed(TaskNotAddedUp(made[0][1][0].summary.task_id, error))
            made[0][1].clear()
