"""Times between arrivals of tokens: quantiles, and a histogram that can be added to others."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

_STEPS: Final = 8
"""Buckets in a doubling."""
_LOWEST: Final = -80
"""Index of the lowest bucket, about a microsecond; shorter gaps count there."""
_NS_PER_MS: Final = 1e6


class Gaps(NamedTuple):
    """Of the gaps of one stream."""

    p50_ns: int
    p95_ns: int
    max_ns: int
    histogram: str
    """`index:count,...`: buckets of upper bound 2^(index/8) ms."""


def gaps_between(stamps: Sequence[int]) -> Gaps | None:
    """The gaps between stamps in order, or None if there are none."""
    gaps = sorted([later - earlier for earlier, later in pairwise(stamps)])
    if not gaps:
        return None
    count = len(gaps)
    buckets = []
    start = 0
    while start < count:
        index = _index(gaps[start])
        stop = bisect_right(gaps, int(2 ** (index / _STEPS) * _NS_PER_MS), start)
        buckets.append(f"{index}:{max(stop, start + 1) - start}")
        start = max(stop, start + 1)
    return Gaps(_rank(gaps, 0.50), _rank(gaps, 0.95), gaps[-1], ",".join(buckets))


def _index(gap_ns: int) -> int:
    if gap_ns <= 0:
        return _LOWEST
    return max(_LOWEST, math.ceil(_STEPS * math.log2(gap_ns / _NS_PER_MS)))


def _rank(ordered: list[int], share: float) -> int:
    """The smallest value with at least that share of all at or below it."""
    return ordered[math.ceil(share * len(ordered)) - 1]
