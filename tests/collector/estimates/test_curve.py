"""The shortest wait by length: what is fitted, and that order and scale are of no account."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof_collector.estimates.curve import Curve, Point, lower_envelope

points = st.lists(st.builds(Point, st.integers(1, 200_000), st.integers(1, 10**12)), min_size=1, max_size=40)


def test_points_on_a_curve_give_that_curve() -> None:
    """50 ms, 2 ms a token, 500 ns a token squared."""
    true = Curve(5e7, 2e6, 500.0)
    found = lower_envelope([Point(tokens, round(true.at(tokens))) for tokens in range(50, 4000, 50)])
    for tokens in (50, 1000, 3950):
        assert found.at(tokens) == pytest.approx(true.at(tokens), rel=0.01)


def test_queues_do_not_lift_the_curve() -> None:
    """Two of three calls wait up to a minute longer; least squares would be off by many times."""
    dice = random.Random(4)
    true = Curve(5e7, 2e6, 500.0)
    seen = [
        Point(tokens, round(true.at(tokens) + (dice.random() * 6e10 if dice.random() < 0.67 else 0)))
        for tokens in (dice.randrange(50, 4000) for _ in range(200))
    ]
    found = lower_envelope(seen)
    for tokens in (100, 1000, 3500):
        assert found.at(tokens) == pytest.approx(true.at(tokens), rel=0.1)


def test_one_length_is_a_constant() -> None:
    """No slope is made up."""
    found = lower_envelope([Point(100, 10**9)] * 5)
    assert found.at(100) == pytest.approx(1e9)


def test_no_points() -> None:
    """There is no curve."""
    with pytest.raises(ValueError, match="needs points"):
        lower_envelope([])


@given(points, st.randoms())
def test_order_is_of_no_account(seen: list[Point], dice: random.Random) -> None:
    """The same points give the same curve, to the last bit."""
    mixed = seen[:]
    dice.shuffle(mixed)
    assert lower_envelope(mixed) == lower_envelope(seen)


@given(points)
def test_never_negative_and_never_falling(seen: list[Point]) -> None:
    """Whatever comes, and between the points too."""
    curve = lower_envelope(seen)
    assert min(curve) >= 0
    times = [curve.at(tokens) for tokens in range(0, 200_000, 5_000)]
    assert times == sorted(times)
