"""The measured energy that calls need: of their endpoints, in and around their times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from agentprof.model import EnergyWindow, Span
from agentprof.pricing.names import server_spellings
from agentprof.rollup.measured import AROUND_NS
from agentprof_collector.stores import Store

_QUESTIONS = 100
"""Asked of the store for one endpoint at most; what lies between times that are near each other is read too."""

_LATEST_NS = 2**63 - 1

_Times = list[tuple[int, int]]


class Windows:
    """The windows of all endpoints that some spans called, while they did.

    Args:
        store: asked once.
        spans: of any number of tasks.
    """

    def __init__(self, store: Store, spans: Iterable[Span]) -> None:
        self._of: dict[str, list[EnergyWindow]] = {}
        self._ends: dict[str, list[int]] = {}
        for server, times in _times_by_server(spans).items():
            names = set(server_spellings(server))
            found = {
                window
                for start_ns, end_ns in _in_few(times, _QUESTIONS)
                for window in store.windows_of(names, start_ns, end_ns)
            }
            if found:
                own = self._of[server] = sorted(found, key=_order)
                # The latest end so far: a long window may reach over many later ones.
                self._ends[server] = list(accumulate((window.end_ns for window in own), max))

    def during(self, spans: Iterable[Span]) -> tuple[EnergyWindow, ...]:
        """Those that the calls of one task need, and no others, so that their number is that of the task alone."""
        if not self._of:
            return ()
        found: dict[EnergyWindow, None] = {}
        for server, times in _times_by_server(spans).items():
            own, ends = self._of.get(server, []), self._ends.get(server, [])
            done = 0
            for start_ns, end_ns in times:
                begin = max(done, bisect_right(ends, start_ns))
                done = max(done, bisect_left(own, end_ns, key=lambda window: window.start_ns))
                found.update(dict.fromkeys(window for window in own[begin:done] if window.end_ns > start_ns))
        return tuple(found)


def _order(window: EnergyWindow) -> tuple[int, int, str, str, int, int, int, int]:
    return (
        window.start_ns,
        window.end_ns,
        window.server,
        window.node,
        window.energy_uj,
        window.running_low,
        window.running_high,
        -1 if window.tokens is None else window.tokens,
    )


def _times_by_server(spans: Iterable[Span]) -> dict[str, _Times]:
    """In and around which times each endpoint was called, in order, none touching another."""
    found: dict[str, _Times] = {}
    for span in spans:
        if span.call is not None and span.call.server is not None:
            end_ns = span.end_ns
            if end_ns is None or end_ns < span.start_ns:
                end_ns = span.start_ns
            found.setdefault(span.call.server, []).append((span.start_ns, end_ns))
    return {
        server: [
            (max(0, start_ns - AROUND_NS), min(end_ns + AROUND_NS, _LATEST_NS))
            for start_ns, end_ns in _merged(sorted(times), 2 * AROUND_NS)
        ]
        for server, times in found.items()
    }


def _in_few(times: _Times, most: int) -> _Times:
    """At most so many stretches that hold all the times, parted where the gaps are longest."""
    gaps = sorted((later[0] - earlier[1], at) for at, (earlier, later) in enumerate(pairwise(times), 1))
    cuts = sorted(at for _, at in gaps[max(0, len(times) - most) :])
    return [(times[begin][0], times[end - 1][1]) for begin, end in pairwise([0, *cuts, len(times)])]


def _merged(ordered: _Times, apart_ns: int) -> _Times:
    """Times that are no further apart are one."""
    merged: _Times = []
    for start_ns, end_ns in ordered:
        if merged and start_ns <= merged[-1][1] + apart_ns:
            if end_ns > merged[-1][1]:
                merged[-1] = (merged[-1][0], end_ns)
        else:
            merged.append((start_ns, end_ns))
    return merged
