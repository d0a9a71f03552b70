"""Measured energy of endpoints, apportioned to the calls they worked on.

No hardware counts the energy of a request, so what was taken in a window is divided, by two rules:

* Evenly among the requests that the engine had running. Between two counts it may have been any in between: a call
  gets at least its share by the higher one, at most by the lower.
* By tokens in flight: those of the call over those the engine counted. A call's prompt counts where its first token
  comes, as in the engine, and its answer evenly over its generation.

The first makes long prompts too cheap, the second too dear. A call's energy is the interval that holds both; where no
other request ran they are the same. The engine's counts include requests that nobody here sees, so that each task
can be added up without the others.

A call is worked on in its prefill and generation. Where nobody tells the queue from them it may have waited
all that time, while others had the energy: it counts for the upper bound alone. A call has a measured energy only
if windows without a gap cover all of this.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import msgspec

from agentprof.model import Call, Energy, EnergyWindow
from agentprof.pricing.names import server_spellings
from agentprof.rollup.phases import Segment
from agentprof.rollup.profile import Profile
from agentprof.rollup.tree import Node

_WORKED_ON = frozenset({"prefill", "generation"})
_UNDIVIDED = frozenset({"wait", "model"})
COVERS = "busy time"
AROUND_NS = 120 * 10**9
"""Where a machine has windows up to so long before a call and after it, two minutes, those between are missing."""
ALONE, BY_REQUESTS, BY_TOKENS_TOO = "NVML", "NVML, by requests", "NVML, by requests and tokens"
"""How it was divided: not at all, by the first rule, by both."""

Series = dict[str, dict[str, list[EnergyWindow]]]
"""Windows by endpoint and machine, in order, none inside another's time."""


def give_measured(calls: Iterable[Node], profile: Profile, windows: Sequence[EnergyWindow]) -> None:
    """Give each call that was measured its energy, in place of any that was reckoned."""
    if not windows:
        return
    watched = _watched(windows)
    for node in calls:
        if node.call is not None and (energy := _of(node, node.call, profile, watched)) is not None:
            node.call = msgspec.structs.replace(node.call, energy=energy)


def in_series(windows: Iterable[EnergyWindow]) -> Series:
    """Of windows of one machine that overlap the one that begins first, of equals the shorter, holds."""
    return {
        server: {node: _apart(own) for node, own in machines.items()}
        for server, machines in _by_machine(windows).items()
    }


def name_in(series: Mapping[str, object], server: str | None) -> str:
    """How the windows of an endpoint name it, with its port before without; empty: there are none."""
    return next((name for name in server_spellings(server) if name in series), "")


def _by_machine(windows: Iterable[EnergyWindow]) -> Series:
    """In order, each once."""
    found: Series = {}
    ordered = sorted(
        set(windows), key=lambda w: (w.start_ns, w.end_ns, w.energy_uj, w.running_low, w.running_high)
    )
    for window in ordered:
        if window.start_ns < window.end_ns:
            found.setdefault(window.server.lower(), {}).setdefault(window.node, []).append(window)
    return found


def _apart(ordered: Iterable[EnergyWindow]) -> list[EnergyWindow]:
    """Without those that begin before the end of the one before."""
    kept: list[EnergyWindow] = []
    for window in ordered:
        if not kept or kept[-1].end_ns <= window.start_ns:
            kept.append(window)
    return kept


class _Machine:
    """The windows of one machine, to be looked up by time.

    Args:
        ordered: by their start.
    """

    def __init__(self, ordered: Sequence[EnergyWindow]) -> None:
        self._windows = ordered
        # The latest end so far: a long window may reach over many later ones.
        self._ends = list(accumulate((window.end_ns for window in ordered), max))

    def between(self, start_ns: int, end_ns: int) -> list[EnergyWindow]:
        """Those that lie at least partly in a span of time, in order."""
        begin = bisect_right(self._ends, start_ns)
        stop = bisect_left(self._windows, end_ns, key=lambda window: window.start_ns)
        return [window for window in self._windows[begin:stop] if window.end_ns > start_ns]

    def is_watched_around(self, start_ns: int, end_ns: int) -> bool:
        """Whether there are windows shortly before and shortly after."""
        return bool(self.between(start_ns - AROUND_NS, start_ns) and self.between(end_ns, end_ns + AROUND_NS))


def _watched(windows: Iterable[EnergyWindow]) -> dict[str, list[_Machine]]:
    return {
        server: [_Machine(own) for own in machines.values()]
        for server, machines in _by_machine(windows).items()
    }


