"""Times between arrivals of tokens: quantiles, and a histogram that can be added to others."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import sub
from typing import Final, NamedTuple

BETWEEN: Final = "inter_token: "
"""How faults begin that the client finds in the times between tokens."""
HELD_BACK: Final = BETWEEN + "all tokens came at once, something on the way held them back"
READ_SLOWLY: Final = BETWEEN + "the program was slow to read"
STALLED: Final = BETWEEN + "tokens were held up on the way or by a busy program, and then came together"

_STEPS: Final = 8
"""Buckets in a doubling."""
LOWEST: Final = -80
"""Index of the lowest bucket, about a microsecond; shorter gaps count there."""
HIGHEST: Final = 345
"""Index of the bucket of the longest gap that 64 bits can hold."""
_NS_PER_MS: Final = 1e6
_BOUNDS_NS: Final = [int(2 ** (index / _STEPS) * _NS_PER_MS) for index in range(LOWEST, HIGHEST + 1)]


class Gaps(NamedTuple):
    """Of the gaps of one stream."""

    p50_ns: int
    p95_ns: int
    max_ns: int
    histogram: str
    """`index:count,...`: buckets of upper bound 2^(index/8) ms."""


def gaps_between(stamps: Sequence[int]) -> Gaps | None:
    """The gaps between stamps in order, or None if there are none."""
    gaps = sorted(map(sub, stamps[1:], stamps))
    if not gaps:
        return None
    count = len(gaps)
    buckets = []
    start = 0
    while start < count:
        place = bisect_left(_BOUNDS_NS, gaps[start])
        stop = bisect_right(gaps, _BOUNDS_NS[place], start)
        buckets.append(f"{place + LOWEST}:{stop - start}")
        start = stop
    return Gaps(_rank(gaps, 0.50), _rank(gaps, 0.95), gaps[-1], ",".join(buckets))


def _rank(ordered: list[int], share: float) -> int:
    """The smallest value with at least that share of all at or below it."""
    return ordered[math.ceil(share * len(ordered)) - 1]
