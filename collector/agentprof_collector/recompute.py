"""Stored spans → rows of tasks: which traces belong together, and the summaries of the tasks in them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from agentprof.model import EnergyWindow, Facts, OutcomeFact, Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.joins import call_ids, engine_ids, seeking, ties
from agentprof.rollup.tasks import IMPLICIT_PREFIX
from agentprof.summary import TaskSummary
from agentprof_collector.errors import StoreError, TaskNotAddedUp
from agentprof_collector.measured_windows import Windows
from agentprof_collector.stores import Store, TaskRow

_TRACES_PER_RECOMPUTE = 500
_LARGE = 5_000
"""Spans of a task, or of tasks tied together, that wait until all smaller ones are added up."""

Failed = Callable[[TaskNotAddedUp], object]
"""Takes note of a task that cannot be added up; the others go on."""

_STEPS = 3
"""From trace to trace by tasks that are asked for one by one; whatever is further away is asked for at once."""
_HOPS = 64
"""From trace to trace by ids of requests, whole tasks at a time, that are followed. Requests and engines are a few from
each other; a longer chain was made to keep others waiting, and is added up in pieces."""
_SETTLED_HOPS = _HOPS - 8
"""So far away from where a search began all is known that a row depends on: the engines of its calls, the other
calls that their ids stand for, and the engines of those."""

AddedUp = Callable[[TaskSummary, Sequence[Span]], object]
"""Told of a task whose row is written, and of the spans it was made from."""

_log = logging.getLogger(__name__)


def recompute(
    store: Store,
    trace_ids: Iterable[str],
    failed: Failed | None = None,
    progress: Callable[[int, int], object] = lambda done, of: None,
    added_up: AddedUp = lambda summary, spans: None,
) -> list[str]:
    """Add up the tasks that have spans in the traces, with the tasks above and below them.

    Tasks are written as they are added up, the largest last, so that one that takes long, or cannot be added
    up at all, keeps no other from its row.

    Args:
        failed: told of each task that cannot be added up; without it they are logged.
        progress: told how many of how many traces are done.
        added_up: told of each task whose row is written.

    Returns:
        The ids of the tasks added up.
    """
    note = failed or (lambda error: _log.warning("%s", error))
    done: set[str] = set()
    ids: list[str] = []
    large: list[set[str]] = []
    ordered = sorted(trace_ids)
    for at in range(0, len(ordered), _TRACES_PER_RECOMPUTE):
        todo = set(ordered[at : at + _TRACES_PER_RECOMPUTE]) - done
        if not todo:
            continue
        found = _connected(store, todo)
        done |= found.settled
        parts = sorted(_parts(found), key=lambda part: len(part.spans))
        large += [part.settled for part in parts if len(part.spans) > _LARGE]
        ids += _add_up(store, [part for part in parts if len(part.spans) <= _LARGE], note, added_up)
        progress(min(at + _TRACES_PER_RECOMPUTE, len(ordered)), len(ordered))
    for traces in large:
        ids += _add_up(store, [_connected(store, traces)], note, added_up)
    return ids


def copy_traces(source: Store, target: Store, trace_ids: Iterable[str]) -> None:
    """Bring all that is known of the traces into another store, and its summaries up to date.

    With the spans go the outcomes recorded of their tasks, and the energy measured while their calls ran.
    """
    ordered = sorted(trace_ids)
    for at in range(0, len(ordered), _TRACES_PER_RECOMPUTE):
        traces = ordered[at : at + _TRACES_PER_RECOMPUTE]
        spans = source.spans_of(traces)
        tasks = {task_id for task_id, _ in pairs_of(spans)} | {IMPLICIT_PREFIX + trace for trace in traces}
        target.add_spans(spans, pairs_of(spans))
        if outcomes := source.outcomes_of(tasks):
            target.add_outcomes(outcomes)
        if windows := Windows(source, spans).during(spans):
            target.add_windows(windows)
    recompute(target, ordered)


def record_outcome(store: Store, fact: OutcomeFact) -> None:
    """Store an outcome and bring the task's summary up to date."""
    store.add_outcomes([fact])
    recompute(store, _traces_of_task(store, fact.task_id))


def record_energy(store: Store, windows: Sequence[EnergyWindow]) -> None:
    """Store measured energy and bring the summaries of the tasks of its time up to date."""
    if windows:
        store.add_windows(windows)
        start_ns, end_ns = min(w.start_ns for w in windows), max(w.end_ns for w in windows)
        recompute(store, store.traces_between(start_ns, end_ns))


