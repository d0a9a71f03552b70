"""Measured energy beside llama.cpp's real server: who runs is what the engine says; only the GPU is a test double."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
from support.collecting import collecting
from support.llama_cpp import serving

import agentprof
from agentprof._readable import to_raw
from agentprof.config import Config
from agentprof.pricing import Pricer
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.testing import capture
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.stores import Store

WATTS = 150
PATIENCE_S = 60


def ask(client: openai.OpenAI, number: int) -> None:
    """One call, of a text of its own."""
    asked = [{"role": "user", "content": f"{number} " * 40 + "Tell a long story."}]
    client.chat.completions.create(model="smollm2", messages=asked, max_tokens=60, temperature=0)  # type: ignore[call-overload]


def test_calls_share_what_was_measured_while_they_ran(shared: Path, tmp_path: Path, driver: Path) -> None:
    """One alone has the energy of its time, two side by side share that of theirs; none is made from nothing."""
    with collecting() as collected, serving(shared, tmp_path, slots=2) as engine, capture() as captured:
        collector = collected.collector
        server = engine.url.removeprefix("http://").partition("/")[0]
        command = [sys.executable, "-m", "agentprof", "energy", "--server", server, "--url", collector.url]
        driven = {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML_WATTS": str(WATTS)}
        with (
            subprocess.Popen(
                [*command, "--every", "0.2"], env=os.environ | driven, stdout=subprocess.PIPE
            ) as meter,
            openai.OpenAI(base_url=engine.url, api_key="none", max_retries=0) as client,
        ):
            try:
                measured_after(collector.store, server, 0)
                with agentprof.task("energy") as task:
                    ask(client, 1)
                    with ThreadPoolExecutor(2) as pool:
                        list(pool.map(lambda number: ask(client, number), (2, 3)))
                Pipeline(collector.store, Pricer(Config(), formula=False)).accept(
                    [to_raw(span) for span in captured.spans]
                )
                end_ns = max(span.end_time or 0 for span in captured.spans)
                measured_after(collector.store, server, end_ns)
            finally:
                meter.terminate()
            assert b"with no request running" in meter.communicate(timeout=60)[0]
        windows = collector.store.windows_of([server], 0, 2**62)
        rows = call_rows(task.id, collector.store.spans_of(collector.store.traces_of([task.id])), windows)
    assert [row.energy_source for row in rows] == ["measured"] * 3
    assert {0, 1, 2} <= {count for window in windows for count in (window.running_low, window.running_high)}
    alone, *both = [joules(row) for row in rows]
    whole = WATTS * rows[0].duration_ns / 1e9
    assert 0.5 * whole <= alone[0] <= alone[1] <= 1.1 * whole
    # The engine's count is read some tens of milliseconds apart, and a call begins before it has a slot.
    for row, (low, high) in zip(rows[1:], both, strict=True):
        whole = WATTS * row.duration_ns / 1e9
        assert 0.3 * whole <= low <= 0.9 * whole
        assert low <= high <= 1.1 * whole


def joules(row: CallRow) -> tuple[float, float]:
    """Low and high."""
    assert row.energy_j is not None
    return row.energy_j["low"], row.energy_j["high"]


def measured_after(store: Store, server: str, moment_ns: int) -> None:
    """Returns when a window that begins after a moment is stored."""
    until_s = time.monotonic() + PATIENCE_S
    while not any(window.start_ns > moment_ns for window in store.windows_of([server], moment_ns, 2**62)):
        assert time.monotonic() < until_s
        time.sleep(0.05)
