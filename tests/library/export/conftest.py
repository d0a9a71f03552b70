"""What the tests of the export share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from agentprof import _courier, _guard, _spool
from agentprof._counts import counts
from agentprof._courier import Courier
from agentprof._destinations import ToCollector
from agentprof._otlp import Endpoint
from agentprof._processors import ExportProcessor
from agentprof._spool import Spool
from agentprof._worker import ExportWorker

TESTS = Path(__file__).parents[2]


class Exporting:
    """A provider whose spans go to a collector, with a spool behind it."""

    def __init__(self, url: str, folder: Path | None, **endpoint: Any) -> None:
        self.endpoint = Endpoint(url, **endpoint)
        self.spool = Spool(folder, _spool.destination(url, self.endpoint.headers)) if folder else None
        self.worker = ExportWorker(ToCollector(Courier(self.endpoint, self.spool)))
        processor = ExportProcessor()
        processor.worker = self.worker
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(processor)

    def spans(self, names: Iterable[object]) -> list[str]:
        """End spans of these names."""
        tracer = self._provider.get_tracer("t")
        texts = [str(name) for name in names]
        for text in texts:
            tracer.start_span(text).end()
        return texts


@pytest.fixture(autouse=True)
def _from_zero(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Counting starts with the test, and nobody waits long for the next try."""
    monkeypatch.setattr(_guard, "_counts", {})
    monkeypatch.setattr(_courier, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(_courier, "LONGEST_PAUSE_S", 0.1)
    counts.reset()
    yield
    counts.reset()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the spool is."""
    return tmp_path / "state" / "spool"


@pytest.fixture
def exporting() -> Iterator[Callable[..., Exporting]]:
    """Makes exports, and closes them after the test."""
    made: list[Exporting] = []

    def make(url: str, folder: Path | None, **endpoint: Any) -> Exporting:
        made.append(Exporting(url, folder, **endpoint))
        return made[-1]

    yield make
    for one in made:
        one.worker.close(0)


@pytest.fixture
def start(folder: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a program that may use `json`, `os`, `sys`, `threading`, `time`, `agentprof` and what tests use."""

    def run(program: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        # The modules of the library are found as they are here, without the folder of the tests beside it.
        head = "import json, os, sys, threading, time\nimport agentprof\nfrom agentprof import _courier\n"
        head += "_courier.FIRST_PAUSE_S = 0.05\n_courier.LONGEST_PAUSE_S = 0.2\n"
        return subprocess.Popen(
            [sys.executable, "-c", head + textwrap.dedent(program), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(TESTS), "AGENTPROF_SPOOL": str(folder), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., Any]:
    """Runs such a program to its end; gives what it printed as JSON. It must end well and complain of nothing."""

    def done(program: str, *arguments: object, **environment: str) -> Any:
        process = start(program, *arguments, **environment)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert err == ""
        return json.loads(out) if out else None

    return done
