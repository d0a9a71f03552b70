from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"real inputs are not there: {folder.name} beside the repository")
    return folder
