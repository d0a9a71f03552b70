"""Divides waits for a first token, and whole calls without one, from the waits of many calls of one endpoint.

The method, and its assumptions:

1. The shortest waits met no queue: the lower envelope over the length of the prompt is the prefill.
2. How far a prefill lies from the envelope is seen at calls that were alone in flight, each against a curve
   that was fitted without it. If others queue at the endpoint unseen, this spread grows, and so do the
   intervals.
3. What slows the generation of calls in company slows their prefill as well. Where it slows it much, the engine
   works on several requests at once, a longer wait is no longer a queue, and nothing is estimated.

What every call waits whatever its length is of the network, of the server, or of the prefill: it widens both.
A call that was not streamed also holds its generation: as many tokens as it has, at the speed of those that were.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from agentprof_collector.estimates.curve import Curve, Point, lower_envelope

CONFIDENCE: Final = 0.90
MOST_CALLS: Final = 500
"""The latest ones count: endpoints change within hours."""
LEAST_CALLS: Final = 20
LEAST_ALONE: Final = 5
LEAST_TIMED: Final = 10
LEAST_LENGTHS: Final = 5
LEAST_SPREAD: Final = 4.0
"""Longest prompt by shortest, in tokens that had to be read."""
ALONE: Final = 0.2
"""Other calls in flight on average until the first token, at most, of a call that was alone."""
MOST_SLOWED: Final = 2.0
SHORTER: Final = 0.9
LONGER: Final = 1.25
"""How far beyond the lengths that were seen the curve is followed."""
_FOLDS: Final = 10
_Z: Final = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

Reason = Literal[
    "few_calls",
    "few_lengths",
    "few_alone",
    "no_growth",
    "company_unknown",
    "slowed",
    "other_length",
    "few_timed",
]

REASONS: Final[dict[str, str]] = {
    "few_calls": f"fewer than {LEAST_CALLS} calls whose wait and uncached input tokens are known",
    "few_lengths": f"the prompts are of too similar length: {LEAST_LENGTHS} different ones are needed, "
    f"the longest {LEAST_SPREAD:g} times the shortest",
    "few_alone": f"fewer than {LEAST_ALONE} calls were alone in flight until their first token",
    "no_growth": "longer prompts do not wait longer",
    "company_unknown": f"fewer than {LEAST_ALONE} calls in company show whether calls slow each other down",
    "slowed": f"calls in company generate at less than 1/{MOST_SLOWED:g} of the speed of calls alone: "
    "the engine works on several at once, and a long wait may be a slow prefill as well as a queue",
    "other_length": "the prompt is much shorter or longer than those that were seen",
    "few_timed": f"fewer than {LEAST_TIMED} streamed calls show how long a token takes",
}
"""Why there is no estimate."""


class Wait(NamedTuple):
    """What a client saw of a call whose server says nothing."""

    start_ns: int
    """When it began, for telling early from late."""
    ns: int
    """Until the first token; from when there was a connection, where that is known."""
    uncached_tokens: int
    company: float
    """Other calls in flight on average until the first token."""
    token_ns: float | None
    """From one output token to the next, on average."""
    connect_ns: int | None = None
    """What getting the connection took."""


class Whole(NamedTuple):
    """What a client saw of a call that came in one piece, and whose server says nothing."""

    ns: int
    """From when there was a connection to the end."""
    uncached_tokens: int
    output_tokens: int
    company: float
    """Other calls in flight on average."""


class Interval(NamedTuple):
    """Holds the true value in `CONFIDENCE` of the cases, if the assumptions hold."""

    low_ns: int
    likely_ns: int
    high_ns: int


class Division(NamedTuple):
    """What a wait or a whole call was made of, as far as can be told."""

    queue: Interval
    prefill: Interval
    network: Interval | None
    """Inside the two others; None without the time of a connection."""
    generation: Interval | None = None
    """Of a whole call."""


class Unfit(NamedTuple):
    """No estimate, and why."""

    reason: Reason


class Factors(NamedTuple):
    """Bounds and middle of something that varies by a factor."""

    low: float
    likely: float
    high: float


class Fit(NamedTuple):
    """What the waits of an endpoint say about each of them."""

    curve: Curve
    prefill: Factors
    """By the curve."""
    token_ns: Factors | None
    """From one output token to the next; None: too few calls tell."""
    slowed: float | None
    """Calls in company by calls alone, in time per token, at least 1; None: nobody knows."""
    shortest: int
    longest: int
    round_trip_ns: int | None
    """No more than that: the shortest time that getting a connection took."""
    calls: int
    alone: int

    def divide(self, wait: Wait) -> Division | Unfit:
        """Estimate queue and prefill of a wait, of the same endpoint and about the same time."""
        prefill = self._prefill(wait.uncached_tokens, wait.company, wait.ns)
        if isinstance(prefill, Unfit):
            return prefill
        queue = Interval(wait.ns - prefill.high_ns, wait.ns - prefill.likely_ns, wait.ns - prefill.low_ns)
        return Division(queue, prefill, self._network(wait.ns))

    def divide_whole(self, whole: Whole) -> Division | Unfit:
        """Estimate queue, prefill and generation of a call that came in one piece."""
        prefill = self._prefill(whole.uncached_tokens, whole.company, whole.ns)
        if isinstance(prefill, Unfit):
            return prefill
        if self.token_ns is None:
            return Unfit("few_timed")
        tokens = max(whole.output_tokens - 1, 0)
        token_ns = self.token_ns
        generation = _interval(
            tokens * token_ns.low, tokens * token_ns.likely, tokens * token_ns.high, whole.ns
        )
        prefill = _within(prefill, whole.ns - generation.low_ns)
        generation = _within(generation, whole.ns - prefill.low_ns)
        left = [
            max(0, whole.ns - one - other)
            for one, other in zip(reversed(prefill), reversed(generation), strict=True)
        ]
        return Division(Interval(*left), prefill, self._network(whole.ns), generation)

    def _prefill(self, tokens: int, company: float, most_ns: int) -> Interval | Unfit:
        if not SHORTER * self.shortest <= tokens <= LONGER * self.longest:
            return Unfit("other_length")
        slowed: float | None = 1.0 if company < ALONE else self.slowed
        if slowed is None:
            return Unfit("company_unknown")
        whole = self.curve.at(tokens)
        return _interval(
            (whole - self.curve.constant_ns) * self.prefill.low,
            whole * self.prefill.likely * math.sqrt(slowed),
            whole * self.prefill.high * slowed,
            most_ns,
        )

    def _network(self, most_ns: int) -> Interval | None:
        if self.round_trip_ns is None:
            return None
        return _interval(0.0, self.round_trip_ns / 2, float(self.round_trip_ns), most_ns)


def fit(waits: Iterable[Wait], most_slowed: float = MOST_SLOWED) -> Fit | Unfit:
    """Learn from the waits of calls of one endpoint.

    Args:
        waits: in any order; the latest `MOST_CALLS` count.
        most_slowed: how much slower calls in company may generate.
    """
    known = sorted((wait for wait in waits if wait.ns > 0 and wait.uncached_tokens > 0), key=_order)
    known = known[-MOST_CALLS:]
    lengths = sorted({wait.uncached_tokens for wait in known})
    if len(known) < LEAST_CALLS:
        return Unfit("few_calls")
    if len(lengths) < LEAST_LENGTHS or lengths[-1] < LEAST_SPREAD * lengths[0]:
        return Unfit("few_lengths")
    alone = [wait for wait in known if wait.company < ALONE]
    if len(alone) < LEAST_ALONE:
        return Unfit("few_alone")
    slowed = _slowed(known)
    if slowed is not None and slowed > most_slowed:
        return Unfit("slowed")
    curve = lower_envelope([_point(wait) for wait in known])
    if not curve.linear_ns and not curve.quadratic_ns:
        return Unfit("no_growth")
    near = _spread(_distances(known, alone))
    times = sorted(math.log(wait.token_ns) for wait in known if wait.token_ns)
    connects = [wait.connect_ns for wait in known if wait.connect_ns]
    return Fit(
        curve=curve,
        # Never above the curve alone: the shortest waits are prefills too.
        prefill=Factors(min(near.low, 1.0), near.likely, max(near.high, 1.0)),
        token_ns=_spread(times) if len(times) >= LEAST_TIMED else None,
        slowed=slowed,
        shortest=lengths[0],
        longest=lengths[-1],
        round_trip_ns=min(connects, default=None),
        calls=len(known),
        alone=len(alone),
    )


def _order(wait: Wait) -> tuple[float, ...]:
    return tuple(-1.0 if value is None else value for value in wait)


def _point(wait: Wait) -> Point:
    return Point(wait.uncached_tokens, wait.ns)


def _slowed(known: Sequence[Wait]) -> float | None:
    """How much longer a token takes in company, at least 1."""
    alone = [wait.token_ns for wait in known if wait.token_ns and wait.company < ALONE]
    company = [wait.token_ns for wait in known if wait.token_ns and wait.company >= ALONE]
    if min(len(alone), len(company)) < LEAST_ALONE:
        return None
    return max(1.0, statistics.median(company) / statistics.median(alone))


def _distances(known: Sequence[Wait], alone: Sequence[Wait]) -> list[float]:
    """Logarithms of the waits of calls that were alone, by a curve that does not know them."""
    found: list[float] = []
    folds = min(len(alone), _FOLDS)
    for fold in range(folds):
        left_out = alone[fold::folds]
        gone = set(map(id, left_out))
        curve = lower_envelope([_point(wait) for wait in known if id(wait) not in gone])
        found += [math.log(wait.ns / max(curve.at(wait.uncached_tokens), 1.0)) for wait in left_out]
    return sorted(found)


def _spread(logarithms: Sequence[float]) -> Factors:
    """Bounds and middle of one more value, from the logarithms of some, in their order."""
    middle, spread = statistics.fmean(logarithms), statistics.stdev(logarithms)
    reach = _student(len(logarithms) - 1) * spread * math.sqrt(1 + 1 / len(logarithms))
    # A hundred decades are enough to be useless, and not too many for a float.
    low, likely, high = (
        math.exp(min(max(value, -230.0), 230.0))
        for value in (middle - reach, statistics.median(logarithms), middle + reach)
    )
    return Factors(low, min(max(likely, low), high), high)


def _student(freedom: int) -> float:
    """The quantile of Student's distribution that bounds `CONFIDENCE` on both sides (Cornish-Fisher expansion)."""
    z = _Z
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _within(interval: Interval, most_ns: int) -> Interval:
    return Interval(*(min(bound, most_ns) for bound in interval))


def _interval(low: float, likely: float, high: float, most_ns: int) -> Interval:
    """In whole nanoseconds, in order, and no more than there is."""
    bounds = [min(max(round(value), 0), most_ns) for value in (low, likely, high)]
    return Interval(min(bounds), sorted(bounds)[1], max(bounds))
