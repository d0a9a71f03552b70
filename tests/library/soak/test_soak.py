"""A small soak: what is abandoned leaves nothing behind. `scripts/soak_library` does the same at length."""

from __future__ import annotations

import pytest
from support.soaking import Soak

from agentprof import _guard, _recent

CALLS = 4000


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_c4_memory_is_bounded_and_every_span_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a warm-up the objects of the process do not become more, and no span is open."""
    failures = _guard.counts()
    monkeypatch.setattr(_recent, "TASKS", 4)  # what is kept for summaries is soon as much as it will be
    with Soak() as soak:
        before = soak.sample()
        soak.run(CALLS // 2)
        settled = soak.sample()
        soak.run(CALLS // 2)
        after = soak.sample()
    assert soak.calls >= CALLS
    assert soak.abandoned * 2 == soak.calls
    assert (settled.open_spans, after.open_spans) == (0, 0)
    assert after.reading <= before.reading  # tests before this one may have left streams
    assert soak.seen.started == soak.seen.ended == soak.seen.exported == soak.calls + (soak.rounds + 1) // 2
    assert soak.seen.ended_again == 0
    assert after.ours - settled.ours < 500  # one call a round left behind would be more
    assert after.objects - settled.objects < CALLS / 4
    assert _guard.counts() == failures
