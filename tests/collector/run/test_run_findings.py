"""What `agentprof run` tells the user beside the figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_server import ModelServer
from support.runs import RUN, done, ran


def test_the_function_that_could_be_the_task_is_named(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """And the command that makes it one, which then works."""
    script(
        """
        def ask(client):
            return client.chat.completions.create(model="gpt-4o-mini", messages=[])
        def answer(client):
            return [ask(client) for _ in range(2)] and ask(client)
        """,
        "parts.py",
    )
    file = script(
        """
        import sys, concurrent.futures
        from openai import OpenAI
        import parts
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        def main():
            for _ in range(2):
                parts.answer(client)
        main()
        """
    )
    command = [sys.executable, str(file), server.url]
    run = done([*RUN, "--label", "a=b", "--", *command], environment, cwd=file.parent)
    said = run.stderr.decode()
    assert "6 calls belong to no task but the run; parts:ask is on the stack of all of them" in said
    advice = said.splitlines()[-1].split()
    assert advice == ["agentprof", "run", "--label", "a=b", "--task", "parts:ask", "--", *command]
    again, tasks = ran(advice[2:-4], command, environment, cwd=file.parent)
    assert again.returncode == 0
    assert [task["name"] for task in tasks] == ["ask"] * 6


def test_nothing_captured_is_explained(script: Any, environment: dict[str, str], tmp_path: Path) -> None:
    """Which SDKs were imported, what is instrumented, and what to do."""
    imports = done([*RUN, "--", sys.executable, "-c", "import openai"], environment)
    assert b"no model call was recorded" in imports.stderr
    assert b"SDKs imported: openai 3." in imports.stderr
    assert b"openai._base_client" in imports.stderr
    isolated = done([*RUN, "--", sys.executable, "-I", "-c", "import openai"], environment)
    assert b"started with -I, -E or -S" in isolated.stderr
    nothing = done([*RUN, "--", sys.executable, "-c", "pass"], environment)
    assert b"SDKs imported: none that is known" in nothing.stderr


def test_an_environment_without_agentprof_is_told(
    script: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """The program runs as it does alone; how to install agentprof there follows."""
    (tmp_path / "agentprof" / "_run").mkdir(parents=True)
    (tmp_path / "agentprof" / "__init__.py").touch()
    (tmp_path / "openai.py").write_text("print('an SDK')")
    file = script("import openai")
    run = done([*RUN, "--", sys.executable, file], environment)
    assert run.stdout == b"an SDK\n"
    assert b"has no agentprof" in run.stderr
    assert f"{sys.executable} -m pip install agentprof-otel".encode() in run.stderr


@pytest.mark.parametrize("name", ["agentprof.py", "agentprof/__init__.py"])
def test_a_module_of_the_name_beside_the_program(
    script: Any, environment: dict[str, str], tmp_path: Path, name: str
) -> None:
    """Is named as what hides agentprof, and is loaded when the program asks for it, not before."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('mine')")
    (tmp_path / "openai.py").write_text("print('an SDK')")
    run = done([*RUN, "--", sys.executable, script("import openai, agentprof")], environment)
    assert run.stdout == b"an SDK\nmine\n"
    assert f"{file} has the name of agentprof".encode() in run.stderr
    assert b"pip install agentprof-otel" not in run.stderr
