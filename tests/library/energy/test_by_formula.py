"""Energy by EcoLogits' formula, with the real package."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from support.spans import call, failed, usage

from agentprof.config import parse_config
from agentprof.model import Energy, Span
from agentprof.pricing import Pricer

pytest.importorskip("ecologits", reason="the formula needs the extra `energy`")

SECOND = 10**9


def energy_of(span: Span, config: str = "") -> Energy | None:
    """What the pricer finds."""
    found = Pricer(parse_config(config)).price(span)
    assert found.call is not None
    return found.call.energy


def joules(
    active: float,
    total: float,
    tokens: int,
    latency_s: float,
    pue: float,
    tps: float | None,
    ttft: float | None,
) -> float:
    """The published formula, written down again: 64 requests at once on GPUs of 80 GB, 8 in a server of 1.2 kW."""
    gpus = 2 ** math.ceil(math.log2(math.ceil(1.2 * total * 16 / 8 / 80)))
    per_token_s = (
        1 / tps if tps else 6.785088094353663e-4 * active + 3.119310311688259e-4 * 64 + 0.019473717579473387
    )
    seconds = min(latency_s, tokens * per_token_s + (ttft or 0))
    server_wh = seconds / 3600 * 1200 * gpus / 8 / 64
    gpu_wh = (
        gpus
        * tokens
        * (1.1665273170451914e-06 * math.exp(-0.011205921025579175 * 64) * active + 4.052928146734005e-05)
    )
    return 3600 * pue * (server_wh + gpu_wh)


def test_a_closed_model_is_a_range_of_its_parameters() -> None:
    """gpt-4o: 440 billion parameters, 44 to 132 billion active; output tokens only, whole data centre."""
    from ecologits.model_repository import models

    model = models.find_model("openai", "gpt-4o")
    assert model is not None
    size, speed = model.architecture.parameters, model.deployment
    assert (size.total, size.active.min, size.active.max) == (440, 44, 132)
    span = call("c", 0, 5 * SECOND, provider="openai", model="gpt-4o", usage=usage(100_000, 400))
    energy = energy_of(span)
    assert energy is not None
    low, high = (joules(active, 440, 400, 5.0, 1.2, speed.tps, speed.ttft) for active in (44, 132))
    assert energy.low_uj == pytest.approx(low * 1e6, abs=2)
    assert energy.high_uj == pytest.approx(high * 1e6, abs=2)
    assert (energy.source, energy.boundary, energy.covers) == ("ecologits", "facility", "output tokens")
    assert (energy.basis or "").startswith("ecologits ")


def test_the_time_of_the_server_is_that_of_the_last_attempt() -> None:
    """A quick answer bounds the time of the server; pauses and failed attempts are not its time."""
    quick = call("c", 0, SECOND, provider="openai", model="gpt-4o", usage=usage(1, 400))
    retried = call(
        "c",
        0,
        9 * SECOND,
        provider="openai",
        model="gpt-4o",
        usage=usage(1, 400),
        attempts=2,
        failed_attempts=(failed(3 * SECOND, 5 * SECOND),),
    )
    slow = call("c", 0, 60 * SECOND, provider="openai", model="gpt-4o", usage=usage(1, 400))
    assert energy_of(quick) == energy_of(retried)
    found, longest = energy_of(quick), energy_of(slow)
    assert found is not None
    assert longest is not None
    assert found.low_uj < longest.low_uj


def test_names_are_matched_as_prices_are() -> None:
    """Spellings of conventions, and of the cloud that runs a vendor's models."""
    for provider in ("azure.ai.openai", "openai"):
        assert (
            energy_of(call("c", 0, SECOND, provider=provider, model="gpt-4o", usage=usage(1, 4))) is not None
        )
    for provider, model in (("vllm", "gpt-4o"), ("openai", "nobody-knows"), ("groq", "gpt-4o"), (None, "x")):
        assert energy_of(call("c", 0, SECOND, provider=provider, model=model, usage=usage(1, 4))) is None


def test_unknown_output_has_no_energy() -> None:
    """Unknown is not 0."""
    assert energy_of(call("c", 0, SECOND, provider="openai", model="gpt-4o", usage=usage(9, None))) is None


def test_rates_of_ones_own_come_first() -> None:
    """Where an entry is for the call the formula is not asked, also if the entry's tokens were not counted."""
    config = "energy: [{model: gpt-4o, boundary: gpu, j_per_input_token: 1, j_per_output_token: 1}]"
    counted = energy_of(call("c", 0, 9, provider="openai", model="gpt-4o", usage=usage(3, 4)), config)
    assert counted is not None
    assert (counted.source, counted.low_uj, counted.high_uj) == ("config", 4_000_000, 7_000_000)
    assert energy_of(call("c", 0, 9, provider="openai", model="gpt-4o", usage=usage(None, 4)), config) is None


def test_it_is_imported_when_a_call_needs_it_and_not_before() -> None:
    """Neither with the library, nor with its pricing, nor by a call of a provider it does not know."""
    program = """
import sys, agentprof
agentprof.instrument()
from agentprof.model import Call, Span, Usage
from agentprof.pricing import Pricer
pricer = Pricer()
def price(provider):
    said = Call(model="gpt-4o", provider=provider, usage=Usage(input=1, output=2))
    return pricer.price(Span(trace_id="a", span_id="b", start_ns=0, end_ns=9, kind="model", call=said))
price("vllm")
print("ecologits" in sys.modules)
print(price("openai").call.energy is not None, "ecologits" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
    assert done.stderr == ""
