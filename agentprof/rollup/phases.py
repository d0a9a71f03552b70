"""The phases of a call: what was measured, and remainders named so that they fill the call exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentprof.model import Call, Phase, Source
from agentprof.rollup.possible import STRENGTH, Times, is_reported

# What precedes the first token, in its order, and what gives way first where figures do not fit
# and are known equally well.
_BEFORE_TOKEN = ("connect", "network", "queue", "prefill")
_GIVES_WAY = {"network": 0, "connect": 1, "queue": 2, "wait": 3, "prefill": 4, "generation": 5, "model": 6}


class Segment(NamedTuple):
    """A stretch of a call: `failed_attempt`, `backoff`, or a phase of the last attempt."""

    name: str
    ns: int
    source: Source


class Filled(NamedTuple):
    """The segments of a call in their order; they sum to its duration."""

    segments: tuple[Segment, ...]
    overflow: bool
    """Evidence was longer than the call and was cut."""
    faults: tuple[str, ...] = ()
    """Reported times that contradict what was seen, and are left out: `field: what is wrong`."""
    fields: Mapping[str, str] = {}
    """Where the figures of the phases come from: path of the raw field, or the arithmetic over such."""


class _Last(NamedTuple):
    """What is known of a last attempt."""

    phases: Mapping[str, Phase]
    length: int
    queue_starts_late: bool

    @property
    def client_ns(self) -> int:
        client = self.phases.get("client")
        return client.ns if client is not None else 0

    def those(self, names: tuple[str, ...]) -> dict[str, Phase]:
        return {name: self.phases[name] for name in names if name in self.phases}


def fill_phases(call: Call, duration_ns: int) -> Filled:
    """Divide a call of `duration_ns` into its failed attempts and the phases of its last attempt.

    Measured phases keep their length as far as they fit, the weakest source giving way first; what the engine
    reported and cannot be is left out and named. What is left is named by where it must lie: before a seen first
    token `wait` (or `network`, or `queue`, where both engine figures are known), after it generation; `model` where
    nothing divides it.
    """
    if not call.phases and not call.failed_attempts and call.first_token_ns is None:
        whole = Segment("model", duration_ns, "observed")
        return Filled((whole,) if duration_ns else (), overflow=False)
    failed, left, overflow = _failed_attempts(call, duration_ns)
    if failed and call.attempts is not None and len(call.failed_attempts) >= call.attempts:
        # The last attempt failed as well: what is left of the call is its tail.
        return Filled(_compact([*failed, Segment("failed_attempt", left, "observed")]), overflow)
    first_token = call.first_token_ns
    if first_token is None:
        times = Times(call.phases, left, None)
        last, cut = _without_first_token(_Last(times.known, left, call.queue_starts_late))
    else:
        seen = first_token - (duration_ns - left)
        times = Times(call.phases, left, min(max(seen, 0), left))
        last, cut = _with_first_token(_Last(times.known, left, call.queue_starts_late), seen)
    fields = {name: phase.field for name, phase in times.known.items() if phase.field is not None}
    return Filled(_compact([*failed, *last]), overflow or cut, tuple(times.faults), fields)


def _failed_attempts(call: Call, duration_ns: int) -> tuple[list[Segment], int, bool]:
    segments: list[Segment] = []
    left = duration_ns
    wanted = 0
    for attempt in call.failed_attempts:
        for name, ns in (("failed_attempt", attempt.duration_ns), ("backoff", attempt.backoff_ns)):
            wanted += ns
            segments.append(Segment(name, min(ns, left), "observed"))
            left -= segments[-1].ns
    return segments, left, wanted > duration_ns


# --- around a first token ------------------------------------------------------------------------
def _with_first_token(last: _Last, first_token_ns: int) -> tuple[list[Segment], bool]:
    """Divide around the first token, `first_token_ns` after the attempt's start."""
    length = last.length
    seen = min(max(first_token_ns, 0), length)
    client_ns = min(last.client_ns, length - seen)
    generation, client_ns = _generation(last, length - seen, client_ns)
    known = _BEFORE_TOKEN if {"queue", "prefill"} & last.phases.keys() else (*_BEFORE_TOKEN, "wait")
    before, cut = _fit(last.those(known), length - client_ns - generation.ns)
    rest = length - client_ns - generation.ns - sum(phase.ns for phase in before.values())
    segments = [
        *_rest_before_token(last, before, rest),
        generation,
        Segment("client", client_ns, "observed"),
    ]
    overflow = cut or first_token_ns > length or first_token_ns < 0
    return segments, overflow or last.client_ns > length - seen


def _generation(last: _Last, after_token_ns: int, client_ns: int) -> tuple[Segment, int]:
    """Generation fills what follows the first token; a longer figure from the server moves that token.

    A token seen late, because a proxy held the stream back, does not shorten what the engine reports. But where the
    program itself was slow to read, the engine generated while it did.
    """
    known = last.phases.get("generation")
    seen_ns = after_token_ns - client_ns
    if known is None or not is_reported(known) or known.ns < seen_ns:
        return Segment("generation", seen_ns, "observed"), client_ns
    client_ns -= min(client_ns, known.ns - seen_ns)
    return Segment("generation", min(known.ns, last.length - client_ns), known.source), client_ns


