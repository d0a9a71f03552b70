"""Energy by the rates of agentprof.yaml: by token, by second, and when there is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spans import call, failed, reported, usage

from agentprof.config import parse_config
from agentprof.model import Energy, Phase, Span
from agentprof.pricing import Pricer

SECOND = 10**9
TOKENS = """
energy:
  - model: llama-*
    boundary: gpu
    j_per_input_token: 0.02
    j_per_cached_token: [0.001, 0.002]
    j_per_output_token: [0.3, 1.1]
"""
WATTS = """
energy:
  - {server: gpu1, boundary: server, busy_watts: [250, 700]}
"""


def energy_of(config: str, span: Span) -> Energy | None:
    """What the pricer finds; it changes nothing else."""
    found = Pricer(parse_config(config), formula=False).price(span)
    assert found.call is not None
    return found.call.energy


def joules(config: str, span: Span) -> tuple[float, float] | None:
    """The interval in joules."""
    energy = energy_of(config, span)
    return None if energy is None else (energy.low_uj / 1e6, energy.high_uj / 1e6)


def test_tokens_times_rates() -> None:
    """800 uncached at 0.02, 200 cached at 0.001 to 0.002, 100 generated at 0.3 to 1.1."""
    span = call("c", 0, SECOND, model="llama-8b", usage=usage(1000, 100, cache_read=200))
    assert joules(TOKENS, span) == (16 + 0.2 + 30, 16 + 0.4 + 110)
    energy = energy_of(TOKENS, span)
    assert energy is not None
    assert (energy.source, energy.boundary, energy.covers) == ("config", "gpu", "tokens")
    assert energy.basis == parse_config(TOKENS).energy_version


def test_unreported_cache_reads_widen_the_interval() -> None:
    """Of 1000 tokens all or none may have been read from the cache: 1 to 20 joules, beside 30 to 110."""
    span = call("c", 0, SECOND, model="llama-8b", usage=usage(1000, 100))
    assert joules(TOKENS, span) == (31, 130)


def test_cached_tokens_without_a_rate_cost_from_nothing_to_all() -> None:
    """Nobody says how much of their work was saved."""
    config = "energy: [{model: m, boundary: gpu, j_per_input_token: [0.01, 0.02]}]"
    span = call("c", 0, SECOND, usage=usage(1000, 5, cache_read=400))
    assert joules(config, span) == (6, 20)
    energy = energy_of(config, span)
    assert energy is not None
    assert energy.covers == "input tokens"


def test_output_alone_says_so() -> None:
    """A single rate is an interval of no width."""
    config = "energy: [{provider: vllm, boundary: facility, j_per_output_token: 2.5}]"
    energy = energy_of(config, call("c", 0, SECOND, provider="vLLM", usage=usage(None, 40)))
    assert energy == Energy(
        low_uj=100_000_000,
        high_uj=100_000_000,
        source="config",
        boundary="facility",
        covers="output tokens",
        basis=parse_config(config).energy_version,
    )


@pytest.mark.parametrize("counts", [None, usage(10, None), usage(None, 10)])
def test_what_was_not_counted_has_no_energy(counts: object) -> None:
    """Unknown is not 0, and half of it is not all."""
    assert energy_of(TOKENS, call("c", 0, SECOND, model="llama-8b", usage=counts)) is None


def test_no_entry_no_energy() -> None:
    """Neither without rates, nor where no entry is for the call."""
    span = call("c", 0, SECOND, model="gpt-4o", usage=usage(10, 10))
    assert energy_of("", span) is None
    assert energy_of(TOKENS, span) is None


def test_seconds_in_which_a_call_is_worked_on() -> None:
    """5 s with 1 s failed, 0.5 s pause, 1 s queue and 0.5 s of the client: 2 s at 250 to 700 watts."""
    span = call(
        "c",
        0,
        5 * SECOND,
        server="GPU1:8000",
        attempts=2,
        failed_attempts=(failed(SECOND, SECOND // 2),),
        phases={"queue": reported(SECOND), "prefill": reported(SECOND), "client": reported(SECOND // 2)},
    )
    assert joules(WATTS, span) == (500, 1400)
    energy = energy_of(WATTS, span)
    assert energy is not None
    assert (energy.boundary, energy.covers) == ("server", "busy time")


@pytest.mark.parametrize("queue", [{}, {"queue": reported(SECOND // 10)}], ids=["untold", "told in part"])
def test_a_queue_that_is_not_told_is_no_work_where_all_work_is(queue: dict[str, Phase]) -> None:
    """llama.cpp's whole answers, and vLLM whose queue starts late: 5 s, of which it was worked on for 2."""
    work = {"prefill": reported(SECOND), "generation": reported(SECOND)}
    span = call("c", 0, 5 * SECOND, server="gpu1", queue_starts_late=bool(queue), phases=queue | work)
    assert joules(WATTS, span) == (500, 1400)


@pytest.mark.parametrize(
    "span",
    [
        call("c", 0, None, server="gpu1"),
        call("c", 0, SECOND, server="gpu1", service_tier="batch"),
        call("c", 0, SECOND, server="gpu1", attempts=1, failed_attempts=(failed(SECOND),)),
    ],
)
def test_seconds_nobody_knows(span: Span) -> None:
    """No end, a result of a batch, or no attempt that succeeded."""
    assert energy_of(WATTS, span) is None


def test_the_first_entry_that_fits_holds_and_what_is_stamped_stays() -> None:
    """Rates that change later change nothing that was stored."""
    config = """
energy:
  - {server: gpu1, model: big, boundary: gpu, j_per_output_token: 3}
  - {server: gpu1, boundary: gpu, j_per_output_token: 1}
"""
    span = call("c", 0, SECOND, server="gpu1", model="big", usage=usage(0, 10))
    pricer = Pricer(parse_config(config), formula=False)
    stamped = pricer.price(span)
    assert stamped.call is not None
    assert stamped.call.energy is not None
    assert stamped.call.energy.low_uj == 30_000_000
    later = Pricer(parse_config(config.replace("3", "9")), formula=False)
    again = later.price(stamped)
    assert again.call is not None
    assert again.call.energy == stamped.call.energy


@given(
    st.decimals(0, 1000, places=9),
    st.decimals(0, 1000, places=9),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.one_of(st.none(), st.integers(0, 10**6)),
)
def test_low_is_never_above_high(
    one: object, other: object, tokens_in: int, tokens_out: int, cached: int | None
) -> None:
    """Also where a provider counts more cache reads than input; whole microjoules hold the exact interval."""
    low, high = sorted((one, other))  # type: ignore[type-var]
    config = f"""
energy:
  - model: m
    boundary: gpu
    j_per_input_token: [{low}, {high}]
    j_per_output_token: [{low}, {high}]
"""
    span = call("c", 0, 1, usage=usage(tokens_in, tokens_out, cache_read=cached))
    energy = energy_of(config, span)
    assert energy is not None
    assert 0 <= energy.low_uj <= energy.high_uj
    assert energy.high_uj >= high * tokens_out * 10**6  # type: ignore[operator]
    assert energy.low_uj <= low * (tokens_in + tokens_out) * 10**6  # type: ignore[operator]
