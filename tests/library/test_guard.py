"""Failures of agentprof itself: logged once each, counted, and never the program's."""

from __future__ import annotations

import logging

import pytest

from agentprof import _guard


@pytest.fixture(autouse=True)
def _counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failures made here are not counted for other tests."""
    monkeypatch.setattr(_guard, "_counts", {})


PROMPT = "a secret prompt"


def fail(kind: str) -> None:
    """Something of ours raises."""
    try:
        raise ValueError(PROMPT)
    except ValueError:
        _guard.failed(kind)


def test_each_kind_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """With where it came from, and without what the exception says: that may quote what was read."""
    for kind in ("one", "other", "one"):
        fail(kind)
    _guard.noted("lost", "100% of the spans are lost")
    _guard.noted("lost", "again")
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first.startswith("agentprof failed in one (ValueError); the program is not affected\n")
    assert "in fail" in first
    assert "secret" not in caplog.text
    assert second.startswith("agentprof failed in other")
    assert third == "100% of the spans are lost"
    assert _guard.counts() == {"one": 2, "other": 1, "lost": 2}


def test_logging_of_the_program_that_raises() -> None:
    """A filter or handler that fails is not heard of where the program calls a model."""

    def refuse(record: logging.LogRecord) -> bool:
        raise ZeroDivisionError

    _guard.logger.addFilter(refuse)
    try:
        fail("one")
        _guard.noted("lost", "spans are lost")
    finally:
        _guard.logger.removeFilter(refuse)
    assert _guard.counts() == {"one": 1, "lost": 1}
