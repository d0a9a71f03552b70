"""Runs the program as a shell would: same streams, same signals, same exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
_SIGNALLED: Final = 128

_FORWARDED: Final = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
_OF_TERMINAL: Final = ("SIGINT", "SIGQUIT")
"""Sent by a terminal to the whole group of processes: the program has its own."""


class NotStarted(Exception):
    """The program could not be started."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Ended:
    """How the program went."""

    exit_code: int
    """128 + N if signal N ended it."""
    pid: int
    start_ns: int
    """Wall clock, ns since the epoch."""
    end_ns: int


def inherited_files() -> tuple[int, ...]:
    """Open files beyond the three streams that a program started by the shell would get."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError, ValueError):
                if (number := int(name)) > 2 and os.get_inheritable(number):
                    found.append(number)
    return tuple(found)


def as_started(command: Sequence[str]) -> list[str]:
    """The command with an interpreter where it needs one: `-m module`, and a file of Python source."""
    if command[0] == "-m" or (command[0].endswith(".py") and os.path.isfile(command[0])):
        return [sys.executable, *command]
    return list(command)


def run(command: Sequence[str], environment: Mapping[str, str], files: Sequence[int]) -> Ended:
    """Run a program to its end.

    Args:
        command: as `as_started` gives it.
        environment: its environment.
        files: open files it inherits beside its three streams.

    Raises:
        NotStarted: there is no such program, or it cannot be executed.
    """
    child: list[subprocess.Popen[bytes]] = []
    pending: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if child:
            _send(child[0], number)
        else:
            pending.append(number)

    def from_terminal(number: int, frame: FrameType | None) -> None:
        if not _in_foreground():
            forward(number, frame)

    with _handlers({**dict.fromkeys(_FORWARDED, forward), **dict.fromkeys(_OF_TERMINAL, from_terminal)}):
        start_ns = time.time_ns()
        child.append(_start(command, environment, files))
        for number in pending:
            _send(child[0], number)
        code = child[0].wait()
        end_ns = time.time_ns()
    return Ended(code if code >= 0 else _SIGNALLED - code, child[0].pid, start_ns, end_ns)


def _start(
    command: Sequence[str], environment: Mapping[str, str], files: Sequence[int]
) -> subprocess.Popen[bytes]:
    name = command[0]
    try:
        return subprocess.Popen(list(command), env=dict(environment), pass_fds=tuple(files))
    except FileNotFoundError as error:
        raise NotStarted(f"command not found: {name}", _NOT_FOUND) from error
    except PermissionError as error:
        raise NotStarted(f"{name} cannot be executed: {error.strerror}", _NOT_EXECUTABLE) from error
    except OSError as error:
        advice = " (no #! line?)" if error.errno == errno.ENOEXEC else ""
        raise NotStarted(f"{name} cannot be executed: {error.strerror}{advice}", _NOT_EXECUTABLE) from error


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(OSError):
        child.send_signal(number)


def _in_foreground() -> bool:
    """Whether a terminal sends its signals to this group of processes."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextlib.contextmanager
def _handlers(handlers: Mapping[str, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    """Signals that are ignored here stay so, in the program too."""
    before: dict[int, Any] = {}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
