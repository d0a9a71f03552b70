"""The summary of a task from what this process knows of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.warnings import DETAILS
from agentprof.summary import TaskSummary, Warn
from agentprof.vocabularies import normalise

if TYPE_CHECKING:
    from agentprof._recent import Recorded
    from agentprof._task import Task
    from agentprof.model import Span


def of_spans(task: Task, recorded: Recorded, price: Callable[[Span], Span]) -> TaskSummary:
    """From the spans that were kept; where none says how the task began, also from what the task itself knows."""
    raw = recorded.raw_spans()
    start = task.start_span()
    began = any(span.span_id == start.span_id and span.trace_id == start.trace_id for span in raw)
    spans = tasks_in(price(normalise(span)) for span in (raw if began else [*raw, start]))[task.id]
    if not began and len(spans) == 1:
        return of_counters(task)
    found = roll_up(task.id, spans)
    ids = {span.task.id for span in spans if span.task is not None}
    missing = sum(count for task_id, count in [*recorded.missing.items()] if task_id in ids)
    if missing:
        found = _doubted(found, "missing_spans", missing)
    return _doubted(found, "other_processes", task.elsewhere) if task.elsewhere else found


def of_counters(task: Task) -> TaskSummary:
    """Of a task none of whose spans is known: its own time, and its calls as they were counted."""
    spent = task.spent()
    found = roll_up(task.id, [normalise(task.start_span())])
    if spent.calls:
        tokens = {**found.tokens, "input": spent.input_tokens, "output": spent.output_tokens}
        counted = {"calls": spent.calls, "tokens": tokens, "cost_usd": spent.cost_usd}
        row = found.nodes[0]
        its = msgspec.structs.replace(row.self, **counted)
        found = msgspec.structs.replace(
            found,
            **counted,
            calls_without_attempts=spent.calls,
            calls_without_energy=spent.calls,
            attempts=None,
            cost_complete=False,
            nodes=[msgspec.structs.replace(row, self=its, total=its)],
        )
    return _doubted(found, "not_recorded", 1)


def _doubted(found: TaskSummary, code: str, count: int) -> TaskSummary:
    known = {warning.code: warning for warning in found.warnings}
    before = known[code].count if code in known else 0
    known[code] = Warn(code=code, count=max(before, count), detail=DETAILS[code])
    return msgspec.structs.replace(
        found, complete=False, cost_complete=False, warnings=[known[name] for name in sorted(known)]
    )
