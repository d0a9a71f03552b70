"""Windows of measured energy from a series of counters: without gaps, and none where anything is not known."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from agentprof_collector.energy.running import Load
from agentprof_collector.energy.sampler import COUNTS_A_WINDOW, Sampler
from agentprof_collector.errors import AgentprofError

SECOND = 10**9
LOST = "GPU is lost"


class Series:
    """A test double of accelerators and engine: what was read at each moment, one reading after the other."""

    def __init__(self, counters: list[list[int] | str], running: list[int | str]) -> None:
        self._counters: Iterator[list[int] | str] = iter(counters)
        self._running: Iterator[int | str] = iter(running)
        self._windows = len(counters) - 1
        self._waits = 0
        self._tokens = 0
        self.now_ns = 0

    def read_mj(self) -> list[int]:
        """The next reading of the counters."""
        found = next(self._counters)
        if isinstance(found, str):
            raise AgentprofError(found)
        return found

    def read(self) -> Load:
        """The next count of the engine; it makes 7 tokens between two of them, and begins anew at 100."""
        found = next(self._running)
        if isinstance(found, str):
            raise AgentprofError(found)
        self._tokens = (self._tokens + 7) % 100
        return Load(found, self._tokens)

    def wait(self, pause_s: float) -> bool:
        """Let time go by; true at the end of the series."""
        self._waits += 1
        self.now_ns += round(pause_s * SECOND)
        return self._waits >= self._windows * COUNTS_A_WINDOW


def windows(
    counters: list[list[int] | str], running: list[int | str] | None = None
) -> tuple[list[tuple[int, ...]], int]:
    """Start and end in tenths of a second, joules, running low and high of each; windows left out."""
    series = Series(counters, running if running is not None else [1] * 100)
    sampler = Sampler("gpu1:8000", "n1", series, series, series.wait, lambda: series.now_ns)
    found = [
        (
            w.start_ns * 10 // SECOND,
            w.end_ns * 10 // SECOND,
            w.energy_uj // 10**6,
            w.running_low,
            w.running_high,
        )
        for w in sampler.windows(1.0)
    ]
    return found, sampler.left_out


def test_windows_follow_each_other() -> None:
    """The counters of all GPUs together, from one reading to the next; what was seen running in between."""
    running: list[int | str] = [0, 1, 2, 2, 1, 1, 1, 3, 3, 3, 3, 3, 3]
    found, left_out = windows([[1000, 70_000], [26_000, 75_000], [26_000, 175_000]], running)
    assert found == [(0, 10, 30, 0, 2), (10, 20, 100, 1, 3)]
    assert left_out == 0


def test_a_counter_that_begins_anew_costs_its_window(caplog: pytest.LogCaptureFixture) -> None:
    """The driver was loaded again: what was taken in between is not known, what follows is."""
    with caplog.at_level(logging.WARNING):
        found, left_out = windows([[5000], [9000], [2000], [4000]])
    assert found == [(0, 10, 4, 1, 1), (20, 30, 2, 1, 1)]
    assert left_out == 1
    assert "begins anew" in caplog.text.replace("began", "begins")


def test_a_gpu_that_is_lost_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """No window has an unknown end or begin; it is said once, and measuring goes on."""
    with caplog.at_level(logging.WARNING):
        found, left_out = windows([[0], [1000], LOST, LOST, [9000], [9500]])
    assert [window[:2] for window in found] == [(0, 10), (40, 50)]
    assert left_out == 3
    assert len([record for record in caplog.records if LOST in record.message]) >= 1


def test_an_engine_that_does_not_say_costs_the_window() -> None:
    """How the energy divides is not known: a restart of the engine, for one."""
    running: list[int | str] = [1, 1, 1, "no answer", 1, 1, 1, 2, 2, 2, 2, 2, 2]
    found, left_out = windows([[0], [1000], [3000]], running)
    assert found == [(10, 20, 2, 1, 2)]
    assert left_out == 1


def test_a_clock_that_is_set_back_costs_the_window() -> None:
    """A window ends after it begins."""
    series = Series([[0], [1000], [2000]], [1] * 100)
    stamps = iter([10, 10, 5, 5, 30, 30])
    sampler = Sampler("s", "n", series, series, series.wait, lambda: next(stamps))
    assert [(w.start_ns, w.end_ns) for w in sampler.windows(1.0)] == [(5, 30)]
    assert sampler.left_out == 1


def test_tokens_are_those_between_its_edges() -> None:
    """Six readings of 7 a window; of a window in which the engine began anew they are not known."""
    series = Series([[0], [1], [2], [3]], [1] * 100)
    sampler = Sampler("s", "n", series, series, series.wait, lambda: series.now_ns)
    assert [window.tokens for window in sampler.windows(1.0)] == [42, 42, None]
