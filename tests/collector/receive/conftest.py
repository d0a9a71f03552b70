from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.collecting import Collected, collecting


@pytest.fixture(scope="module")
def running() -> Iterator[Collected]:
    """One for all tests of a module: it takes a moment to end."""
    with collecting() as running:
        yield running


@pytest.fixture
def collected(running: Collected) -> Collected:
    """A collector with its store in memory, that has taken nothing since the test began."""
    running.received.clear()
    return running
