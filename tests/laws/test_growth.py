"""Adding up grows about as n log n, whatever the shape of a task, and no deeper than Python can call."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.shapes import SHAPES, Shape

from agentprof import rollup
from agentprof.model import Span
from agentprof.rollup import roll_up, tasks, tasks_in, twins
from agentprof.rollup.calls import call_rows
from agentprof.rollup.waterfall import waterfall

SMALL, LARGE = 100, 400
WORST = 1.5
"""How much more than four times the work four times the spans may be; n log n is 1.3, the square is 4."""
ROOM = 160
"""Calls inside calls; rows of a profile stand up to 64 deep."""

_FOLDER = str(Path(rollup.__file__).parent)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is bounded by a number is linear from there on: with small ones sooner."""
    monkeypatch.setattr(twins, "AT_ONCE", 10)
    monkeypatch.setattr(twins, "NESTED", 10)
    monkeypatch.setattr(tasks, "NESTING_LIMIT", 4)
    monkeypatch.setattr("agentprof.rollup.inferred._AT_ONCE", 10)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("what", ["roll_up", "call_rows", "waterfall"])
def test_work_grows_with_the_number_of_spans(shape: Shape, what: str) -> None:
    """Four times the spans are not much more than four times the lines that run."""
    work = {"roll_up": added_up, "call_rows": as_calls, "waterfall": as_waterfall}[what]
    few, many = (lines_run(work, shape(n)) for n in (SMALL, LARGE))
    assert few > SMALL
    assert many / few < WORST * LARGE / SMALL


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_nothing_is_limited_by_recursion(shape: Shape) -> None:
    """Spans nested far deeper than calls may be are added up."""
    spans = shape(LARGE)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + ROOM)
    try:
        for work in (added_up, as_calls, as_waterfall):
            work(spans)
    finally:
        sys.setrecursionlimit(limit)


def added_up(spans: list[Span]) -> None:
    for task_id, own in tasks_in(spans).items():
        roll_up(task_id, own)


def as_calls(spans: list[Span]) -> None:
    call_rows("t", spans)


def as_waterfall(spans: list[Span]) -> None:
    waterfall("t", spans, limit=20)


def lines_run(work: Callable[[list[Span]], None], spans: list[Span]) -> int:
    """How many lines of the roll-up run."""
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(_FOLDER) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        work(spans)
    finally:
        sys.settrace(before)
    return count
