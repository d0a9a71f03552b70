"""What the tests of seams share."""

from __future__ import annotations

import gc
import warnings
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


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """What SDKs have left open is not found by the tests of another module."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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
