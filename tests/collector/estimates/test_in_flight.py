"""Mean number of calls in flight, against counting every moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof_collector.estimates.in_flight import InFlight


def test_two_calls_that_overlap_by_half() -> None:
    """Alone for half of it, two for the other half."""
    running = InFlight([(0, 10), (5, 15)])
    assert running.mean(0, 10) == 1.5
    assert running.mean(5, 10) == 2.0
    assert running.mean(0, 20) == 1.0
    assert running.mean(12, 20) == pytest.approx(3 / 8)


def test_a_moment_counts_what_runs_on() -> None:
    """What ends there is over, what begins there has begun."""
    running = InFlight([(0, 10), (10, 20), (10, 30)])
    assert [running.mean(at, at) for at in (-1, 0, 9, 10, 20, 30)] == [0.0, 1.0, 1.0, 2.0, 1.0, 0.0]


def test_without_calls_nothing_runs() -> None:
    """Nor with calls that took no time or ended before they began."""
    assert InFlight([]).mean(0, 10) == 0.0
    assert InFlight([(5, 5), (7, 3)]).mean(0, 10) == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12),
    st.integers(-5, 35),
    st.integers(1, 20),
)
def test_as_counted_moment_by_moment(calls: list[tuple[int, int]], start: int, length: int) -> None:
    """Any calls, any stretch, any order."""
    expected = sum(begin <= at < end for at in range(start, start + length) for begin, end in calls) / length
    assert InFlight(calls).mean(start, start + length) == pytest.approx(expected)
    assert InFlight(calls[::-1]).mean(start, start + length) == InFlight(calls).mean(start, start + length)
