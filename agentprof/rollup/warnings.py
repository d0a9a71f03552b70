"""What the warnings of a summary say."""

from __future__ import annotations

from collections.abc import Mapping

from agentprof.rollup.tree import Tree
from agentprof.summary import Warn

DETAILS = {
    "clock_skew": "spans wholly outside their parent own no time; clocks of hosts may differ",
    "cut_short": "processes of the run ended at once (a signal, os._exit): what they did in their last second may be "
    "missing, and its cost",
    "deep_nesting": "spans nested deeper than 64 names count in the row above",
    "different_keys": "processes of the task do not share the key of its fingerprints: what was asked again is unknown",
    "double_report": "a span around several calls repeated what they report; its figures were dropped",
    "media_unpriced": "sound or images of these calls have no known price and are not in the cost",
    "missing_parent": "spans whose parent has not arrived hang from the task",
    "missing_spans": "spans the task's process counted have not arrived",
    "negative_duration": "spans that end before they start count as ended at their start",
    "nested_tool": "a tool run reported more than once, nested; the outermost counts",
    "no_end": "spans that never ended: they end with the last span below them",
    "no_root": "the span that starts the task has not arrived",
    "not_recorded": "no span of the task was recorded: is instrument() called, are its spans sampled?",
    "other_processes": "other processes were forked or given work while the task ran: what they did is in the report, "
    "not in this summary",
    "past_end": "spans run past the end of the task: cost and tokens count, the time does not",
    "phase_overflow": "measured phases were longer than their call and were cut",
    "timing_faults": "reported times that cannot be are left out",
    "total_differs": "what the provider counted of these calls does not add up to its own total",
    "usage_estimated": "tokens and cost of these calls are an estimate from what was sent and received: nobody "
    "reported them, and reasoning that is not shown is not in them",
}
"""One sentence for each code."""


_NAMED = 4
"""Faults of reported times that are named."""


def described(counts: Mapping[str, int], faults: Mapping[str, int]) -> list[Warn]:
    """The warnings in the order of their codes.

    Args:
        faults: Reported times that cannot be, and how often each.
    """
    details = dict(DETAILS)
    if faults:
        counts = {**counts, "timing_faults": sum(faults.values())}
        details["timing_faults"] += f" ({_most_frequent(faults)})"
    return [Warn(code=code, count=count, detail=details[code]) for code, count in sorted(counts.items())]


def _most_frequent(faults: Mapping[str, int]) -> str:
    ordered = sorted(faults, key=lambda fault: (-faults[fault], fault))
    more = len(ordered) - _NAMED
    named = "; ".join(ordered[:_NAMED])
    return f"{named}; and {more} more" if more > 0 else named


def count_misplaced(tree: Tree) -> None:
    """Count spans that lie wholly outside their parent, and calls and tools that run past the task."""
    for node in tree.nodes:
        parent = node.parent
        if parent is None or node.end <= node.start:
            continue
        if node.start >= parent.end or node.end <= parent.start:
            tree.warn("clock_skew")
        if node.end > tree.root.end or node.start < tree.root.start:
            tree.warn("past_end")
