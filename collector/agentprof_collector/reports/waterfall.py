"""One task as its runs, one below the other: when each began, how long it took, what it was waiting for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from agentprof.money import with_plain_amounts
from agentprof.rollup.waterfall import waterfall
from agentprof_collector.measured_windows import Windows
from agentprof_collector.reports.selection import Selection, the_spans, the_task
from agentprof_collector.stores import Store


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """The runs of the selected task in the order of its tree; of more than the limit the longest."""
    summary = the_task(store, selection)
    spans = the_spans(store, summary)
    windows = Windows(store, spans).during(spans)
    found = waterfall(summary.task_id, spans, selection.limit, windows)
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "task_id": summary.task_id,
        "start_ns": summary.start_ns,
        "wall_ns": summary.wall_ns,
        "count": found.total,
        "spans": with_plain_amounts(msgspec.to_builtins(found.rows, builtin_types=(Decimal,))),
    }
