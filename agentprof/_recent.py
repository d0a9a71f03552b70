"""The spans of the latest tasks of this process, kept for `task.summary()`; bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentprof import _guard
from agentprof._clock import stamp_ns
from agentprof._forking import renew_in_child

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from agentprof.model import RawSpan

TASKS = 64
"""Tasks without a parent whose spans are kept though nobody holds them."""
SPANS = 20_000
"""Spans kept for one task, and for all of those together. As many again may start tasks inside it."""

Said = Mapping[str, Any]
"""What we know of a span, whatever its limits for attributes have cut or pushed out."""


class Recorded:
    """Spans of one task without a parent, and of the tasks inside it."""

    def __init__(self, anchor_ns: int) -> None:
        self.spans: list[tuple[ReadableSpan, Said]] = []
        self.live: dict[int, tuple[ReadableSpan, Callable[[], Said]]] = {}
        """Open spans of ours by span id."""
        self.missing: dict[str, int] = {}
        """By task id: spans for which there was no room."""
        self.forgotten = False
        """Only those who hold its tasks know of it any more."""
        self._anchor_ns = anchor_ns

    def raw_spans(self) -> list[RawSpan]:
        """All of them in the form `normalise` reads; open ones end now."""
        from agentprof._readable import to_raw

        now_ns = stamp_ns() + self._anchor_ns
        return [to_raw(span, None, said) for span, said in [*self.spans]] + [
            to_raw(span, now_ns, know()) for span, know in [*self.live.values()]
        ]


# Reentrant: garbage collection may end a stream, and so need this, anywhere.
_lock = threading.RLock()
_recorded: OrderedDict[str, Recorded] = OrderedDict()
_total = 0


def begin(task_id: str, anchor_ns: int) -> Recorded:
    """Start to record a task without a parent, and forget the oldest one if there are many."""
    with _lock:
        known = _recorded.get(task_id)
        if known is not None:  # a task carried on under its id
            _recorded.move_to_end(task_id)
            return known
        recorded = _recorded[task_id] = Recorded(anchor_ns)
        while len(_recorded) > TASKS:
            _forget_oldest()
    return recorded


def keep(recorded: Recorded, task_id: str, span: ReadableSpan, said: Said, *, starts: bool) -> None:
    """Record an ended span.

    Args:
        starts: Whether it starts a task: without it its task has no name.
    """
    global _total
    with _lock:
        if len(recorded.spans) >= (2 * SPANS if starts else SPANS):
            recorded.missing[task_id] = recorded.missing.get(task_id, 0) + 1
            _guard.noted("summary spans", f"agentprof: task.summary() covers {SPANS} spans of a task")
            return
        recorded.spans.append((span, said))
        if not recorded.forgotten:
            _total += 1
        while _total > SPANS and len(_recorded) > 1:
            _forget_oldest()


def _forget_oldest() -> None:
    """It lives on as long as somebody holds its task."""
    global _total
    _, oldest = _recorded.popitem(last=False)
    _total -= len(oldest.spans)
    oldest.forgotten = True


def _begin_in_child() -> None:
    """Another thread may have held the lock when the process was forked."""
    global _lock
    _lock = threading.RLock()


renew_in_child(_begin_in_child)
