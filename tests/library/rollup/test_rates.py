"""Token rates of a call: what is counted, over which time, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spans import observed, reported, usage

from agentprof._gaps import HELD_BACK, READ_SLOWLY, STALLED
from agentprof.model import Call
from agentprof.rollup.phases import fill_phases
from agentprof.rollup.rates import Rates, rates

S = 1_000_000_000


def rates_of(duration_ns: int, **fields: Any) -> Rates:
    """The rates of a call of that length."""
    call = Call(**fields)
    return rates(call, fill_phases(call, duration_ns).segments)


def test_both_from_an_engine() -> None:
    """800 uncached tokens in 4 s; 40 after the first in 2 s."""
    phases = {"prefill": reported(4 * S), "generation": reported(2 * S)}
    found = rates_of(7 * S, phases=phases, usage=usage(1000, 41, cache_read=200))
    assert found == (200.0, 20.0)


def test_a_stream_that_nobody_splits_has_a_generation_rate() -> None:
    """10 tokens in the 4 s after the first; what comes before it is wait, not prefill."""
    assert rates_of(5 * S, first_token_ns=S, usage=usage(1000, 11, cache_read=0)) == (None, 2.5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"usage": None}, (None, None)),
        ({"usage": usage(1000, 41, cache_read=200, estimated=True)}, (None, None)),
        ({"usage": usage(1000, 41)}, (None, 20.0)),
        ({"usage": usage(1000, 1, cache_read=1000)}, (None, None)),
        ({"usage": usage(None, None, cache_read=0)}, (None, None)),
        ({"usage": usage(1000, 41, cache_read=1001)}, (None, 20.0)),
    ],
)
def test_unknown_tokens_are_no_rate(fields: dict[str, Any], expected: Rates) -> None:
    """Nor are estimated ones, nor those of a cache nobody reports on, nor one token alone."""
    phases = {"prefill": reported(4 * S), "generation": reported(2 * S)}
    assert rates_of(7 * S, phases=phases, **fields) == expected


@pytest.mark.parametrize(("fault", "on_our_clock"), [(READ_SLOWLY, None), (HELD_BACK, None), (STALLED, 10.0)])
def test_tokens_that_did_not_come_when_they_were_generated_are_no_rate(
    fault: str, on_our_clock: float | None
) -> None:
    """By the client's clock; the engine's own figure holds, and a stall between tokens is part of their time."""
    known = {"first_token_ns": S, "usage": usage(10, 41), "timing_faults": (fault,)}
    assert rates_of(5 * S, **known) == (None, on_our_clock)
    assert rates_of(5 * S, phases={"generation": reported(4 * S)}, **known) == (None, 10.0)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"first_token_ns": S, "stream_end": "abandoned"},
        {"first_token_ns": S, "stream_end": "truncated"},
        {"first_token_ns": 5 * S},
        {"first_token_ns": S, "first_content_ns": S, "usage": usage(10, 41, reasoning=30)},
    ],
)
def test_a_time_that_is_not_of_these_tokens_is_no_rate(fields: dict[str, Any]) -> None:
    """No first token, a stream left or cut, everything at the end, reasoning that was over before."""
    assert rates_of(5 * S, **{"usage": usage(10, 41), **fields}).generation_tokens_per_s is None


def test_reasoning_counts_where_it_was_seen_or_the_engine_timed_it() -> None:
    """Visible reasoning begins at the first token; a reported generation holds all of it."""
    thinking = usage(10, 41, reasoning=30)
    seen = rates_of(5 * S, first_token_ns=S, first_content_ns=3 * S, usage=thinking)
    assert seen.generation_tokens_per_s == 10.0
    timed = rates_of(5 * S, phases={"generation": reported(4 * S)}, usage=thinking)
    assert timed.generation_tokens_per_s == 10.0


def test_a_stream_passed_on_at_once_is_no_rate() -> None:
    """40 tokens in a millisecond: a proxy held them back; what the engine reports counts."""
    late = {"first_token_ns": 5 * S - 1_000_000, "usage": usage(10, 41)}
    assert rates_of(5 * S, **late).generation_tokens_per_s is None
    timed = rates_of(5 * S, phases={"generation": reported(2 * S)}, **late)
    assert timed.generation_tokens_per_s == 20.0


def test_a_prefill_of_the_client_clock_is_no_rate() -> None:
    """Only an engine knows when it began on the prompt."""
    assert rates_of(5 * S, phases={"prefill": observed(S)}, usage=usage(10, 2, cache_read=0))[0] is None


@given(
    st.integers(0, 10**12),
    st.none() | st.integers(0, 10**12),
    st.none() | st.integers(0, 10**7),
    st.none() | st.integers(0, 10**7),
    st.dictionaries(
        st.sampled_from(["queue", "prefill", "generation"]), st.integers(0, 10**12).map(reported)
    ),
)
def test_a_rate_is_positive_or_unknown(
    duration: int, first_token: int | None, tokens: int | None, cached: int | None, phases: Any
) -> None:
    """Whatever comes."""
    found = rates_of(
        duration, first_token_ns=first_token, phases=phases, usage=usage(tokens, tokens, cache_read=cached)
    )
    assert all(rate is None or rate >= 0 for rate in found)
