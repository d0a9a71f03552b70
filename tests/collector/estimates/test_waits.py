"""Waits divided into queue and prefill: values of a made-up engine, refusals, and what always holds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof_collector.estimates.waits import Fit, Interval, Unfit, Wait, Whole, fit

MS = 1_000_000


def prefill_ns(tokens: int) -> float:
    """Of the made-up engine: 2 ms a token."""
    return tokens * 2.0 * MS


def engine(calls: int = 200, *, queued: float = 0.5, seed: int = 7, slowed: float = 1.0) -> list[Wait]:
    """Half of the calls meet a queue and company; a prefill varies by 5 %."""
    dice = random.Random(seed)
    waits = []
    for at in range(calls):
        tokens = dice.randrange(100, 3000)
        company = 3.0 if dice.random() < queued else 0.0
        queue = dice.uniform(100, 9000) * MS if company else 0.0
        took = prefill_ns(tokens) * dice.lognormvariate(0, 0.05)
        token_ns = 20.0 * MS * (slowed if company else 1.0) * dice.lognormvariate(0, 0.1)
        waits.append(Wait(at, round(took + queue), tokens, company, token_ns))
    return waits


def fitted(waits: list[Wait]) -> Fit:
    """The fit, which there must be."""
    found = fit(waits)
    assert isinstance(found, Fit), found
    return found


def test_a_queue_and_a_prefill() -> None:
    """1,000 tokens take 2 s; of a wait of 7 s five were queue, give or take the noise of a prefill."""
    found = fitted(engine())
    division = found.divide(Wait(999, 7_000 * MS, 1000, 3.0, None))
    assert not isinstance(division, Unfit)
    assert division.queue.low_ns < 5_000 * MS < division.queue.high_ns
    assert division.prefill.low_ns < 2_000 * MS < division.prefill.high_ns
    assert division.queue.likely_ns == pytest.approx(5_000 * MS, rel=0.1)
    assert division.prefill.high_ns - division.prefill.low_ns < 1_000 * MS
    assert division.network is None
    assert (found.calls, found.shortest >= 100, found.longest < 3000) == (200, True, True)


def test_nine_of_ten_intervals_hold_the_truth() -> None:
    """Calls that the fit has not seen, of the same engine."""
    found = fitted(engine())
    dice = random.Random(1)
    held = 0
    for _ in range(500):
        tokens = dice.randrange(100, 3000)
        took = prefill_ns(tokens) * dice.lognormvariate(0, 0.05)
        division = found.divide(Wait(0, round(took + 4_000 * MS), tokens, 3.0, None))
        assert not isinstance(division, Unfit)
        held += division.queue.low_ns <= 4_000 * MS <= division.queue.high_ns
    assert held >= 450


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_where_others_queue_unseen_the_intervals_grow_and_hold(share: float) -> None:
    """Calls that were alone waited for others too: less is called a queue, but what is called one was one."""
    dice = random.Random(5)
    seen: list[tuple[Wait, float]] = []
    for at in range(300):
        tokens = round(10 ** dice.uniform(2, 4))
        queue = dice.expovariate(1 / 3000) * MS if dice.random() < share else 0.0
        took = (120 * MS + prefill_ns(tokens) / 10) * dice.lognormvariate(0, 0.1)
        seen.append((Wait(at, round(took + queue), tokens, dice.choice([0.0, 2.0]), 12.0 * MS), queue))
    found = fitted([wait for wait, _ in seen[:200]])
    divisions = [(found.divide(wait), queue) for wait, queue in seen[200:]]
    held = [
        division.queue.low_ns <= queue <= division.queue.high_ns
        for division, queue in divisions
        if not isinstance(division, Unfit)
    ]
    assert len(held) > 90
    assert sum(held) >= 0.9 * len(held)
    assert found.prefill.high > 2 * fitted(engine()).prefill.high


def test_a_wait_as_short_as_a_prefill_has_no_queue() -> None:
    """Its queue reaches down to 0; both sum to the wait at every bound."""
    wait = Wait(999, 2_000 * MS, 1000, 0.0, None)
    division = fitted(engine()).divide(wait)
    assert not isinstance(division, Unfit)
    assert division.queue.low_ns == 0
    assert division.queue.low_ns + division.prefill.high_ns == wait.ns
    assert division.queue.high_ns + division.prefill.low_ns == wait.ns


def test_a_call_in_one_piece() -> None:
    """1,000 tokens in take 2 s and 101 out another 2 s; of 9 s five were queue."""
    division = fitted(engine()).divide_whole(Whole(9_000 * MS, 1000, 101, 3.0))
    assert not isinstance(division, Unfit)
    assert division.generation is not None
    assert division.queue.low_ns < 5_000 * MS < division.queue.high_ns
    assert division.prefill.low_ns < 2_000 * MS < division.prefill.high_ns
    assert division.generation.low_ns < 2_000 * MS < division.generation.high_ns
    assert division.queue.likely_ns == pytest.approx(5_000 * MS, rel=0.1)
    assert division.generation.likely_ns == pytest.approx(2_000 * MS, rel=0.1)


def test_the_parts_of_a_call_in_one_piece_leave_room_for_each_other() -> None:
    """A short call: no part is longer than what the shortest others leave of it."""
    whole = Whole(3_000 * MS, 1000, 101, 0.0)
    division = fitted(engine()).divide_whole(whole)
    assert not isinstance(division, Unfit)
    assert division.generation is not None
    assert division.queue.low_ns == 0
    assert division.prefill.high_ns + division.generation.low_ns <= whole.ns
    assert division.prefill.low_ns + division.generation.high_ns <= whole.ns
    assert division.queue.high_ns == whole.ns - division.prefill.low_ns - division.generation.low_ns


def test_a_call_in_one_piece_needs_the_times_of_streamed_ones() -> None:
    """Ten of them, and a prompt like theirs."""
    few = fitted(
        [wait._replace(token_ns=wait.token_ns if at < 9 else None) for at, wait in enumerate(engine())]
    )
    assert few.token_ns is None
    assert few.divide_whole(Whole(9_000 * MS, 1000, 101, 0.0)) == Unfit("few_timed")
    assert few.divide_whole(Whole(9_000 * MS, 9000, 101, 0.0)) == Unfit("other_length")


def test_calls_that_slow_each_other_widen_the_interval_and_then_end_it() -> None:
    """Half as fast again: prefills may be slower too. Three times slower: no queue can be told."""
    wait = Wait(999, 9_000 * MS, 1000, 3.0, None)
    at_once, slower = (fitted(engine(slowed=by)).divide(wait) for by in (1.0, 1.5))
    assert not isinstance(at_once, Unfit)
    assert not isinstance(slower, Unfit)
    assert slower.prefill.high_ns == pytest.approx(1.5 * at_once.prefill.high_ns, rel=0.1)
    assert slower.prefill.low_ns == at_once.prefill.low_ns
    assert fit(engine(slowed=3.0)) == Unfit("slowed")


def test_the_round_trip_is_no_longer_than_the_shortest_connect() -> None:
    """From none to that."""
    waits = [wait._replace(connect_ns=(30 + at) * MS) for at, wait in enumerate(engine())]
    division = fitted(waits).divide(waits[0])
    assert not isinstance(division, Unfit)
    assert division.network == Interval(0, 15 * MS, 30 * MS)


@pytest.mark.parametrize(
    ("waits", "reason"),
    [
        ([], "few_calls"),
        (engine(19), "few_calls"),
        ([wait._replace(ns=0) for wait in engine()], "few_calls"),
        ([wait._replace(uncached_tokens=0) for wait in engine()], "few_calls"),
        ([wait._replace(uncached_tokens=1000) for wait in engine()], "few_lengths"),
        ([wait._replace(uncached_tokens=1000 + at % 900) for at, wait in enumerate(engine())], "few_lengths"),
        (engine(queued=1.0), "few_alone"),
        ([wait._replace(ns=1_000_000_000 // wait.uncached_tokens) for wait in engine()], "no_growth"),
    ],
)
def test_what_cannot_be_told_is_not_estimated(waits: list[Wait], reason: str) -> None:
    """Each with its reason."""
    assert fit(waits) == Unfit(reason)  # type: ignore[arg-type]


def test_only_prompts_like_those_that_were_seen() -> None:
    """A tenth shorter and a quarter longer at most."""
    found = fitted(engine())
    for tokens in (0, 50, 5000):
        assert found.divide(Wait(0, 9_000 * MS, tokens, 0.0, None)) == Unfit("other_length")


def test_without_times_per_token_only_calls_that_were_alone() -> None:
    """Nobody knows whether company slows the others."""
    found = fitted([wait._replace(token_ns=None) for wait in engine()])
    assert found.slowed is None
    assert found.divide(Wait(0, 9_000 * MS, 1000, 3.0, None)) == Unfit("company_unknown")
    assert not isinstance(found.divide(Wait(0, 9_000 * MS, 1000, 0.0, None)), Unfit)


def test_the_latest_calls_count() -> None:
    """An endpoint that became five times slower: what was before is forgotten."""
    early = engine(500)
    late = [wait._replace(start_ns=wait.start_ns + 1000, ns=wait.ns * 5) for wait in engine(500)]
    assert fit(early + late) == fit(late)


waits = st.lists(
    st.builds(
        Wait,
        st.integers(0, 10**18),
        st.integers(0, 10**13),
        st.integers(0, 10**6),
        st.sampled_from([0.0, 0.1, 1.0, 40.0]),
        st.none() | st.floats(0, 1e10),
        st.none() | st.integers(0, 10**9),
    ),
    min_size=20,
    max_size=40,
)


@given(waits, st.randoms())
def test_whatever_comes(some: list[Wait], dice: random.Random) -> None:
    """Any order gives the same; bounds are in order, never negative, and no more than the wait."""
    mixed = some[:]
    dice.shuffle(mixed)
    found = fit(some)
    assert fit(mixed) == found
    if isinstance(found, Unfit):
        return
    for wait in some:
        division = found.divide(wait)
        if isinstance(division, Unfit):
            continue
        whole = found.divide_whole(Whole(wait.ns, wait.uncached_tokens, 50, wait.company))
        for one in (division, whole):
            if isinstance(one, Unfit):
                continue
            for interval in filter(None, one):
                assert 0 <= interval.low_ns <= interval.likely_ns <= interval.high_ns <= wait.ns