def _rest_before_token(last: _Last, before: dict[str, Phase], rest: int) -> list[Segment]:
    queue, prefill, wait = before.get("queue"), before.get("prefill"), before.get("wait")
    named = [
        Segment(name, before[name].ns, before[name].source)
        for name in ("connect", "network")
        if name in before
    ]
    if queue is not None and prefill is not None:
        away = _away(last, named, rest) if last.queue_starts_late else rest
        return [
            *named,
            Segment("network", away, "derived"),
            Segment("queue", rest - away, "derived"),
            Segment("queue", queue.ns, queue.source),
            Segment("prefill", prefill.ns, prefill.source),
        ]
    if queue is not None:
        return [*named, Segment("queue", queue.ns, queue.source), Segment("wait", rest, "observed")]
    if prefill is not None:
        return [*named, Segment("wait", rest, "observed"), Segment("prefill", prefill.ns, prefill.source)]
    if wait is not None:
        return [*named, Segment("network", rest, "derived"), Segment("wait", wait.ns, wait.source)]
    away = _away(last, named, rest)
    return [*named, Segment("network", away, "derived"), Segment("wait", rest - away, "observed")]


def _away(last: _Last, named: list[Segment], rest: int) -> int:
    """What of the rest was the way there and back: what passed beside the server's whole time, if that is known."""
    model = last.phases.get("model")
    if model is None or "network" in last.phases:
        return 0
    return min(max(last.length - last.client_ns - model.ns - sum(segment.ns for segment in named), 0), rest)


# --- without one ---------------------------------------------------------------------------------
def _without_first_token(last: _Last) -> tuple[list[Segment], bool]:
    client_ns = min(last.client_ns, last.length)
    room = last.length - client_ns
    divided = bool({"queue", "prefill"} & last.phases.keys())
    parts = ("wait",) if "wait" in last.phases and not divided else ("queue", "prefill")
    names = ("connect", "network", *parts, "generation")
    fitted, cut = _fit(last.those(names), room)
    rest = room - sum(phase.ns for phase in fitted.values())
    segments = [Segment(name, fitted[name].ns, fitted[name].source) for name in names if name in fitted]
    if "generation" in fitted:
        at = sum(name in fitted for name in ("connect", "network"))
        away, here = _rest_beside_parts(last, fitted, rest, segments[:at])
        after = at + (here.name == "wait" and "queue" in fitted)
        segments = [*segments[:at], away, *segments[at:after], here, *segments[after:]]
    elif "model" in last.phases:
        model = last.phases["model"]
        inside = sum(fitted[name].ns for name in parts if name in fitted)
        own = min(max(model.ns - inside, 0), rest)
        cut = cut or model.ns - inside > rest
        segments.insert(0, Segment("network", rest - own, "derived"))
        segments.append(Segment("model", own, model.source if not inside else "derived"))
    else:
        segments.append(Segment("model", rest, "observed"))
    segments.append(Segment("client", client_ns, "observed"))
    return segments, cut


def _rest_beside_parts(
    last: _Last, fitted: dict[str, Phase], rest: int, named: list[Segment]
) -> tuple[Segment, Segment]:
    """What of the rest was the way there and back, and what the engine's, where generation is known."""
    all_known = "wait" in fitted or ("queue" in fitted and "prefill" in fitted)
    is_settled = all_known and not (last.queue_starts_late and "queue" in fitted)
    has_part = "queue" in fitted or "prefill" in fitted
    away = rest if is_settled or not has_part else _away(last, named, rest)
    left = Segment("queue", rest - away, "derived") if all_known else Segment("wait", rest - away, "observed")
    return Segment("network", away, "derived"), left


def _fit(known: dict[str, Phase], room: int) -> tuple[dict[str, Phase], bool]:
    """Cut figures until they fit into `room`, the weakest source first."""
    excess = sum(phase.ns for phase in known.values()) - room
    if excess <= 0:
        return known, False
    fitted = dict(known)
    for name in sorted(known, key=lambda name: (-STRENGTH[known[name].source], _GIVES_WAY[name])):
        given = min(excess, known[name].ns)
        fitted[name] = Phase(ns=known[name].ns - given, source=known[name].source)
        excess -= given
        if excess == 0:
            break
    return fitted, True


def _compact(segments: list[Segment]) -> tuple[Segment, ...]:
    """Without empty segments; neighbours of one name become one, with the weaker source."""
    kept: list[Segment] = []
    for segment in segments:
        if segment.ns == 0:
            continue
        if kept and kept[-1].name == segment.name and segment.name != "failed_attempt":
            last = kept.pop()
            weaker = max(last.source, segment.source, key=STRENGTH.__getitem__)
            segment = Segment(segment.name, last.ns + segment.ns, weaker)
        kept.append(segment)
    return tuple(kept)
