"""How many calls ran at the same time: the mean over a stretch, from when all of them began and ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class InFlight:
    """The calls of one endpoint.

    Args:
        calls: start and end of each, in any order; an end before its start counts as its start.
    """

    def __init__(self, calls: Iterable[tuple[int, int]]) -> None:
        steps: dict[int, int] = {}
        for start, end in calls:
            if end > start:
                steps[start] = steps.get(start, 0) + 1
                steps[end] = steps.get(end, 0) - 1
        self._times: list[int] = sorted(steps)
        self._running: list[int] = []
        """From each time on."""
        self._summed: list[int] = []
        """Time of all calls together until each time."""
        running = summed = 0
        for at, time in enumerate(self._times):
            summed += running * (time - self._times[at - 1]) if at else 0
            running += steps[time]
            self._running.append(running)
            self._summed.append(summed)

    def mean(self, start: int, end: int) -> float:
        """Calls in flight on average from `start` to `end`; at a moment those that run on from it."""
        if end > start:
            return (self._until(end) - self._until(start)) / (end - start)
        at = bisect_right(self._times, start) - 1
        return float(self._running[at]) if at >= 0 else 0.0

    def _until(self, time: int) -> int:
        at = bisect_right(self._times, time) - 1
        return self._summed[at] + self._running[at] * (time - self._times[at]) if at >= 0 else 0
