from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agentprof_collector.energy.nvml import LIBRARY

SOURCE = Path(__file__).parents[2] / "support" / "fake_nvml.c"


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a double of the NVIDIA driver's library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the double of the driver's library")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / LIBRARY, SOURCE], check=True)
    return folder
