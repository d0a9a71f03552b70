"""`agentprof energy`, with a driver's library that is a test double, loaded as the real one is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.collecting import collecting
from support.model_server import ModelServer, Reply
from support.raw import SECOND, call_span, task_span

from agentprof.config import Config
from agentprof.pricing import Pricer
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.stores import open_store

SERVER = "gpu1:8000"

Energy = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def engine() -> Any:
    """An engine that says that two requests run."""
    with ModelServer() as server:
        server.replies = [Reply(b"vllm:num_requests_running 2.0\n")]
        yield server


@pytest.fixture
def energy(tmp_path: Path, driver: Path, engine: ModelServer) -> Energy:
    """Runs the command on two GPUs of 100 and 50 watts, with a database that holds no task."""
    database = tmp_path / "s.duckdb"
    open_store(database).close()

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML_WATTS": "100,50"} | environment
        metrics = engine.url.removesuffix("/v1") + "/metrics"
        command = [sys.executable, "-m", "agentprof", "energy", "--server", SERVER, "--metrics", metrics]
        return subprocess.run(
            [*command, "--db", str(database), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **known},
        )

    return run


def test_a_call_gets_its_share_of_what_was_measured(energy: Energy, tmp_path: Path) -> None:
    """150 watts for a second, among two: 75 joules, of GPUs only."""
    done = energy("--seconds", "3", "--every", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["left_out"] == told["lost"] == 0
    assert told["windows"] >= 2
    assert told["energy_j"] == pytest.approx(150 * told["measured_ns"] / SECOND, rel=0.1)
    assert told["idle_j"] == 0
    with open_store(tmp_path / "s.duckdb") as store:
        measured = store.windows_of([SERVER], 0, 2**62)
        assert len(measured) == told["windows"]
        begin = min(window.start_ns for window in measured)
        pipeline = Pipeline(store, Pricer(Config(), formula=False))
        more: dict[str, Any] = {"server__address": "gpu1", "server__port": 8000}
        for phase, seconds in (("prefill", 0.25), ("generation", 0.75)):
            more |= {f"agentprof__phase__{phase}": seconds, f"agentprof__phase_source__{phase}": "reported"}
        pipeline.accept(
            [
                task_span("1" * 32, "t", start=begin),
                call_span("1" * 32, "t", "in", at=1.0, start=begin, **more),
                call_span("1" * 32, "t", "beyond", at=5.0, start=begin, **more),
            ]
        )
        pipeline.recompute()
        summary = store.task("t")
    assert summary is not None
    (row,) = summary.energy
    assert (row.source, row.boundary, row.covers, row.calls) == (
        "measured",
        "gpu",
        "busy time",
        1,
    )
    assert row.low_j == pytest.approx(75, rel=0.1)
    assert row.high_j == pytest.approx(row.low_j, abs=1e-4)
    assert summary.calls_without_energy == 1


def test_one_gpu_and_an_idle_engine(energy: Energy, engine: ModelServer) -> None:
    """Only the GPU that is asked for; while nothing runs its energy is idle, and said apart."""
    engine.replies = [Reply(b"vllm:num_requests_running 0.0\n")]
    done = energy("--seconds", "1", "--every", "0.25", "--gpus", "1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["energy_j"] == told["idle_j"] == pytest.approx(50 * told["measured_ns"] / SECOND, rel=0.2)
    assert "with no request running" in energy("--seconds", "0.5", "--every", "0.25").stdout


def test_windows_that_nobody_stored_are_a_failure(energy: Energy, engine: ModelServer) -> None:
    """The collector ends when measuring has begun: how many windows, and why; what was measured is told."""
    busy = b"vllm:num_requests_running 2.0\n"
    with collecting() as collected:
        engine.replies = [Reply(busy), Reply(busy, before=collected.collector.stop)]
        done = energy("--seconds", "1", "--every", "0.25", "--url", collected.collector.url, "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["lost"] == told["windows"] >= 2
    assert (
        f"agentprof: {told['lost']} windows of {told['windows']} could not be stored: no collector answers"
        in (done.stderr)
    )


def test_who_takes_windows_slowly_does_not_make_them_long(energy: Energy) -> None:
    """The engine is asked all the same: in a window that is as long as an answer takes nobody would have counted."""
    with ModelServer() as slow:
        slow.replies = [
            Reply(b'{"schema": 1, "windows": 0}'),
            Reply(b'{"schema": 1, "windows": 5}', wait_s=3.0),
        ]
        done = energy("--seconds", "3", "--every", "0.2", "--url", slow.url.removesuffix("/v1"), "--json")
        sent = [window for one in slow.sent for window in json.loads(one.body)["windows"]]
    assert done.returncode == 0, done.stderr
    assert len(sent) == json.loads(done.stdout)["windows"] > 5
    assert max(window["end_ns"] - window["start_ns"] for window in sent) < 3 * SECOND


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ((), {"LD_LIBRARY_PATH": ""}, "It comes with the NVIDIA driver"),
        ((), {"FAKE_NVML_INIT": "9"}, "nvmlInit_v2: Driver Not Loaded. Is the NVIDIA driver loaded"),
        ((), {"FAKE_NVML_ENERGY": "3"}, "Not Supported. GPUs before Volta, and parts of a GPU (MIG)"),
        ((), {"FAKE_NVML_WATTS": ""}, "sees no GPU"),
        (("--gpus", "7"), {}, "of GPU 7: Invalid Argument"),
        (("--running", "nobody"), {}, "none of nobody is there"),
        (("--metrics", "gpu1"), {}, "expected an address such as http://gpu1:8000/metrics"),
        (("--db", "/nowhere/none.duckdb"), {}, "Start agentprof collect first"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(
    energy: Energy, arguments: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    """With what to do, and no traceback."""
    done = energy("--seconds", "1", *arguments, **environment)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
