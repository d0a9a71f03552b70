"""From spans as sent to the energy of their task: who finds it, what wins, and what the summary says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind
from support.model_server import CHAT, ModelServer, Reply
from support.spans import TASK, call, task, usage

import agentprof
from agentprof import attributes as a
from agentprof._priced import priced
from agentprof._readable import to_raw
from agentprof._render import as_text
from agentprof._task import _pricer_by
from agentprof.config import parse_config
from agentprof.model import Energy, Span
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up
from agentprof.rollup.many import group
from agentprof.summary import EnergyRow, TaskSummary
from agentprof.testing import capture
from agentprof.vocabularies import normalise

SECOND = 10**9
RATES = "energy: [{model: m, boundary: gpu, j_per_output_token: [0.5, 2]}]"
PROGRAM = Pricer(parse_config(RATES), formula=False)
COLLECTOR = Pricer(parse_config("energy: [{model: '*o*', provider: '*', boundary: server, busy_watts: 100}]"))


def ended(**more: Any) -> ReadableSpan:
    """A call of ours as the export worker gets it: 2 seconds, 40 tokens out."""
    said = {
        a.OPERATION: "chat",
        a.RESPONSE_MODEL: "m",
        a.INPUT_TOKENS: 1000,
        a.OUTPUT_TOKENS: 40,
        a.ATTEMPTS: 1,
        **more,
    }
    return ReadableSpan(
        "chat m",
        context=SpanContext(1, 2, is_remote=False),
        attributes=said,
        kind=SpanKind.CLIENT,
        start_time=SECOND,
        end_time=3 * SECOND,
        instrumentation_scope=InstrumentationScope("agentprof"),
    )


def energy(low_uj: int, high_uj: int, **more: Any) -> Energy:
    return Energy(
        **{"low_uj": low_uj, "high_uj": high_uj, "source": "config", "boundary": "gpu", "covers": "tokens"}
        | more
    )


def summary_of(*calls: Span) -> TaskSummary:
    return roll_up(TASK, [task("root", 0, 100), *calls])


def test_the_program_stamps_its_calls_and_the_collector_leaves_them() -> None:
    """20 to 80 joules by the program's rates, as attributes that read back to the same, whatever others know."""
    sent = priced(ended(), PROGRAM)
    said = sent.attributes or {}
    assert (said[a.ENERGY_LOW], said[a.ENERGY_HIGH]) == (20.0, 80.0)
    assert (said[a.ENERGY_SOURCE], said[a.ENERGY_BOUNDARY]) == ("config", "gpu")
    stored = COLLECTOR.price(normalise(to_raw(sent))).call
    assert stored is not None
    assert stored.energy == Energy(
        low_uj=20_000_000,
        high_uj=80_000_000,
        source="config",
        boundary="gpu",
        covers="output tokens",
        basis=parse_config(RATES).energy_version,
    )
    assert priced(sent, PROGRAM) is sent


def test_without_rates_nothing_is_stamped() -> None:
    """Neither by a program without rates, nor of a call for which there is none."""
    for config in ("", RATES):
        pricer = Pricer(parse_config(config), formula=False)
        said = priced(ended(**{a.RESPONSE_MODEL: "other"}), pricer).attributes or {}
        assert not [name for name in said if name.startswith("agentprof.energy")]


def test_what_is_sent_is_an_interval_of_a_known_kind_or_nothing() -> None:
    """Anyone may send attributes."""
    whole = {
        a.ENERGY_LOW: 1.0,
        a.ENERGY_HIGH: 2.0,
        a.ENERGY_SOURCE: "config",
        a.ENERGY_BOUNDARY: "gpu",
        a.ENERGY_COVERS: "tokens",
    }
    wrong: list[dict[str, Any]] = [
        {a.ENERGY_LOW: 3.0},
        {a.ENERGY_LOW: -1.0},
        {a.ENERGY_HIGH: float("nan")},
        {a.ENERGY_HIGH: 1e300},
        {a.ENERGY_HIGH: None},
        {a.ENERGY_SOURCE: "measured"},
        {a.ENERGY_BOUNDARY: ""},
    ]
    found = [normalise(to_raw(ended(**whole | changed))).call for changed in ({}, *wrong)]
    assert [call is not None and call.energy is not None for call in found] == [True, *[False] * len(wrong)]


