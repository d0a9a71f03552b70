"""The program's twin: every way to call, with every end, sees the same with and without instrumentation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.model_server import ModelServer
from support.twin_check import check
from support.twin_outcomes import PLAIN_OUTCOMES, STREAM_OUTCOMES, Outcome
from support.twin_styles import OTHER_CLIENTS, PLAIN, STREAMED, Style

Combination = tuple[Style, Outcome, bool]
COMBINATIONS: list[Combination] = [
    (style, outcome, is_async)
    for styles, outcomes in ((PLAIN, PLAIN_OUTCOMES), (STREAMED, STREAM_OUTCOMES))
    for style in styles
    for outcome in outcomes
    for is_async in (False, True)
    if not (style.module_level and is_async)
] + [
    (style, outcome, is_async)
    for style in OTHER_CLIENTS
    for outcome in (STREAM_OUTCOMES if style.streams else PLAIN_OUTCOMES)
    for is_async in (False, True)
    if outcome.times_out_after is None and outcome.leave is None
]


def _name(combination: Combination) -> str:
    style, outcome, is_async = combination
    return f"{style.name}-{outcome.name}-{'async' if is_async else 'sync'}"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One model endpoint for all trials."""
    with ModelServer() as running:
        yield running


def test_there_are_enough_combinations(capsys: pytest.CaptureFixture[str]) -> None:
    """Styles, sync and async, streamed and not, and all ends."""
    with capsys.disabled():
        print(f"\ntwin: {len(COMBINATIONS)} combinations, three runs each")
    assert len(COMBINATIONS) >= 400
    assert len({_name(one) for one in COMBINATIONS}) == len(COMBINATIONS)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=_name)
def test_twins_see_the_same(combination: Combination, server: ModelServer) -> None:
    """Types, values, chunks, exceptions with their chains, bytes sent, arguments, copies and pickles."""
    check(*combination, server)
