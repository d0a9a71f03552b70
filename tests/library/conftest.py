"""What the tests of the library share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.model_server import ModelServer

from agentprof import _guard
from agentprof.testing import Captured, capture


@pytest.fixture
def nothing_fails_inside() -> Iterator[None]:
    """No test may pass because a failure of ours was swallowed."""
    before = _guard.counts()
    yield
    assert _guard.counts() == before


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model endpoint that answers what the test tells it to."""
    with ModelServer() as running:
        yield running


@pytest.fixture
def captured() -> Iterator[Captured]:
    """The process instrumented, and the spans it makes."""
    with capture() as spans:
        yield spans