def test_a_task_is_the_sum_of_its_calls_and_says_what_is_missing() -> None:
    """Two ways of knowing are two rows, and a call without energy is counted."""
    facility = {
        "source": "ecologits",
        "boundary": "facility",
        "covers": "output tokens",
        "basis": "ecologits 1",
    }
    found = summary_of(
        call("a", 0, 10, "root", energy=energy(1_500_000, 2_000_000)),
        call("b", 10, 20, "root", energy=energy(500_000, 1_000_000)),
        call("c", 20, 30, "root", energy=energy(4_000_000, 40_000_000, **facility)),
        call("d", 30, 40, "root"),
    )
    assert found.energy_j == {"low": 6.0, "high": 43.0}
    assert found.energy == [
        EnergyRow(
            source="config", boundary="gpu", covers="tokens", basis=None, low_j=2.0, high_j=3.0, calls=2
        ),
        EnergyRow(**facility, low_j=4.0, high_j=40.0, calls=1),
    ]
    assert found.calls_without_energy == 1
    line = next(line for line in as_text(found, width=300).splitlines() if line.startswith("energy "))
    assert line.split(maxsplit=1)[1] == (
        "≥ 6.00 J to 43.0 J (agentprof.yaml, tokens, GPU only: 2 calls; EcoLogits, output tokens, "
        "with the data centre's overhead: 1 call); not known of 1 call"
    )


def test_without_any_energy_there_is_none() -> None:
    """Absent, not 0, and no line about it."""
    found = summary_of(call("a", 0, 10, "root"))
    assert (found.energy_j, found.energy, found.calls_without_energy) == (None, [], 1)
    assert "energy" not in str(found)


def test_a_call_that_two_saw_has_its_energy_once() -> None:
    """The wrapper's and the call's are one; rates of the user win over the formula."""
    outer = call("w", 0, 10, "root", energy=energy(7, 8, source="ecologits"), usage=usage(5, 5))
    inner = call("c", 1, 9, "w", energy=energy(3, 4), usage=usage(5, 5))
    found = summary_of(outer, inner)
    assert found.energy_j == {"low": 3e-6, "high": 4e-6}
    assert found.calls_without_energy == 0


def test_many_tasks_sum_it_and_divide_it_by_successes() -> None:
    """12 to 40 joules; 2 successes and 1 unknown: at best 4 for each, at worst 20."""
    of_one = (energy(4_000_000, 10_000_000), energy(8_000_000, 20_000_000), None, energy(0, 10_000_000))
    outcomes = ("success", "success", None, "failure")
    summaries = [
        roll_up(TASK, [task("root", 0, 9, outcome=outcome), call("c", 0, 9, "root", energy=known)])
        for known, outcome in zip(of_one, outcomes, strict=True)
    ]
    found = group(summaries)
    assert found["energy_j"] == {"low": 12.0, "high": 40.0}
    assert found["energy_per_success_j"] == {"low": 4.0, "high": 20.0}
    assert found["calls_without_energy"] == 1
    nobody = group(summaries[2:3])
    assert (nobody["energy_j"], nobody["energy_per_success_j"], nobody["calls_without_energy"]) == (
        None,
        None,
        1,
    )


def test_a_summary_in_the_program_has_the_energy_of_its_rates(tmp_path: Path, monkeypatch: Any) -> None:
    """The same function as everywhere finds it, from the program's own agentprof.yaml: 6 tokens at 0.5 to 2."""
    (tmp_path / "agentprof.yaml").write_text(RATES.replace("model: m", "model: gpt-4o-mini*"))
    monkeypatch.chdir(tmp_path)
    _pricer_by.cache_clear()
    try:
        with ModelServer() as server, capture():
            server.replies = [Reply.json(CHAT)]
            with agentprof.task("t") as running, httpx.Client() as client:
                asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hi"}]}
                client.post(f"{server.url}/chat/completions", json=asked)
            found = running.summary()
    finally:
        _pricer_by.cache_clear()
    assert (found.calls, found.calls_without_energy) == (1, 0)
    assert found.energy_j == {"low": 3.0, "high": 12.0}
