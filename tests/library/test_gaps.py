"""Gaps between tokens."""

import math
import random

from agentprof._gaps import gaps_between


def test_no_gap() -> None:
    """One arrival has no gaps."""
    assert gaps_between([5]) is None
    assert gaps_between([]) is None


def test_quantiles() -> None:
    """Of gaps of 1 to 100 ms the median is 50 ms, p95 95 ms, the largest 100 ms."""
    stamps = [0]
    for ms in range(1, 101):
        stamps.append(stamps[-1] + ms * 1_000_000)
    gaps = gaps_between(stamps)
    assert gaps is not None
    assert gaps[:3] == (50_000_000, 95_000_000, 100_000_000)


def test_histogram_counts_every_gap_once() -> None:
    """Each gap is in the bucket whose bounds hold it: index = ceil(8 log2(ms)), never below -80."""
    chance = random.Random(7)
    lengths = [round(10 ** chance.uniform(0, 10)) for _ in range(500)] + [0, 1_000_000, 2_000_000, 8_000_000]
    stamps = [0]
    for length in lengths:
        stamps.append(stamps[-1] + length)
    gaps = gaps_between(stamps)
    assert gaps is not None
    expected: dict[int, int] = {}
    for length in lengths:
        index = max(-80, math.ceil(8 * math.log2(length / 1e6))) if length else -80
        expected[index] = expected.get(index, 0) + 1
    found = dict(tuple(map(int, bucket.split(":"))) for bucket in gaps.histogram.split(","))
    assert found == expected
    assert list(found) == sorted(found)
    assert {0, 8, 24} <= set(found)
