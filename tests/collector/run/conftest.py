"""What tests of `agentprof run` share."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.model_server import CHAT, ModelServer, Reply


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a script."""

    def write(source: str, name: str = "agent.py") -> Path:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(source))
        return file

    return write


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A database of its own, 80 columns, no colours."""
    cut = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "AGENTPROF_"))}
    return cut | {"COLUMNS": "80", "NO_COLOR": "1", "AGENTPROF_DB": str(tmp_path / "runs.duckdb")}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Answers one chat after the other."""
    with ModelServer() as opened:
        opened.replies = [Reply.json(CHAT)]
        yield opened
