"""What was said in one task, where it is kept: by span, as other tools wrote it."""

from __future__ import annotations

from typing import Any

import msgspec

from agentprof_collector.reports.selection import Selection, the_spans, the_task
from agentprof_collector.stores import Store


class ContentRow(msgspec.Struct, kw_only=True):
    """What was said in one span."""

    trace_id: str
    span_id: str
    kind: str
    title: str
    start_ns: int
    content: dict[str, str]
    """By the attribute it stood in; long texts are cut."""


def document(store: Store, selection: Selection) -> dict[str, Any]:
    """The spans of the selected task that have content, in the order they started."""
    summary = the_task(store, selection)
    spans = the_spans(store, summary)
    found = sorted(
        (span for span in spans if span.content),
        key=lambda span: (span.start_ns, span.trace_id, span.span_id),
    )
    rows = [
        ContentRow(
            trace_id=span.trace_id,
            span_id=span.span_id,
            kind=span.kind,
            title=span.title,
            start_ns=span.start_ns,
            content=span.content,
        )
        for span in found[: selection.limit]
    ]
    return {
        "schema": 1,
        "selection": selection.to_dict(),
        "task_id": summary.task_id,
        "count": len(found),
        "spans": msgspec.to_builtins(rows),
    }
