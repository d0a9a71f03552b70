"""What the tests of seams share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recordings import Recordings


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
