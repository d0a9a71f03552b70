"""Model calls, one row each, of one task or of all selected tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from agentprof.money import with_plain_amounts
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.summary import TOKENS, TaskSummary
from agentprof_collector.measured_windows import Windows
from agentprof_collector.recompute import spans_of_tasks
from agentprof_collector.reports.flat import flat_row
from agentprof_collector.reports.many_tasks import cursor_place
from agentprof_collector.reports.selection import Selection, selected
from agentprof_collector.stores import ListPlace, Store

_TASKS_AT_ONCE = 100
"""Whose spans are in memory together."""

# In the order they follow each other in a call.
_PHASES = (
    "failed_attempt",
    "backoff",
    "connect",
    "network",
    "queue",
    "prefill",
    "wait",
    "generation",
    "model",
    "client",
)
_SECTIONS = ("system", "tools", "tool_results", "user", "assistant")
_NESTED = {
    "phases_ns": tuple(f"phases_ns.{phase}" for phase in _PHASES),
    "phase_sources": tuple(f"phase_sources.{phase}" for phase in _PHASES),
    "input_bytes": tuple(f"input_bytes.{section}" for section in _SECTIONS),
    "tokens": tuple(f"tokens.{name}" for name in TOKENS),
    "energy_j": ("energy_j.low", "energy_j.high"),
}
_COLUMNS = tuple(column for field in CallRow.__struct_fields__ for column in _NESTED.get(field, (field,)))


class CallPlace(NamedTuple):
    """Where a page of calls ended: how many calls of which task were on it, or on those before."""

    task: ListPlace
    calls: int


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """Calls in the order they started, task by task, and where the next page begins."""
    limit = selection.limit
    found = list(itertools.islice(_rows(store, selection), None if limit is None else limit + 1))
    shown, rest = found[:limit], found[limit:] if limit is not None else []
    is_all = not rest and selection.after is None
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "count": len(found) if is_all else sum(group["calls"] for group in store.groups(selection.tops)),
        "calls": with_plain_amounts([msgspec.to_builtins(row, builtin_types=(Decimal,)) for _, row in shown]),
        "next": _cursor(shown[-1][0]) if rest and shown else None,
    }


def rows_of_calls(store: Store, selection: Selection) -> Iterator[CallRow]:
    """All calls of the selected tasks, tasks by the latest start first; `limit` is of no account."""
    return (row for _, row in _rows(store, selection))


def _rows(store: Store, selection: Selection) -> Iterator[tuple[CallPlace, CallRow]]:
    place = None if selection.after is None else call_place(selection.after)
    for summaries in _tasks_from(store, selection, place):
        spans = spans_of_tasks(store, summaries)
        windows = Windows(store, itertools.chain.from_iterable(spans.values()))
        for summary in summaries:
            task = ListPlace(summary.start_ns, summary.task_id)
            # Of a task that was counted to another since, or was forgotten, nothing is left.
            own = spans.get(summary.task_id)
            calls = [] if own is None else call_rows(summary.task_id, own, windows.during(own))
            done = place.calls if place is not None and place.task == task else 0
            for number, row in enumerate(calls[done:], done + 1):
                yield CallPlace(task, number), row


def _tasks_from(store: Store, selection: Selection, place: CallPlace | None) -> Iterator[list[TaskSummary]]:
    """The tasks from the one on which a page ended."""
    if place is None:
        yield from selected(store, selection, _TASKS_AT_ONCE)
        return
    summary = store.task(place.task.task_id)
    if summary is not None and summary.start_ns == place.task.start_ns:
        yield [summary]
    yield from selected(store, selection, _TASKS_AT_ONCE, place.task)


def call_place(cursor: str) -> CallPlace:
    """Where a page ended.

    Raises:
        ValueError: the text was not given as `next` by a page before.
    """
    calls, colon, task = cursor.partition(":")
    if not colon or not (calls.isascii() and calls.isdecimal() and len(calls) < 10):
        raise ValueError("expected the value of next of the page before")
    return CallPlace(cursor_place(task), int(calls))


def _cursor(place: CallPlace) -> str:
    return f"{place.calls}:{place.task.start_ns}:{place.task.task_id}"


def columns(document: Mapping[str, Any]) -> Sequence[str]:
    """The same whatever is selected."""
    return _COLUMNS


def rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a call; `path` joins the names with " / "."""
    return [flat_row(call | {"path": " / ".join(call["path"])}, _COLUMNS) for call in document["calls"]]
