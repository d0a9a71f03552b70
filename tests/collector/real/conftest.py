"""Real programs of other projects around the collector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import profiled_agent
from support.model_server import ModelServer
from support.real_programs import Jaeger

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """One Jaeger for all tests: traces have ids of their own."""
    program = Jaeger(tmp_path_factory.mktemp("jaeger"))
    with program:
        yield program


@pytest.fixture
def run_agent(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Runs the program of `support/profiled_agent.py` against an OTLP endpoint; what its own summary says."""

    def run(endpoint: str) -> dict[str, Any]:
        with ModelServer() as server:
            server.replies = profiled_agent.replies()
            cut = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "AGENTPROF_"))}
            path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
            done = subprocess.run(
                [sys.executable, profiled_agent.__file__, server.url, endpoint],
                env=cut | {"PYTHONPATH": path, "AGENTPROF_SPOOL": str(tmp_path / "spool")},
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary

    return run