def _of(node: Node, call: Call, profile: Profile, watched: Mapping[str, list[_Machine]]) -> Energy | None:
    machines = watched.get(name_in(watched, call.server), ())
    work = _work(node, call, profile)
    if work is None:
        return None
    start, end = work.stretches[0][0], work.stretches[-1][1]
    shares: list[_Share] = []
    for machine in machines:
        # Nothing further away is looked at: it may be known to one task and not to another with the same call.
        own = _apart(machine.between(start, end))
        if not own and not machine.is_watched_around(start, end):
            continue  # it was not watched then: the endpoint has moved, or the watching
        share = _share(own, work)
        if share is None:
            return None
        shares.append(share)
    if not shares:
        return None
    by_tokens = [share.by_tokens for share in shares if share.by_tokens is not None]
    low, high = sum(share.low for share in shares), sum(share.high for share in shares)
    basis = BY_REQUESTS if any(share.is_divided for share in shares) else ALONE
    if len(by_tokens) == len(shares):
        low, high = min(low, sum(by_tokens)), max(high, sum(by_tokens))
        basis = BY_TOKENS_TOO if basis == BY_REQUESTS else basis
    return Energy(
        low_uj=math.floor(low),
        high_uj=math.ceil(high),
        source="measured",
        boundary="gpu",
        covers=COVERS,
        basis=basis,
    )


class _Work(NamedTuple):
    """When a call was worked on, and with which tokens."""

    stretches: list[tuple[int, int]]
    queued: list[tuple[int, int]]
    """Those of them in all of which it may have waited instead."""
    first_token: int | None
    """Where its prompt counts; None: its tokens, if they are known, spread over all of the time."""
    prompt: int | None
    spread: int | None
    """Tokens that spread over the stretches after the first token, or over all."""

    def tokens_in(self, start: int, end: int) -> Fraction | None:
        """Tokens of the call in a span of time; None: nobody counted them."""
        if self.prompt is None or self.spread is None:
            return None
        after = [(b, e) for b, e in self.stretches if self.first_token is None or b >= self.first_token]
        whole = sum(e - b for b, e in after)
        inside = sum(max(0, min(e, end) - max(b, start)) for b, e in after)
        found = Fraction(self.spread * inside, whole) if whole else Fraction(0)
        if self.first_token is not None and start <= self.first_token < end:
            found += self.prompt
        return found


def _work(node: Node, call: Call, profile: Profile) -> _Work | None:
    found: list[tuple[int, int]] = []
    queued: list[tuple[int, int]] = []
    first_token = None
    at = node.start
    segments = profile.segments.get(id(node), ())
    has_queue, has_prefill = (_is_known(name, segments, call) for name in ("queue", "prefill"))
    for segment in segments:
        # A wait beside a prefill is all queue and way, one beside a queue all prefill.
        undivided = segment.name in _UNDIVIDED and not (segment.name == "wait" and has_prefill)
        if segment.ns and (undivided or segment.name in _WORKED_ON):
            found.append((at, at + segment.ns))
            if undivided and not has_queue:
                queued.append(found[-1])
        if segment.name == "generation" and segment.ns:
            first_token = at
        at += segment.ns
    if not found:
        return None
    usage = call.usage
    if usage is None or usage.input is None or usage.output is None:
        return _Work(found, queued, first_token, None, None)
    spread = usage.output if first_token is not None else usage.input + usage.output
    return _Work(found, queued, first_token, usage.input, spread)


def _is_known(name: str, segments: Sequence[Segment], call: Call) -> bool:
    """Whether a phase is told apart, be it of no length."""
    known = call.phases.get(name)
    return any(segment.name == name for segment in segments) or (known is not None and not known.ns)


class _Share(NamedTuple):
    """Microjoules of one call on one machine: by requests low and high, and by tokens."""

    low: Fraction
    high: Fraction
    by_tokens: Fraction | None
    is_divided: bool
    """In some window others may have been running."""


def _share(own: Sequence[EnergyWindow], work: _Work) -> _Share | None:
    """None: its time is not covered whole."""
    low = high = Fraction(0)
    by_tokens: Fraction | None = Fraction(0)
    covered, is_divided = 0, False
    for window in own:
        inside = _inside(window, work.stretches)
        covered += inside
        is_divided |= window.running_high > 1 and inside > 0
        length = window.end_ns - window.start_ns
        even = Fraction(window.energy_uj * inside, length)
        sure = Fraction(window.energy_uj * (inside - _inside(window, work.queued)), length)
        low += sure / max(window.running_high, 1)
        high += even / max(window.running_low, 1)
        if by_tokens is not None:
            part = even if window.running_high <= 1 else _by_tokens(window, work)
            by_tokens = None if part is None else by_tokens + part
    if covered != sum(end - start for start, end in work.stretches):
        return None
    return _Share(low, high, by_tokens, is_divided)


def _inside(window: EnergyWindow, stretches: Iterable[tuple[int, int]]) -> int:
    return sum(max(0, min(end, window.end_ns) - max(start, window.start_ns)) for start, end in stretches)


def _by_tokens(window: EnergyWindow, work: _Work) -> Fraction | None:
    tokens = work.tokens_in(window.start_ns, window.end_ns)
    if tokens is None or window.tokens is None:
        return None
    if tokens == 0:
        return Fraction(0)
    return window.energy_uj * (min(Fraction(1), tokens / window.tokens) if window.tokens else Fraction(1))
