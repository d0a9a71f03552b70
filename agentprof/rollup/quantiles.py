"""Quantiles by nearest rank: always a value that occurred."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from agentprof.summary import Quantiles

_T = TypeVar("_T")

P99_SAMPLES = 100
"""Below this many samples a 99th percentile is not given."""


def nearest_rank(ordered: Sequence[_T], share: float) -> _T:
    """The smallest value that at least `share` of the samples do not exceed; `ordered` ascends."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def quantiles(samples: Sequence[int]) -> Quantiles | None:
    """p50, p95, p99 and max; None without samples, no p99 under 100 of them."""
    if not samples:
        return None
    ordered = sorted(samples)
    return {
        "p50": nearest_rank(ordered, 0.50),
        "p95": nearest_rank(ordered, 0.95),
        "p99": nearest_rank(ordered, 0.99) if len(ordered) >= P99_SAMPLES else None,
        "max": ordered[-1],
    }


def histogram_quantiles(buckets: Mapping[int, int], max_ns: int | None) -> Quantiles | None:
    """The same from counts by bucket of upper bound 2^(index/8) ms: upper bounds, at most 9 % too high."""
    total = sum(buckets.values())
    if total == 0:
        return None

    def bound(share: float) -> int:
        rank, seen = max(1, math.ceil(share * total)), 0
        for index in sorted(buckets):
            seen += buckets[index]
            if seen >= rank:
                return _capped(index, max_ns)
        return _capped(max(buckets), max_ns)

    return {
        "p50": bound(0.50),
        "p95": bound(0.95),
        "p99": bound(0.99) if total >= P99_SAMPLES else None,
        "max": max_ns if max_ns is not None else bound(1.0),
    }


def _capped(index: int, max_ns: int | None) -> int:
    upper = round(2 ** (index / 8) * 1e6)
    return upper if max_ns is None else min(upper, max_ns)
