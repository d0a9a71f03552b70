"""Measured energy of endpoints, apportioned to the calls they worked on.

In a window the energy of the accelerators divides evenly among the requests that the engine had running: the method
for which no data of single steps is needed. The engine's count includes requests that nobody here sees, so that
each task can be added up without the others. Between two counts it may have been any in between: a call gets at
least its share by the higher one, at most by the lower.

A call is worked on in its prefill and generation, and where they are not told apart in all of its wait and model
time. It has a measured energy only if windows without a gap cover all of that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from agentprof.model import Call, Energy, EnergyWindow
from agentprof.pricing.names import server_spellings
from agentprof.rollup.profile import Profile
from agentprof.rollup.tree import Node

_WORKED_ON = frozenset({"prefill", "generation", "wait", "model"})
COVERS = "time by requests running"

Series = dict[str, dict[str, list[EnergyWindow]]]
"""Windows by endpoint and machine, in order, none inside another's time."""


def give_measured(calls: Iterable[Node], profile: Profile, windows: Sequence[EnergyWindow]) -> None:
    """Give each call that was measured its energy, in place of any that was reckoned."""
    if not windows:
        return
    series = in_series(windows)
    for node in calls:
        if node.call is not None and (energy := _of(node, node.call, profile, series)) is not None:
            node.call = msgspec.structs.replace(node.call, energy=energy)


def in_series(windows: Iterable[EnergyWindow]) -> Series:
    """Of windows of one machine that overlap the one that begins first, of equals the shorter, holds."""
    found: Series = {}
    ordered = sorted(
        set(windows), key=lambda w: (w.start_ns, w.end_ns, w.energy_uj, w.running_low, w.running_high)
    )
    for window in ordered:
        own = found.setdefault(window.server.lower(), {}).setdefault(window.node, [])
        if window.start_ns < window.end_ns and (not own or own[-1].end_ns <= window.start_ns):
            own.append(window)
    return found


def name_in(series: Series, server: str | None) -> str:
    """How the windows of an endpoint name it, with its port before without; empty: there are none."""
    return next((name for name in server_spellings(server) if name in series), "")


def _of(node: Node, call: Call, profile: Profile, series: Series) -> Energy | None:
    machines = series.get(name_in(series, call.server), {}).values()
    stretches = _worked_on(node, profile)
    if not stretches:
        return None
    low_uj = high_uj = 0
    is_measured = False
    for own in machines:
        if own[-1].end_ns <= stretches[0][0] or own[0].start_ns >= stretches[-1][1]:
            continue  # it was not watched then: the endpoint has moved, or the watching
        for start, end in stretches:
            shares = _shares(own, start, end)
            if shares is None:
                return None
            low_uj, high_uj = low_uj + shares[0], high_uj + shares[1]
        is_measured = True
    if not is_measured:
        return None
    return Energy(
        low_uj=low_uj, high_uj=high_uj, source="measured", boundary="gpu", covers=COVERS, basis="NVML"
    )


def _worked_on(node: Node, profile: Profile) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = node.start
    for segment in profile.segments.get(id(node), ()):
        if segment.name in _WORKED_ON:
            found.append((at, at + segment.ns))
        at += segment.ns
    return found


def _shares(own: Sequence[EnergyWindow], start: int, end: int) -> tuple[int, int] | None:
    """Microjoules, low and high, of a stretch of one call; None: it is not covered whole."""
    at = bisect_right(own, start, key=lambda window: window.start_ns) - 1
    low_uj = high_uj = 0
    reached = start
    while reached < end:
        if at < 0 or at >= len(own) or not own[at].start_ns <= reached < own[at].end_ns:
            return None
        window = own[at]
        inside = min(window.end_ns, end) - reached
        length = window.end_ns - window.start_ns
        low_uj += window.energy_uj * inside // (length * max(window.running_high, 1))
        high_uj += -(-window.energy_uj * inside // (length * max(window.running_low, 1)))
        reached += inside
        at += 1
    return low_uj, high_uj
