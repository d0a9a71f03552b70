"""Copies of a span become one, whatever they hold."""

from __future__ import annotations

import itertools

from support.spans import call, reported

from agentprof.model import Span
from agentprof.rollup.copies import without_copies


def stream(**fields: object) -> Span:
    """A call whose tokens were watched."""
    known = {"inter_token_histogram": {3: 5, 12: 1}, "phases": {"queue": reported(5)}} | fields
    return call("c", 1, 9, **known)


def test_a_span_that_came_twice_is_one() -> None:
    """Also one that holds a histogram, whose keys are numbers."""
    assert without_copies([stream(), stream()]) == [stream()]


def test_of_equal_ones_the_smaller_encoding_holds_in_any_order() -> None:
    """So that the summary is the same whichever came first."""
    spans = [stream(inter_token_histogram={at: 1, 30: 2}) for at in (12, 3, 20)]
    (first, *others) = (without_copies(order) for order in itertools.permutations(spans))
    assert len(first) == 1
    assert all(found == first for found in others)


def test_the_fuller_one_holds() -> None:
    """Ended, then later, then with more attributes."""
    started, ended = call("c", 1, None), call("c", 1, 8)
    later, fuller = call("c", 1, 9), call("c", 1, 9, attributes_count=5)
    for order in itertools.permutations([started, ended, later, fuller]):
        assert without_copies(order) == [fuller]
