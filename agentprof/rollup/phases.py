"""The phases of a call: what was measured, and remainders named so that they fill the call exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agentprof.model import SOURCES, Call, Phase, Source

_STRENGTH = {source: rank for rank, source in enumerate(SOURCES)}

# What precedes the first token, in its order, with what gives way first where figures do not fit
# and are known equally well.
_BEFORE_TOKEN = ("connect", "network", "queue", "prefill")
_GIVES_WAY = {"network": 0, "connect": 1, "queue": 2, "prefill": 3, "generation": 4, "model": 5}


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


Divide = Callable[[Call, int], tuple[list[Segment], bool]]


def fill_phases(call: Call, duration_ns: int) -> Filled:
    """Divide a call of `duration_ns` into its failed attempts and the phases of its last attempt.

    Measured phases keep their length as far as they fit, the weakest source giving way first. What is left
    is named by where it must lie: before a seen first token `wait` (or `network`, or `queue`, where both
    engine figures are known), after it generation; `model` where nothing divides it.
    """
    if not call.phases and not call.failed_attempts and call.first_token_ns is None:
        whole = Segment("model", duration_ns, "observed")
        return Filled((whole,) if duration_ns else (), overflow=False)
    failed, left, overflow = _failed_attempts(call, duration_ns)
    if failed and call.attempts is not None and len(call.failed_attempts) >= call.attempts:
        # The last attempt failed as well: what is left of the call is its tail.
        return Filled(_compact([*failed, Segment("failed_attempt", left, "observed")]), overflow)
    first_token = call.first_token_ns
    divide: Divide = _without_first_token
    if first_token is not None:
        divide = _with_first_token(first_token - (duration_ns - left))
    last, cut = divide(call, left)
    return Filled(_compact([*failed, *last]), overflow or cut)


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


def _with_first_token(first_token_ns: int) -> Divide:
    """Divide the last attempt around its first token, `first_token_ns` after the attempt's start."""

    def divide(call: Call, length: int) -> tuple[list[Segment], bool]:
        seen = min(max(first_token_ns, 0), length)
        client = call.phases.get("client")
        client_ns = min(client.ns, length - seen) if client is not None else 0
        generation = _generation(call.phases.get("generation"), length - seen - client_ns, length - client_ns)
        known = {name: call.phases[name] for name in _BEFORE_TOKEN if name in call.phases}
        before, cut = _fit(known, length - client_ns - generation.ns)
        rest = length - client_ns - generation.ns - sum(phase.ns for phase in before.values())
        segments = _rest_before_token(before, rest, call.queue_starts_late)
        segments += [Segment("generation", *generation[:2]), Segment("client", client_ns, "observed")]
        overflow = cut or first_token_ns > length or first_token_ns < 0
        return segments, overflow or (client is not None and client.ns > length - seen)

    return divide


class _Length(NamedTuple):
    ns: int
    source: Source


def _generation(known: Phase | None, after_token_ns: int, most_ns: int) -> _Length:
    """Generation fills what follows the first token; a longer figure from the server moves that token.

    A token seen late, because a proxy held the stream back, does not shorten what the engine reports.
    """
    if known is not None and _STRENGTH[known.source] < _STRENGTH["observed"] and known.ns >= after_token_ns:
        return _Length(min(known.ns, most_ns), known.source)
    return _Length(after_token_ns, "observed")


def _rest_before_token(before: dict[str, Phase], rest: int, queue_starts_late: bool) -> list[Segment]:
    queue, prefill = before.get("queue"), before.get("prefill")
    named = [
        Segment(name, before[name].ns, before[name].source)
        for name in ("connect", "network")
        if name in before
    ]
    if queue is not None and prefill is not None:
        name = "queue" if queue_starts_late else "network"
        return [
            *named,
            Segment(name, rest, "derived"),
            Segment("queue", queue.ns, queue.source),
            Segment("prefill", prefill.ns, prefill.source),
        ]
    wait = Segment("wait", rest, "observed")
    if queue is not None:
        return [*named, Segment("queue", queue.ns, queue.source), wait]
    if prefill is not None:
        return [*named, wait, Segment("prefill", prefill.ns, prefill.source)]
    return [*named, wait]


def _without_first_token(call: Call, length: int) -> tuple[list[Segment], bool]:
    client = call.phases.get("client")
    client_ns = min(client.ns, length) if client is not None else 0
    room = length - client_ns
    names: tuple[str, ...] = (*_BEFORE_TOKEN, "generation")
    if "model" in call.phases and "generation" not in call.phases:
        names = ("connect", "network", "model")
    fitted, cut = _fit({name: call.phases[name] for name in names if name in call.phases}, room)
    rest = room - sum(phase.ns for phase in fitted.values())
    segments = [Segment(name, fitted[name].ns, fitted[name].source) for name in names if name in fitted]
    if "generation" in fitted or "model" in fitted:
        # The parts of the engine are all there: what is left passed on the way to it and back.
        segments.insert(0, Segment("network", rest, "derived"))
    else:
        segments.append(Segment("model", rest, "observed"))
    segments.append(Segment("client", client_ns, "observed"))
    return segments, cut


def _fit(known: dict[str, Phase], room: int) -> tuple[dict[str, Phase], bool]:
    """Cut figures until they fit into `room`, the weakest source first."""
    excess = sum(phase.ns for phase in known.values()) - room
    if excess <= 0:
        return known, False
    fitted = dict(known)
    for name in sorted(known, key=lambda name: (-_STRENGTH[known[name].source], _GIVES_WAY[name])):
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
            weaker = max(last.source, segment.source, key=_STRENGTH.__getitem__)
            segment = Segment(segment.name, last.ns + segment.ns, weaker)
        kept.append(segment)
    return tuple(kept)