def spans_of_tasks(store: Store, summaries: Iterable[TaskSummary]) -> dict[str, list[Span]]:
    """The spans of each task by its id, those of its sub-tasks included."""
    traces = {trace_id for summary in summaries for trace_id in summary.trace_ids}
    return tasks_in(_connected(store, traces).spans)


def _traces_of_task(store: Store, task_id: str) -> set[str]:
    summary = store.task(task_id)
    return set(summary.trace_ids) if summary else set()


class _Part(NamedTuple):
    """Traces that are tied together by tasks or by ids of requests."""

    settled: set[str]
    """Those whose rows can be made of the spans."""
    traces: set[str]
    """All of them."""
    spans: list[Span]


def _connected(store: Store, trace_ids: set[str]) -> _Part:
    """The traces with those that share a task with them, or a task above or below, or ids of requests; their spans."""
    traces: set[str] = set()
    tasks: set[str] = set()
    spans: list[Span] = []
    settled: set[str] = set()
    new = set(trace_ids)
    for hops in range(_HOPS + 1):
        near: list[Span] = []
        steps = 0
        while new:
            found = store.spans_of(new)
            near += found
            traces |= new
            mentioned = {task_id for task_id, _ in pairs_of(found)} - tasks
            tasks |= mentioned
            further = (store.traces_of(mentioned) if mentioned else set()) - traces
            steps += 1
            if further and steps == _STEPS:
                further = store.traces_tied(further) - traces
            new = further
        spans += near
        if hops <= _SETTLED_HOPS:
            settled = set(traces)
        new = store.traces_by_id(*_counterparts(near)) - traces
        if not new:
            return _Part(traces, traces, spans)
    return _Part(settled, traces, spans)


def _counterparts(spans: Sequence[Span]) -> tuple[set[str], set[str]]:
    """The ids under which calls may stand that engines here served, and engines that served calls here."""
    sought = {one for span in seeking(spans) for one in engine_ids(span)}
    return sought, {one for span in spans if span.call is not None for one in call_ids(span)}


def pairs_of(spans: Iterable[Span]) -> Iterator[tuple[str, str]]:
    """(task id, trace id) of every task a span names; a sub-task ties its trace to the task above too."""
    for span in spans:
        if span.task is not None:
            yield span.task.id, span.trace_id
            if span.task.parent_id is not None:
                yield span.task.parent_id, span.trace_id


