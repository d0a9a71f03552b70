"""Programs that send spans with exporters of others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from support.real_programs import PATIENCE_S, ROOT

TESTS = ROOT / "tests"
INSTALL_JS = ROOT / "scripts" / "install_js"


class Sender(NamedTuple):
    """An SDK, and how it sends."""

    sdk: str
    """`python` or `js`."""
    protocol: str
    """`http/protobuf`, `http/json` or `grpc`."""
    compression: str = "none"

    @property
    def tries_again(self) -> bool:
        """Whether it sends again what was not taken; the gRPC exporter of JavaScript 0.223 does not."""
        return (self.sdk, self.protocol) != ("js", "grpc")

    @contextmanager
    def sending(self, *, http: str, grpc: str, tasks: int = 30) -> Iterator[subprocess.Popen[str]]:
        """A process that sends at least so many tasks, until its input ends; it does not outlive the block.

        Args:
            http: `http://host:port`.
            grpc: `host:port`.
            tasks: how many at least.
        """
        url = f"http://{grpc}" if self.protocol == "grpc" else f"{http}/v1/traces"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
        if self.sdk == "js":
            node, modules = _node()
            command = [node, str(TESTS / "support" / "js" / "send.cjs")]
            environment["NODE_PATH"] = str(modules)
        else:
            command = [sys.executable, str(TESTS / "support" / "otlp_sender.py")]
        with subprocess.Popen(
            [*command, self.protocol, url, self.compression, str(tasks)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


class Sent(NamedTuple):
    """Ids of the traces that a sender has sent."""

    all: set[str]
    acknowledged: set[str]
    """Those of which every span was taken."""


def sent(process: subprocess.Popen[str]) -> Sent:
    """End the input of a sender, and wait until it has sent the rest."""
    out, err = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0, err
    said: dict[str, list[str]] = json.loads(out)
    assert len(said["sent"]) == len(set(said["sent"]))
    return Sent(set(said["sent"]), set(said["acknowledged"]))


def _node() -> tuple[str, Path]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    found = subprocess.run([sys.executable, INSTALL_JS, "--print-path"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("the exporters of JavaScript are not installed: scripts/install_js does it")
    return node, Path(found.stdout.strip())
