"""The command line: where summaries go, forms of commands, what cannot be started."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_server import ModelServer
from support.runs import OF_OPENAI, RUN, done, ran


def test_summaries_follow_on_stderr(script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """After what the program said there, with its exit code as outcome and the labels that were given."""
    file = script(OF_OPENAI + "print('mine', file=sys.stderr)\n    sys.exit(3)\n")
    run = done([*RUN, "--label", "variant=b", "--", sys.executable, file, server.url], environment)
    assert run.returncode == 3
    first, second = run.stderr.decode().splitlines()[:2]
    assert first == "mine"
    assert second.split()[:2] == ["agent.py", "failure"]
    assert "variant=b" in run.stderr.decode()
    assert "cost        $0.0000558" in run.stderr.decode()


@pytest.mark.parametrize("place", ["-", "text.txt"])
def test_summaries_go_where_they_are_asked(
    place: str, script: Any, environment: dict[str, str], server: ModelServer, tmp_path: Path
) -> None:
    """To standard output or a file, and then not to stderr."""
    file = script(OF_OPENAI)
    run = done([*RUN, "--summary", place, "--", sys.executable, file, server.url], environment, cwd=tmp_path)
    text = run.stdout.decode() if place == "-" else (tmp_path / place).read_text()
    assert re.search(r"^agent\.py +success ", text, re.MULTILINE)
    assert run.stderr == b""


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["no-such-program"], 127, "command not found: no-such-program"),
        (["./notes.txt"], 126, "./notes.txt cannot be executed"),
    ],
)
def test_what_cannot_be_started_is_said_as_by_a_shell(
    command: list[str], code: int, said: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """127 for what is not there, 126 for what is no program."""
    (tmp_path / "notes.txt").write_text("text")
    run = done([*RUN, "--", *command], environment, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (code, b"")
    assert run.stderr.decode().startswith(f"agentprof: {said}")


@pytest.mark.parametrize("options", [[], ["--label", "x"], ["--task", "f"], ["--what"]])
def test_wrong_usage(options: list[str], environment: dict[str, str]) -> None:
    """Exit code 2 and what was expected."""
    command = ["--", "true"] if options else []
    run = done([*RUN, *options, *command], environment)
    assert run.returncode == 2
    assert b"usage: agentprof run" in run.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["-m", "pkg.mod"], "-m pkg.mod"),
        (["agent.py"], "agent.py"),
        (["{python}", "-u", "agent.py"], "agent.py"),
    ],
)
def test_every_form_of_command_works(
    command: list[str], name: str, script: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """A module, a script by itself, an interpreter with options."""
    script("import sys; print(__name__, sys.argv[1:])", "pkg/mod.py")
    script("import sys; print(__name__, sys.argv[1:])")
    filled = [part.format(python=sys.executable) for part in command]
    run, (task,) = ran([], [*filled, "--label"], environment, cwd=tmp_path)
    assert run.stdout == b"__main__ ['--label']\n"
    assert task["name"] == name
