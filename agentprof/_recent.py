"""The spans of the latest tasks of this process, kept for `task.summary()`; bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from agentprof import _guard
from agentprof._clock import stamp_ns
from agentprof._forking import renew_in_child

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from agentprof.model import RawSpan

TASKS = 64
"""Tasks without a parent whose spans are kept."""
SPANS = 20_000
"""Spans kept for one of them, and for all of them together."""


class Recorded:
    """Spans of one task without a parent, and of the tasks inside it."""

    def __init__(self, anchor_ns: int) -> None:
        self.spans: list[ReadableSpan] = []
        self.live: dict[int, ReadableSpan] = {}
        """Open tasks, tools and steps by span id."""
        self._anchor_ns = anchor_ns

    def raw_spans(self) -> list[RawSpan]:
        """All of them in the form `normalise` reads; open ones end now."""
        from agentprof._readable import to_raw

        now_ns = stamp_ns() + self._anchor_ns
        return [to_raw(span) for span in [*self.spans]] + [
            to_raw(span, now_ns) for span in [*self.live.values()]
        ]


# Reentrant: garbage collection may end a stream, and so need this, anywhere.
_lock = threading.RLock()
_recorded: OrderedDict[str, Recorded] = OrderedDict()
_total = 0


def begin(task_id: str, anchor_ns: int) -> Recorded:
    """Start to record a task without a parent, and forget the oldest one if there are many."""
    global _total
    with _lock:
        known = _recorded.get(task_id)
        if known is not None:  # a task carried on under its id
            _recorded.move_to_end(task_id)
            return known
        recorded = _recorded[task_id] = Recorded(anchor_ns)
        while len(_recorded) > TASKS:
            _total -= len(_recorded.popitem(last=False)[1].spans)
    return recorded


def keep(recorded: Recorded, span: ReadableSpan) -> None:
    """Record an ended span."""
    global _total
    with _lock:
        if len(recorded.spans) >= SPANS:
            _guard.noted(
                "summary spans", f"agentprof: task.summary() covers the first {SPANS} spans of a task"
            )
            return
        recorded.spans.append(span)
        _total += 1
        while _total > SPANS and len(_recorded) > 1:
            _total -= len(_recorded.popitem(last=False)[1].spans)


def _begin_in_child() -> None:
    """Another thread may have held the lock when the process was forked."""
    global _lock
    _lock = threading.RLock()


renew_in_child(_begin_in_child)
