"""The program's twin: every way to call, with every end, sees the same with and without instrumentation."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.alike import differences
from support.model_server import ModelServer
from support.twin_outcomes import PLAIN_OUTCOMES, STREAM_OUTCOMES, Outcome
from support.twin_styles import OTHER_CLIENTS, PLAIN, STREAMED, Style
from support.twin_trial import Trial, run

from agentprof import _guard
from agentprof.testing import Captured, capture

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


def _instrumented(trial: Callable[[], Trial], **how: Any) -> tuple[Trial, Captured]:
    with capture(**how) as captured:
        done = trial()
    return done, captured


def _head(trial: Trial) -> list[list[tuple[str, str]]]:
    """Headers as sent, without those that are random in every request."""
    return [[pair for pair in sent.head if "idempotency" not in pair[0].lower()] for sent in trial.sent]


def test_there_are_enough_combinations(capsys: pytest.CaptureFixture[str]) -> None:
    """Styles, sync and async, streamed and not, and all ends."""
    with capsys.disabled():
        print(f"\ntwin: {len(COMBINATIONS)} combinations, three runs each")
    assert len(COMBINATIONS) >= 400
    assert len({_name(one) for one in COMBINATIONS}) == len(COMBINATIONS)


@pytest.mark.parametrize("combination", COMBINATIONS, ids=_name)
def test_twins_see_the_same(combination: Combination, server: ModelServer) -> None:
    """Types, values, chunks, exceptions with their chains, bytes sent, arguments, copies and pickles."""
    failures = _guard.counts()
    style = combination[0]

    def trial() -> Trial:
        return run(*combination, server)

    bare = trial()
    quiet, _ = _instrumented(trial, propagate_to=())
    traced, captured = _instrumented(trial)

    for other in (quiet, traced):
        assert list(differences(bare.seen, other.seen)) == []
        assert [(sent.path, sent.body) for sent in other.sent] == [
            (sent.path, sent.body) for sent in bare.sent
        ]
        if "generated" not in style.name:
            assert other.arguments == style.arguments()
    assert bare.sent
    assert _head(quiet) == _head(bare)
    ours = [[pair for pair in head if pair[0] == "traceparent"] for head in _head(traced)]
    assert all(len(added) == 1 for added in ours)
    assert [[pair for pair in head if pair[0] != "traceparent"] for head in _head(traced)] == _head(bare)

    traced.seen.clear()  # a stream that was left may have been held by what was seen
    if not captured.spans:
        gc.collect()
    assert len(captured.spans) == 1  # it was observed at all
    assert _guard.counts() == failures
