"""Threads with asyncio tasks in them. `scripts/soak_threads` does the same with 64 times 64."""

from __future__ import annotations

from support.crowd import EVERY, faults, gather

from agentprof import _guard


def test_every_call_is_in_its_own_task() -> None:
    """None is lost, none is crossed, with 16 threads of 16 asyncio tasks each."""
    failures = _guard.counts()
    captured = gather(16, 16)
    assert faults(captured, 16, 16) == []
    assert len(captured.spans) == 16 * 16 * EVERY
    assert _guard.counts() == failures


def test_faults_are_seen() -> None:
    """A lost span and one in another's task are told."""
    captured = gather(1, 2)
    dropped = captured.named("chat 0-1")[0]
    captured.spans.remove(dropped)
    assert len(faults(captured, 1, 2)) == 2
    captured.spans.append(captured.named("chat 0-0")[0])
    assert any("different" in fault for fault in faults(captured, 1, 2))
