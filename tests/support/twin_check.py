"""One call plain, instrumented without `traceparent`, and instrumented: the program and the server see the same."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from support.alike import differences
from support.model_server import ModelServer
from support.twin_outcomes import Outcome
from support.twin_styles import Style
from support.twin_trial import Trial, run

from agentprof import _guard
from agentprof.testing import Captured, capture


def check(style: Style, outcome: Outcome, is_async: bool, server: ModelServer) -> None:
    """Make the call three times and compare what was seen and what was sent."""
    failures = _guard.counts()

    def trial() -> Trial:
        return run(style, outcome, is_async, server)

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


def _instrumented(trial: Callable[[], Trial], **how: Any) -> tuple[Trial, Captured]:
    with capture(**how) as captured:
        done = trial()
    return done, captured


def _head(trial: Trial) -> list[list[tuple[str, str]]]:
    """Headers as sent, without those that are random in every request."""
    return [[pair for pair in sent.head if "idempotency" not in pair[0].lower()] for sent in trial.sent]
