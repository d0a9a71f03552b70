"""Energy, token rates and GPU-hours in the reports, on the page and in the API, with figures from a calculator."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.markup import Markup
from support.raw import SECOND, T0, call_span, task_span
from support.serving import OfStore, Server, serving

from agentprof.config import parse_config
from agentprof.pricing import Pricer
from agentprof_collector import api, page
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.stores import open_store

CONFIG = """
energy:
  - {server: gpu1, boundary: gpu, j_per_input_token: 0.01, j_per_cached_token: 0, j_per_output_token: [0.1, 0.4]}
gpu_hours:
  - {server: gpu1, gpu_hour_usd: 3.60, gpus: 2}
"""
OWN = {
    "server__address": "gpu1",
    "server__port": 8000,
    "gen_ai__usage__cache_read__input_tokens": 200,
    "agentprof__phase__queue": 0.2,
    "agentprof__phase_source__queue": "reported",
    "agentprof__phase__prefill": 0.4,
    "agentprof__phase_source__prefill": "reported",
    "agentprof__phase__generation": 1.1,
    "agentprof__phase_source__generation": "reported",
    "agentprof__first_token": 0.9,
    "agentprof__stream__end": "complete",
}
"""Of 1,000 tokens in 200 cached, 100 out: 8 J and 10 to 40 J; 2,000 tokens/s of prefill, 90 of generation."""


def filled(path: Path) -> None:
    """Two tasks on the machine of one's own, one with a call elsewhere whose energy nobody knows."""
    with open_store(path) as store:
        pipeline = Pipeline(store, Pricer(parse_config(CONFIG), formula=False))
        for number, outcome in enumerate(("success", "failure")):
            trace, task, start = f"{number:032x}", f"task-{number}", T0 + number * 10 * SECOND
            spans = [
                task_span(trace, task, start=start, **{"agentprof.task.outcome": outcome}),
                call_span(trace, task, "own", at=1, seconds=2, start=start, **OWN),
            ]
            if number:
                spans.append(call_span(trace, task, "hosted", at=4, start=start))
            pipeline.accept(spans)
        pipeline.recompute()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database and the agentprof.yaml beside it."""
    folder = tmp_path_factory.mktemp("energy")
    (folder / "agentprof.yaml").write_text(CONFIG)
    filled(folder / "s.duckdb")
    return folder / "s.duckdb"


@pytest.fixture
def report(agentprof_command: Any, database: Path) -> Any:
    """Runs `agentprof report` there and gives what it printed."""

    def run(*arguments: str, **environment: str) -> str:
        environment.setdefault("AGENTPROF_CONFIG", str(database.parent / "agentprof.yaml"))
        done = agentprof_command("report", "--db", database, *arguments, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    return run


@pytest.fixture(scope="module")
def site(database: Path) -> Iterator[Server]:
    """Page and API of it."""
    with (
        open_store(database, read_only=True) as store,
        serving([*page.routes(served := OfStore(store)), *api.routes(served)]) as server,
    ):
        yield server


def test_one_task(report: Any) -> None:
    """18 to 48 joules, whose they are, and what is missing; the token rates beside the phases."""
    document = json.loads(report("task-1", "--json"))
    assert document["energy_j"] == {"low": 18.0, "high": 48.0}
    (row,) = document["energy"]
    assert (row["source"], row["boundary"], row["covers"], row["calls"]) == ("config", "gpu", "tokens", 1)
    assert document["calls_without_energy"] == 1
    assert document["token_rates"] == {
        "prefill": {"n": 1, "min": 2000.0, "p50": 2000.0, "max": 2000.0},
        "generation": {"n": 1, "min": 90.0, "p50": 90.0, "max": 90.0},
    }
    text = " ".join(report("task-1").split())
    assert "energy ≥ 18.0 J to 48.0 J (agentprof.yaml, tokens, GPU only: 1 call); not known of 1 call" in text
    assert "tokens/s prefill 2,000/s (1 call); generation 90.0/s (1 call)" in text


def test_many_tasks(report: Any) -> None:
    """36 to 96 joules, per success the same, as the other task failed."""
    (group,) = json.loads(report("--json"))["groups"]
    assert group["energy_j"] == group["energy_per_success_j"] == {"low": 36.0, "high": 96.0}
    assert group["calls_without_energy"] == 1
    assert "energy ≥ 36.0 J to 96.0 J; ≥ 36.0 J to 96.0 J per success" in " ".join(report().split())
    rows = {row["task_id"]: row for row in csv.DictReader(io.StringIO(report("--csv")))}
    assert (rows["task-0"]["energy_j.low"], rows["task-0"]["calls_without_energy"]) == ("18.0", "0")
    (one, two) = csv.DictReader(io.StringIO(report("--csv", "--group-by", "outcome")))
    assert (one["energy_per_success_j.high"], two["energy_per_success_j.high"]) == ("", "48.0")


def test_calls(report: Any) -> None:
    """Each with its energy and rates, or nothing."""
    calls = {
        (row["task_id"], row["span_id"]): row
        for row in csv.DictReader(io.StringIO(report("--calls", "--csv")))
    }
    own, hosted = calls["task-1", "own"], calls["task-1", "hosted"]
    assert (own["energy_j.low"], own["energy_j.high"], own["energy_source"]) == ("18.0", "48.0", "config")
    assert (own["prefill_tokens_per_s"], own["generation_tokens_per_s"]) == ("2000.0", "90.0")
    names = (
        "energy_j.low",
        "energy_source",
        "energy_covers",
        "prefill_tokens_per_s",
        "generation_tokens_per_s",
    )
    assert {hosted[name] for name in names} == {""}
    wide = report("--calls", COLUMNS="160")
    assert "2,000/s" in wide
    assert "18.0 J to 48.0 J" in wide


def test_page_and_api(site: Server) -> None:
    """The same figures, in the answer and in the markup."""
    waterfall = site.ask("/api/v1/tasks/task-1/waterfall").document
    own = next(span for span in waterfall["spans"] if span["span_id"] == "own")
    assert own["energy_j"] == {"low": 18.0, "high": 48.0}
    assert (own["prefill_tokens_per_s"], own["generation_tokens_per_s"]) == (2000.0, 90.0)
    of_task = Markup(site.ask("/tasks/task-1").text)
    assert "≥ 18.0 J to 48.0 J" in of_task.text
    assert "agentprof.yaml, tokens, GPU only; not known of 1 call" in of_task.text
    assert (
        "prefill 2,000/s tokens, generation 90.0/s tokens, 18.0 J to 48.0 J" in site.ask("/tasks/task-1").text
    )
    assert "≥ 36.0 J to 96.0 J" in Markup(site.ask("/").text).text
    assert "≥ 18.0 J to 48.0 J" in Markup(site.ask("/?group_by=outcome").text).text


def test_gpu_hours(report: Any) -> None:
    """From 0 to 20 s two GPUs at 3.60 an hour are 4 cents; calls at 1.0 to 3 s and 11 to 13 s use a fifth."""
    document = json.loads(report("--gpu-hours", "--json"))
    assert (document["entries"], document["tasks"], document["count"]) == (1, 2, 1)
    assert document["end_ns"] - document["start_ns"] == 20 * SECOND
    (row,) = document["rows"]
    assert (row["calls"], row["tasks"], row["utilisation"], row["busy_ns"]) == (2, 2, 0.2, 4 * SECOND)
    assert [row[name] for name in ("cost_usd", "busy_usd", "idle_usd")] == [
        "0.0400000000",
        "0.0080000000",
        "0.0320000000",
    ]
    # 2,200 tokens, 200 of them out, one success.
    assert row["usd_per_million_tokens"] == {"busy": "3.6363636364", "with_idle": "18.1818181818"}
    assert row["usd_per_million_output_tokens"] == {"busy": "40.0000000000", "with_idle": "200.0000000000"}
    assert row["usd_per_success"]["with_idle_high"] == "0.0400000000"
    text = " ".join(report("--gpu-hours", COLUMNS="150").split())
    assert "gpu1, 2 GPUs at $3.60/h 20% 1.0 $0.0400 $0.0320 $18.18 $3.64 $200.00 $0.0400" in text
    assert "over 20.0 s of 2 tasks" in text
    (line,) = csv.DictReader(io.StringIO(report("--gpu-hours", "--csv")))
    assert line["usd_per_success.busy_low"] == "0.0080000000"


def test_gpu_hours_of_the_time_asked_for(report: Any) -> None:
    """Whoever names a span of time pays for it: an hour before the second task, and until its end."""
    since = T0 + 10 * SECOND - 3580 * SECOND
    document = json.loads(
        report(
            "--gpu-hours",
            "--json",
            "--since",
            str(since),
            "--outcome",
            "failure",
            "--until",
            str(T0 + 20 * SECOND),
        )
    )
    (row,) = document["rows"]
    assert (row["cost_usd"], row["calls"]) == ("7.1800000000", 1)
    assert row["utilisation"] == round(2 / 3590, 6)


def test_gpu_hours_are_in_no_cost(report: Any) -> None:
    """The calls cost what they did without: nothing counts twice."""
    assert json.loads(report("task-0", "--json"))["cost_by_class_usd"].keys() <= {
        "input",
        "output",
        "cache_read",
    }


def test_no_gpu_hours(report: Any, tmp_path: Path) -> None:
    """It says what to write where, or that nothing fits."""
    assert "agentprof.yaml has no gpu_hours" in report("--gpu-hours", AGENTPROF_CONFIG="")
    other = tmp_path / "other.yaml"
    other.write_text("gpu_hours: [{server: gpu9, gpu_hour_usd: 1}]")
    assert "No call went to" in report("--gpu-hours", AGENTPROF_CONFIG=str(other))
