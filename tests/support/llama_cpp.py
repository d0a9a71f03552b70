"""llama.cpp's real server with a small real model, for tests of what its times become."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

INSTALL_S = 300
"""How long the wheels, about 90 MB, may take to come the first time; later they are in the cache."""
PATIENCE_S = 60
_KEPT = (".venv", "dl", "models")
_LINE = re.compile(
    r"(\d+)\.(\d+)\.(\d+)\.(\d+) I slot +(?P<event>\S+): id +\d+ \| task (?P<task>\d+) \| (?P<what>.*)"
)
_TIME = re.compile(r" *(prompt eval|eval) time = +([\d.]+) ms")


def _same_ms(known_s: float, reported_ms: float) -> bool:
    return abs(known_s * 1000 - reported_ms) <= 0.006


class Worked(NamedTuple):
    """One request as the server itself logs it, s by its own clock."""

    start: float
    """When a slot took it."""
    end: float
    prefill: float
    generation: float


class LlamaCpp:
    """A server that runs."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log

    def worked(self, prefill_ms: float, generation_ms: float) -> Worked:
        """The request of which the server reported these times; its log has them to 10 us."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            for one in self._requests():
                if _same_ms(one.prefill, prefill_ms) and _same_ms(one.generation, generation_ms):
                    return one
            # What is logged is written a moment later.
            assert time.monotonic() < until_s, (prefill_ms, generation_ms)
            time.sleep(0.01)

    def _requests(self) -> Iterator[Worked]:
        known: dict[str, dict[str, float]] = {}
        for line in self._log.read_text(errors="replace").splitlines():
            if (said := _LINE.match(line)) is None:
                continue
            minutes, seconds, ms, us = (int(part) for part in said.groups()[:4])
            at = minutes * 60 + seconds + ms / 1e3 + us / 1e6
            request = known.setdefault(said["task"], {})
            if said["event"] == "launch_slot_":
                request["start"] = at
            elif (took := _TIME.match(said["what"])) is not None:
                request[took[1]] = float(took[2]) / 1e3
            elif said["event"] == "release":
                request["end"] = at
                yield Worked(request["start"], at, request["prompt eval"], request["eval"])


def cache() -> Path:
    """Where the server and its model stay between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "agentprof-tests" / "llama.cpp"


@contextmanager
def _cache_to_itself() -> Iterator[None]:
    """Tests that run beside each other do not install into it at once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = cache() / _KEPT[0]
        if not (environment / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        for name in _KEPT:
            (cache() / name).mkdir(exist_ok=True)
        yield


@contextmanager
def serving(shared: Path, folder: Path, slots: int) -> Iterator[LlamaCpp]:
    """A server with so many slots, for the block; the test is skipped where it cannot be had.

    Args:
        folder: where its log goes.
    """
    script = shared / "engine" / "start_server.sh"
    if not script.exists():
        pytest.skip("the script that starts llama.cpp's server is not there")
    for name in _KEPT:
        (folder / name).symlink_to(cache() / name)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    asked = {"DIR": str(folder), "PORT": str(port), "SLOTS": str(slots), "CTX": "1024", "THREADS": "1"}
    # To a file: a pipe would stay open as long as the server runs.
    said = folder / "start.log"
    try:
        with said.open("wb") as out, _cache_to_itself():
            done = subprocess.run(
                ["bash", str(script)],
                env=os.environ | asked,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=INSTALL_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        pytest.skip("llama.cpp's server could not be installed in time")
    text = said.read_text(errors="replace")
    ready = re.search(r"^ready (http://\S+) .*pid=(\d+)", text, re.MULTILINE)
    if done.returncode or ready is None:
        pytest.skip(f"llama.cpp's server cannot be started here: {text.strip()[-300:]}")
    try:
        yield LlamaCpp(ready[1], folder / "server.log")
    finally:
        os.kill(int(ready[2]), signal.SIGTERM)
