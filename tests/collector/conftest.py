from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentprof_collector import cli


class Done(NamedTuple):
    """What a command gave back."""

    returncode: int
    stdout: str
    stderr: str


def plain_terminal(folder: Path) -> dict[str, str]:
    """80 columns, no colours, and a default database in the folder."""
    return {"COLUMNS": "80", "NO_COLOR": "1", "TZ": "UTC", "AGENTPROF_DB": str(folder / "default.duckdb")}


def run_in_process_of_its_own(*arguments: str | Path, cwd: Path, **environment: str) -> Done:
    """Run the console script's function as a user would."""
    code = "import sys; from agentprof._cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **plain_terminal(cwd), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture
def agentprof_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs `agentprof` in an empty folder that also holds its default database."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, **environment: str) -> Done:
        out, err = _stream(), _stream()
        with monkeypatch.context() as patched:
            for name, value in (plain_terminal(tmp_path) | environment).items():
                patched.setenv(name, value)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = cli.main([str(argument) for argument in arguments])
        return Done(code, _text(out), _text(err))

    return run


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """What `agentprof demo --json` printed, and the database it wrote; run once, not to be changed."""
    folder = tmp_path_factory.mktemp("demo")
    database = folder / "demo.duckdb"
    done = run_in_process_of_its_own("demo", "--json", "--db", database, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    return document["tasks"], database


@pytest.fixture
def run_alone(tmp_path: Path) -> Callable[..., Done]:
    """Runs `agentprof` in a process of its own, in an empty folder."""

    def run(*arguments: str | Path, **environment: str) -> Done:
        return run_in_process_of_its_own(*arguments, cwd=tmp_path, **environment)

    return run
