"""Signals, sent by a terminal or to agentprof alone, reach the program as they should."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from typing import Any

import pytest
from support.runs import RUN, started

WAITS = """
    import signal, sys
    def leave(number, frame):
        print("left by", signal.Signals(number).name, flush=True)
        sys.exit(5)
    if len(sys.argv) > 1:
        signal.signal(getattr(signal, sys.argv[1]), leave)
    try:
        print("ready", flush=True)
        while True:
            signal.pause()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise
    """


@pytest.mark.parametrize(
    ("number", "handled", "code", "said"),
    [
        (signal.SIGTERM, [], 143, ""),
        (signal.SIGTERM, ["SIGTERM"], 5, "left by SIGTERM\n"),
        (signal.SIGHUP, ["SIGHUP"], 5, "left by SIGHUP\n"),
        (signal.SIGINT, [], 130, "interrupted\n"),
        (signal.SIGINT, ["SIGINT"], 5, "left by SIGINT\n"),
    ],
)
def test_signals_reach_the_program(
    number: signal.Signals, handled: list[str], code: int, said: str, script: Any, environment: dict[str, str]
) -> None:
    """Those sent to agentprof alone; the summaries follow all the same."""
    file = script(WAITS)
    command = [*RUN, "--", sys.executable, file, *handled]
    with started(command, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (out, process.returncode) == (said, code)
    assert re.search(r"^agent\.py +failure ", err, re.MULTILINE)


def test_ctrl_c_in_a_terminal_reaches_the_program_once(script: Any, environment: dict[str, str]) -> None:
    """The terminal sends it to both; agentprof waits for the program and then shows the summary."""
    file = script(
        """
        import signal
        caught = []
        signal.signal(signal.SIGINT, lambda *_: caught.append(1))
        print("ready", flush=True)
        while not caught:
            signal.pause()
        signal.sigtimedwait([signal.SIGUSR1], 0.3)  # time for a second one that must not come
        print("caught", len(caught), flush=True)
        """
    )
    terminal, inside = pty.openpty()
    with started(
        [*RUN, "--", sys.executable, file],
        environment,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        os.close(inside)
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        try:
            while piece := os.read(terminal, 1000):
                seen += piece
        except OSError:  # how a terminal whose other side is closed ends
            pass
        process.wait(timeout=60)
    os.close(terminal)
    assert b"caught 1\r\n" in seen
    assert process.returncode == 0
    assert b"success" in seen.split(b"caught 1")[1]