class _Groups:
    """Traces that are tied to each other, in whatever order that is told."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def top(self, trace_id: str) -> str:
        """The same trace for all of a group."""
        while (above := self._above.setdefault(trace_id, trace_id)) != trace_id:
            self._above[trace_id] = self._above[above]
            trace_id = self._above[trace_id]
        return trace_id

    def tie(self, one: str, other: str) -> None:
        """Make the groups of two traces one."""
        self._above[self.top(one)] = self.top(other)


def _tied_by_tasks(spans: Iterable[Span]) -> _Groups:
    groups = _Groups()
    first: dict[str, str] = {}
    for task_id, trace_id in pairs_of(spans):
        groups.tie(trace_id, first.setdefault(task_id, trace_id))
    return groups


def _parts(found: _Part) -> list[_Part]:
    """The traces in groups that have no task in common, and no id of a request."""
    spans = found.spans
    groups = _tied_by_tasks(spans)
    for trace_id, other in ties(spans):
        groups.tie(trace_id, other)
    parts: dict[str, _Part] = {}
    part_of: dict[str, _Part] = {}
    for trace_id in found.traces:
        part = part_of[trace_id] = parts.setdefault(groups.top(trace_id), _Part(set(), set(), []))
        part.traces.add(trace_id)
        if trace_id in found.settled:
            part.settled.add(trace_id)
    for span in spans:
        part_of[span.trace_id].spans.append(span)
    return list(parts.values())


def _add_up(store: Store, parts: Sequence[_Part], failed: Failed, added_up: AddedUp) -> list[str]:
    """Write the rows of the tasks in the parts; their ids."""
    found: list[tuple[_Part, dict[str, list[Span]]]] = []
    for part in parts:
        try:
            found.append((part, _settled_tasks(part)))
        except Exception as error:  # noqa: BLE001
            failed(TaskNotAddedUp(f"trace:{min(part.traces)}", error))
    outcomes = store.outcomes_of(
        [task_id for _, tasks in found for task_id in tasks]
        + [IMPLICIT_PREFIX + trace_id for part, _ in found for trace_id in part.traces]
    )
    windows = Windows(store, (span for part, _ in found for span in part.spans))
    made = [
        (part.settled, _rows(tasks, outcomes, windows, failed, _Known(part.spans))) for part, tasks in found
    ]
    _put(store, made, failed)
    summaries = [row.summary for _, rows in made for row in rows]
    spans_of_task = {task_id: spans for _, tasks in found for task_id, spans in tasks.items()}
    for summary in summaries:
        added_up(summary, spans_of_task[summary.task_id])
    return [summary.task_id for summary in summaries]


def _settled_tasks(part: _Part) -> dict[str, list[Span]]:
    """The spans of each task that has a row to be made."""
    tasks = tasks_in(part.spans)
    left = part.traces - part.settled
    if not left:
        return tasks
    others = {task_id for task_id, trace_id in pairs_of(part.spans) if trace_id in left}
    others.update(IMPLICIT_PREFIX + trace_id for trace_id in left)
    return {task_id: own for task_id, own in tasks.items() if task_id not in others}


def _rows(
    tasks: dict[str, list[Span]],
    outcomes: Iterable[OutcomeFact],
    windows: Windows,
    failed: Failed,
    known: _Known,
) -> list[TaskRow]:
    """The rows of tasks that are tied together."""
    about = tuple(_about(tasks, outcomes))
    rows = []
    for task_id, own in tasks.items():
        facts = Facts(outcomes=about, windows=windows.during(own))
        try:
            summary = roll_up(task_id, own, facts)
        except Exception as error:  # noqa: BLE001
            failed(TaskNotAddedUp(task_id, error))
            continue
        facts_known = len(facts.outcomes) + len(facts.windows)
        rows.append(TaskRow(summary=summary, spans=known.about(own), facts=facts_known))
    return rows


class _Known:
    """How much was known when a row was made: of two rows of a task that with less gives way.

    All spans in the traces that tasks tie to its own count, and those of engines whose call is looked for by id,
    whether or not they are part of it: when a task of its trace is declared later, or who is above whom, or a second
    call with the id comes, it has fewer of them, and its row must hold all the same.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        self._groups = _tied_by_tasks(spans)
        distinct = {(span.trace_id, span.span_id) for span in spans}
        of_trace = Counter([trace_id for trace_id, _ in distinct])
        of_engines = {span.trace_id for span in seeking(spans)}
        self._of_engines = sum(of_trace[trace_id] for trace_id in of_engines)
        self._of_group: Counter[str] = Counter()
        for trace_id in of_trace.keys() - of_engines:
            self._of_group[self._groups.top(trace_id)] += of_trace[trace_id]

    def about(self, own: Sequence[Span]) -> int:
        """The number of spans, for a task with these."""
        tops = {self._groups.top(trace_id) for trace_id in {span.trace_id for span in own}}
        return self._of_engines + sum(self._of_group[top] for top in tops)


def _about(tasks: dict[str, list[Span]], outcomes: Iterable[OutcomeFact]) -> Iterator[OutcomeFact]:
    """The outcomes that are about one of the tasks, with the id of that task.

    What is only known to be about a trace is about the one task of the trace that lies in no other.
    """
    outermost: dict[str, str | None] = {}
    for fact in outcomes:
        task_id: str | None = fact.task_id
        if fact.task_id not in tasks and fact.task_id.startswith(IMPLICIT_PREFIX):
            if fact.task_id not in outermost:
                trace_id = fact.task_id.removeprefix(IMPLICIT_PREFIX)
                outermost[fact.task_id] = _outermost(tasks, trace_id)
            task_id = outermost[fact.task_id]
        if task_id in tasks:
            yield msgspec.structs.replace(fact, task_id=task_id)


def _outermost(tasks: dict[str, list[Span]], trace_id: str) -> str | None:
    """The one task of a trace that holds all others of it."""
    in_trace = {name: own for name, own in tasks.items() if any(span.trace_id == trace_id for span in own)}
    if not in_trace:
        return None
    largest = max(in_trace, key=lambda name: len(in_trace[name]))
    inside = {span.key for span in in_trace[largest]}
    return largest if all(span.key in inside for own in in_trace.values() for span in own) else None


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
