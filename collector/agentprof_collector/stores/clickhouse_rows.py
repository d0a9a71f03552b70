"""Rows of the ClickHouse tables, from summaries and spans."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from agentprof.model import Span
from agentprof_collector.stores import TaskRow
from agentprof_collector.stores.task_columns import AMOUNT_PLACES, AMOUNTS, KNOWN_SUMS, SUMS, figures

FIGURE_TYPES: Final = {
    **dict.fromkeys(("wall_ns", *SUMS), "Int64"),
    **dict.fromkeys(KNOWN_SUMS, "Nullable(Int64)"),
    **dict.fromkeys(AMOUNTS, f"Nullable(Decimal(38, {AMOUNT_PLACES}))"),
    **dict.fromkeys((f"{name}_places" for name in AMOUNTS), "Nullable(Int8)"),
}

_encode = msgspec.json.Encoder().encode


def span_columns(spans: Sequence[Span], arrived_ns: int) -> dict[str, list[Any]]:
    """The columns of `spans`."""
    return {
        "trace_id": [span.trace_id for span in spans],
        "span_id": [span.span_id for span in spans],
        "arrived_ns": [arrived_ns] * len(spans),
        "body": [_encode(span).decode() for span in spans],
    }


def task_columns(rows: Sequence[TaskRow], written_ns: int) -> dict[str, list[Any]]:
    """The columns of `tasks`."""
    summaries = [row.summary for row in rows]
    numbers = figures(summaries)
    for name in AMOUNTS:
        numbers[name] = [None if amount is None else Decimal(amount) for amount in numbers[name]]
    return {
        "task_id": [summary.task_id for summary in summaries],
        "version": [(row.spans << 96) + (row.facts << 64) + written_ns for row in rows],
        "parent_id": [summary.parent_task_id for summary in summaries],
        "name": [summary.name for summary in summaries],
        "outcome": [summary.outcome for summary in summaries],
        "start_ns": [summary.start_ns for summary in summaries],
        "end_ns": [summary.end_ns for summary in summaries],
        "labels": [summary.labels for summary in summaries],
        "services": [summary.services for summary in summaries],
        "trace_ids": [summary.trace_ids for summary in summaries],
        "summary": [_encode(summary).decode() for summary in summaries],
        "cost_complete": [summary.cost_complete for summary in summaries],
        **numbers,
    }
