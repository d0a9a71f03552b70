"""What the tests of seams share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.model_server import ModelServer
from support.recordings import Recordings

from agentprof.testing import Captured, capture


@pytest.fixture(scope="session")
def recordings(shared: Path) -> Recordings:
    """The recorded traffic of model APIs."""
    return Recordings(shared / "data" / "recordings")


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
