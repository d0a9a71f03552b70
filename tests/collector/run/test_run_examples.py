"""Measuring scripts as people write them, run by agentprof: it reports what they measured themselves."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.recordings import Recordings
from support.runs import done, ran
from support.timed_calls import EARLY

EXAMPLES = Path(__file__).parents[3] / "examples"
TOLERANCE_S = 0.005
# The replay server leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
STREAM = "openai.openai_chat.braintrust_sdk.test_direct_api_streaming_call_3.ded90.0"
PLAIN = "openai.openai_chat.agentops.test_openai_provider.4071b.0"


@pytest.fixture(scope="module")
def recordings(shared: Path) -> Recordings:
    """Recorded traffic of model APIs."""
    return Recordings(shared / "data" / "recordings")


def printed(text: bytes) -> dict[str, float]:
    """The figures of a script by their names."""
    pairs = (line.rsplit("  ", 1) for line in text.decode().splitlines())
    return {name.strip(): float(value.split()[0]) for name, value in pairs if value.split()[0][0].isdigit()}


def environment_for(environment: dict[str, str], url: str) -> dict[str, str]:
    """Points the script to a server."""
    return environment | {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "x"}


def compared(measure: Callable[[], dict[str, float]]) -> None:
    """Differences between agentprof and the script, in seconds, are small.

    The two read the clock at slightly different moments, and a busy machine may do anything in between: of
    twenty runs one has to agree. Figures that are exact are asserted in each.
    """
    tries = []
    for _ in range(20):
        tries.append(measure())
        if max(map(abs, tries[-1].values())) <= TOLERANCE_S:
            return
    raise AssertionError(tries)


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_raw_stream(
    library: str, recordings: Recordings, environment: dict[str, str], tmp_path: Path
) -> None:
    """First token, tokens a second and latency as the script prints them; calls, tokens and cost exactly."""
    pytest.importorskip(library)
    if library == "httpx2":  # which the script takes where httpx is not installed
        (tmp_path / "httpx.py").write_text("raise ModuleNotFoundError")
    truth = recordings.truths[STREAM]
    script_file = EXAMPLES / "raw_stream.py"

    def measure() -> dict[str, float]:
        with recordings.served() as server:
            given = environment_for(environment, server.url(STREAM, first=300, delay=40))
            run, (task,) = ran([], [sys.executable, script_file], given | {"PYTHONPATH": str(tmp_path)})
        assert run.returncode == 0, run.stderr
        script = printed(run.stdout)
        # The role comes after 300 ms, the first of 13 tokens 40 ms later.
        assert script["first token"] >= 0.34
        assert script["generation"] >= 12 * 0.04 - EARLY
        assert task["calls"] == 1
        assert (task["tokens"]["input"], task["tokens"]["output"]) == (15, 13)
        assert (truth["input_tokens"], truth["output_tokens"]) == (15, 13)
        # gpt-4o: $2.50 a million in, $10 a million out.
        assert Decimal(task["cost_usd"]) == 15 * Decimal("2.5e-6") + 13 * Decimal("10e-6")
        (model,) = task["models"].values()
        (call,) = rows_of_calls(environment, task["task_id"])
        return {
            "first token": model["first_token_ns"]["p50"] / 1e9 - script["first token"],
            "generation": 13 / model["output_tokens_per_s"] - 13 / script["tokens/s"],
            "latency": call["duration_ns"] / 1e9 - script["latency"],
        }

    compared(measure)


def test_latency_and_throughput(recordings: Recordings, environment: dict[str, str]) -> None:
    """Mean latency and calls a second of 32 calls on 8 threads as the script prints them; cost exactly."""
    truth = recordings.truths[PLAIN]
    # gpt-4o-mini: $0.15 a million in, $0.60 a million out.
    each = truth["input_tokens"] * Decimal("0.15e-6") + truth["output_tokens"] * Decimal("0.6e-6")
    script_file = EXAMPLES / "latency_throughput.py"

    def measure() -> dict[str, float]:
        with recordings.served() as server:
            given = environment_for(environment, server.url(PLAIN, first=150))
            run, (task,) = ran([], [sys.executable, script_file], given)
        assert run.returncode == 0, run.stderr
        script = printed(run.stdout)
        assert task["calls"] == 33
        assert task["tokens"]["input"] == 33 * truth["input_tokens"]
        assert Decimal(task["cost_usd"]) == 33 * each
        first_call, *calls = rows_of_calls(environment, task["task_id"])
        latencies = [call["duration_ns"] / 1e9 for call in calls]
        assert min(latencies) >= 0.15
        begin = min(call["start_ns"] for call in calls)
        assert first_call["start_ns"] + first_call["duration_ns"] < begin
        wall_s = (max(call["start_ns"] + call["duration_ns"] for call in calls) - begin) / 1e9
        return {
            "mean latency": statistics.mean(latencies) - script["mean latency"],
            "p50 latency": statistics.median(latencies) - script["p50 latency"],
            "wall": wall_s - 32 / script["QPS"],
        }

    compared(measure)


def rows_of_calls(environment: dict[str, str], task_id: str) -> list[dict[str, Any]]:
    """The calls of a task, one row each."""
    report = done([sys.executable, "-m", "agentprof", "report", task_id, "--calls", "--json"], environment)
    rows: list[dict[str, Any]] = json.loads(report.stdout)["calls"]
    return sorted(rows, key=lambda call: call["start_ns"])
