"""The estimates on real requests whose true queue and prefill are known, and hidden from the estimate."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentprof_collector.estimates.validated import VALIDATED, Validation
from agentprof_collector.estimates.waits import Division, Unfit

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def black_box() -> ModuleType:
    """The benchmark, which does the comparing."""
    spec = importlib.util.spec_from_file_location("black_box", BENCHMARKS / "black_box.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def quiet_requests(black_box: ModuleType, shared: Path) -> Any:
    """One slot on a quiet machine."""
    return black_box.llama_cpp(shared / "data/engine", 1)


@pytest.fixture(scope="module")
def busy_requests(black_box: ModuleType) -> Any:
    """One slot on a machine with other work."""
    return black_box.llama_cpp(BENCHMARKS / "data", 1)


@pytest.fixture(scope="module")
def quiet(black_box: ModuleType, quiet_requests: Any) -> Any:
    """Figures by concurrency."""
    assert len(quiet_requests) == 48
    return black_box.by_concurrency(black_box.compared(quiet_requests))


@pytest.fixture(scope="module")
def busy(black_box: ModuleType, busy_requests: Any) -> Any:
    """Figures by concurrency."""
    assert len(busy_requests) == 56
    return black_box.by_concurrency(black_box.compared(busy_requests))


def test_a_quiet_machine(quiet: Any) -> None:
    """At four at a time at least 60 % answered, and 85 % of the 90 % intervals hold the truth."""
    assert sorted(quiet) == [1, 2, 4, 8]
    assert quiet[4].answered >= 0.60
    assert quiet[4].queue_held >= 0.85
    assert quiet[4].prefill_held >= 0.85


def test_a_busy_machine(busy: Any) -> None:
    """The intervals grow, and hold at every concurrency."""
    assert sorted(busy) == [1, 2, 4, 8]
    assert min(figures.answered for figures in busy.values()) >= 0.60
    assert min(figures.queue_held for figures in busy.values()) >= 0.85
    assert min(figures.prefill_held for figures in busy.values()) >= 0.85


def test_what_stands_beside_every_estimate_is_what_is_measured_here(quiet: Any, busy: Any) -> None:
    """The lowest and the highest over both machines."""
    assert _measured([*quiet.values(), *busy.values()]) == VALIDATED["wait"]


def test_calls_in_one_piece(black_box: ModuleType, quiet_requests: Any, busy_requests: Any) -> None:
    """The same with the first token hidden; the queue is held at least as often as it should be."""
    figures = [
        one
        for requests in (quiet_requests, busy_requests)
        for one in black_box.by_concurrency(black_box.compared(requests, in_one_piece=True)).values()
    ]
    assert _measured(figures) == VALIDATED["model"]
    assert min(one.queue_held for one in figures) >= 0.90


def _measured(figures: list[Any]) -> Validation:
    held = [
        share
        for one in figures
        for share in (one.queue_held, one.prefill_held, one.generation_held)
        if not math.isnan(share)
    ]
    return Validation(
        answered=_bounds([one.answered for one in figures]),
        held=_bounds(held),
        error_s=_bounds([one.queue_error_s for one in figures]),
    )


def _bounds(found: list[float]) -> tuple[float, float]:
    return round(min(found), 2), round(max(found), 2)


def test_the_intervals_say_something(quiet: Any, busy: Any) -> None:
    """They are not much wider than the prefill itself, and of most calls that queued it is known."""
    assert max(figures.width for figures in quiet.values()) < 1.5
    assert max(figures.width for figures in busy.values()) < 2.5
    for found in (quiet, busy):
        assert found[8].surely_queued > 0.7
        assert found[1].surely_queued < 0.1


def test_two_slots_are_not_answered(black_box: ModuleType) -> None:
    """Requests slow each other down, which their generation shows: nothing is guessed."""
    _check_two_slots(black_box, BENCHMARKS / "data", 58)


def test_two_slots_of_a_quiet_machine_are_not_answered(black_box: ModuleType, shared: Path) -> None:
    """Nor are they there."""
    _check_two_slots(black_box, shared / "data/engine", 48)


def _check_two_slots(black_box: ModuleType, folder: Path, number: int) -> None:
    requests = black_box.llama_cpp(folder, 2)
    assert len(requests) == number
    pairs = black_box.compared(requests)
    assert {division.reason for _, division in pairs} <= {"slowed", "few_alone"}
    assert sum(division == Unfit("slowed") for _, division in pairs) > 0.8 * len(pairs)


def test_vllm_is_hardly_answered(black_box: ModuleType, shared: Path) -> None:
    """Its requests were hardly ever alone."""
    pairs = black_box.compared(black_box.vllm(shared / "data/engine"))
    assert sum(isinstance(division, Division) for _, division in pairs) < 0.1 * len(pairs)
