"""Batches of spans that were written a moment ago, as they were: adding up need not unpack what was just packed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from agentprof.model import Span

_SPANS: Final = 10_000
"""Kept: some seconds of much traffic."""


class RecentBatches:
    """The latest batches by trace and arrival. What is here says nothing about what the store holds.

    Args:
        limit: of spans kept.
    """

    def __init__(self, limit: int = _SPANS) -> None:
        self._limit = limit
        self._spans = 0
        # Of two batches with one name none is kept: None.
        self._batches: dict[tuple[str, int], Sequence[Span] | None] = {}
        self._changing = threading.Lock()

    def add(self, by_trace: Mapping[str, Sequence[Span]], arrived_ns: int) -> None:
        """Keep what has been written, and let the oldest go."""
        with self._changing:
            for trace_id, spans in by_trace.items():
                key = (trace_id, arrived_ns)
                other = self._batches.get(key)
                if key in self._batches:
                    self._spans -= len(other or ())
                    self._batches[key] = None
                else:
                    self._spans += len(spans)
                    self._batches[key] = spans
            while self._spans > self._limit:
                oldest = next(iter(self._batches))
                self._spans -= len(self._batches.pop(oldest) or ())

    def get(self, trace_id: str, arrived_ns: int) -> Sequence[Span] | None:
        """The spans of the only batch of a trace that arrived then; None: not known."""
        return self._batches.get((trace_id, arrived_ns))
