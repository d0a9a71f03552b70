import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def run_agentprof(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the console script's function in a process of its own, with 80 columns and no colours."""
    ours = {"COLUMNS": "80", "NO_COLOR": "1", "TZ": "UTC", "AGENTPROF_DB": str(cwd / "default.duckdb")}
    code = "import sys; from agentprof._cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **ours, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def agentprof_command(tmp_path: Path) -> Run:
    """Runs `agentprof` in an empty folder that also holds its default database."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_agentprof(*arguments, cwd=tmp_path, **environment)

    return run


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """What `agentprof demo --json` printed, and the database it wrote; run once, not to be changed."""
    folder = tmp_path_factory.mktemp("demo")
    database = folder / "demo.duckdb"
    done = run_agentprof("demo", "--json", "--db", database, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    return document["tasks"], database
