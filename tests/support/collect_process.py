"""`agentprof collect` as a process of its own: started, asked, killed and started again on the same file."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support.serving import Server

PATIENCE_S = 60.0
_COMMAND = (sys.executable, "-m", "agentprof", "collect")


class Ports(NamedTuple):
    """Where it listens; 0: the system chooses."""

    page: int = 0
    otlp_http: int = 0
    otlp_grpc: int = 0

    def options(self) -> list[str]:
        """On the command line."""
        pairs = zip(("--port", "--otlp-http-port", "--otlp-grpc-port"), map(str, self), strict=True)
        return [word for pair in pairs for word in pair]


class DidNotStart(Exception):
    """It ended instead: its code, and what it said on stderr."""

    def __init__(self, returncode: int, said: str) -> None:
        super().__init__(said)
        self.returncode = returncode


class CollectProcess:
    """A collector that runs from the moment it is made; use it as a context manager, so that none is left.

    Args:
        database: its file.
        ports: where it listens.
        options: further ones of the command line.
        environment: variables beside those of the test.
        largest_file_bytes: what it writes beyond that fails, as on a disk that is full; may be raised later.
    """

    def __init__(
        self,
        database: Path,
        ports: Ports = Ports(),  # noqa: B008 (it cannot change)
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        largest_file_bytes: int | None = None,
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed at the end)
        self.process = subprocess.Popen(
            [*_limited(largest_file_bytes), *_COMMAND, "--db", str(database), *ports.options(), *options],
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.printed: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line.rstrip("\n"))
            if line.startswith("database"):
                break
        if len(self.printed) < 4:
            raise DidNotStart(*self._end())
        found = [line.split()[-1].removesuffix("/v1/traces") for line in self.printed[:3]]
        self.ports = Ports(*(int(address.rpartition(":")[2]) for address in found))
        self.pages = Server(self.ports.page)
        self.otlp = Server(self.ports.otlp_http)

    @property
    def grpc_target(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.ports.otlp_grpc}"

    def allow_files_of(self, size_bytes: int) -> None:
        """There is room again."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    def largest_resident_bytes(self) -> int:
        """The most memory it has had in hand until now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise KeyError("VmHWM")

    def kill(self) -> None:
        """`kill -9`."""
        self.process.kill()
        self._end()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to stop; its code, and what it said on stderr."""
        self.process.send_signal(number)
        return self._end()

    def _end(self) -> tuple[int, str]:
        self.process.communicate(timeout=PATIENCE_S)
        self._errors.seek(0)
        with self._errors as errors:
            return self.process.returncode, errors.read()

    def __enter__(self) -> CollectProcess:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()


def start_and_kill(database: Path, ports: Ports, after_s: float) -> None:
    """Kill it so long after it was started, whatever it is doing by then."""
    command = [*_COMMAND, "--db", str(database), *ports.options()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(after_s)
        process.kill()


_LIMIT = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Beyond the limit writing fails, if the signal that comes with it is ignored. Set by the process itself: a function
run between fork and exec meets the threads of gRPC that the tests have."""


def _limited(largest_file_bytes: int | None) -> list[str]:
    return [] if largest_file_bytes is None else [sys.executable, "-c", _LIMIT, str(largest_file_bytes)]
