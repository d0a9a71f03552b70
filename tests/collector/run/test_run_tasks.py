"""Which tasks a run shows, and what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_server import CHAT, ModelServer
from support.runs import RUN, ran, started


def test_tasks_of_the_program_are_tasks(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Declared ones stand alone, with the labels of the run; the run is none if nothing else is in it."""
    file = script(
        """
        import sys
        from openai import OpenAI
        import agentprof
        agentprof.instrument(service_name="mine")
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        for number in range(2):
            with agentprof.task("answer", id=f"task-{number}", labels={"number": str(number)}) as task:
                client.responses  # lazily made
                client.chat.completions.create(model="gpt-4o-mini", messages=[])
                task.outcome("failure" if number else "success")
        """
    )
    _, tasks = ran(["--label", "variant=b"], [sys.executable, file, server.url], environment)
    assert [task["task_id"] for task in tasks] == ["task-0", "task-1"]
    assert [task["outcome"] for task in tasks] == ["success", "failure"]
    assert [task["labels"] for task in tasks] == [{"number": str(n), "variant": "b"} for n in range(2)]
    assert [(task["calls"], task["parent_task_id"], task["task_source"]) for task in tasks] == [
        (1, None, "declared")
    ] * 2
    assert all(task["services"] == ["mine"] and task["complete"] for task in tasks)
    assert tasks[0]["run"]["sdks"].startswith("openai 3.")


def test_what_the_program_says_of_the_run_holds(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Outcome, score and labels, though the exit code says otherwise."""
    file = script(
        """
        import agentprof
        run = agentprof.current_task()
        run.outcome("failure", 0.25)
        run.label("kind", "test")
        with agentprof.tool("look"):
            pass
        """
    )
    run, (task,) = ran([], [sys.executable, file], environment)
    assert run.returncode == 0
    assert (task["outcome"], task["score"], task["labels"]) == ("failure", 0.25, {"kind": "test"})
    assert task["tools"]["look"]["runs"] == 1
    assert task["complete"]


def test_processes_of_the_program_belong_to_the_run(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """However they are started: by multiprocessing, or as a Python of their own."""
    file = script(
        """
        import multiprocessing, subprocess, sys
        def ask(url):
            from openai import OpenAI
            import os
            client = OpenAI(base_url=url, api_key="key")
            client.chat.completions.create(model="gpt-4o-mini", messages=[])
        if __name__ == "__main__":
            spawned = multiprocessing.get_context("spawn").Process(target=ask, args=(sys.argv[1],))
            spawned.start()
            spawned.join()
            subprocess.run([sys.executable, "-c", f"import agent; agent.ask({sys.argv[1]!r})"], check=True)
            ask(sys.argv[1])
        """
    )
    run, (task,) = ran([], [sys.executable, file, server.url], environment, cwd=file.parent)
    assert run.returncode == 0, run.stderr
    assert (task["calls"], task["complete"], len(task["trace_ids"])) == (3, True, 1)


def test_functions_are_marked_from_outside(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Functions and methods of modules, of every kind; what is not found is said."""
    script(
        """
        import agentprof
        class Tools:
            @staticmethod
            def search(text): return text
            @classmethod
            def make(cls): return cls()
        async def answer(client):
            Tools.search("x")
            Tools.make()
            return plan(client)
        def plan(client):
            return client.chat.completions.create(model="gpt-4o-mini", messages=[])
        """,
        "parts.py",
    )
    file = script(
        """
        import asyncio, sys
        from openai import OpenAI
        from parts import answer
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        for _ in range(2):
            print(asyncio.run(answer(client)).usage.prompt_tokens)
        """
    )
    marks = ["--task", "parts:answer", "--tool", "parts:Tools.search", "--tool", "parts:Tools.make"]
    marks += ["--step", "parts:plan", "--task", "parts:missing", "--task", "nowhere:function"]
    run, tasks = ran(marks, [sys.executable, file, server.url], environment, cwd=file.parent)
    assert run.stdout == b"100\n100\n"
    assert [(task["name"], task["calls"]) for task in tasks] == [("answer", 1)] * 2
    assert {name: row["runs"] for name, row in tasks[0]["tools"].items()} == {"make": 1, "search": 1}
    assert ["answer", "plan", CHAT["model"]] in [node["path"] for node in tasks[0]["nodes"]]
    said = run.stderr.decode()
    assert "--task parts:missing: there is no missing in it" in said
    assert "--task nowhere:function: the program never imported nowhere" in said


def test_the_run_is_a_task_though_the_program_was_killed(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """With the exit code as outcome, and the commit it came from."""
    file = script(
        """
        import os, signal, sys
        from openai import OpenAI
        OpenAI(base_url=sys.argv[1], api_key="key").chat.completions.create(model="gpt-4o-mini", messages=[])
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(file.parent)]
    for arguments in (["init", "-q"], ["add", "agent.py"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    run, (task,) = ran([], [sys.executable, file, server.url], environment)
    assert run.returncode == 137
    assert (task["name"], task["outcome"], task["task_source"]) == ("agent.py", "failure", "run")
    assert (task["run"]["git_sha"], task["run"]["dirty"]) == (head.strip(), "false")


def test_a_launcher_lends_its_name_to_the_program(
    script: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """The run of `sh -c 'python agent.py'` is called after agent.py."""
    file = script("pass")
    _, (task,) = ran([], ["sh", "-c", f"{sys.executable} {file}; exit 5"], environment)
    assert (task["name"], task["outcome"]) == ("agent.py", "failure")


SCRIPT = """
    import asyncio, sys
    from openai import AsyncOpenAI, OpenAI
    client, aclient = OpenAI(base_url=sys.argv[1], api_key="x"), AsyncOpenAI(base_url=sys.argv[1], api_key="x")
    asked = dict(model="gpt-4o-mini", messages=[])

    def answer(number):
        client.chat.completions.create(**asked)
        if number == 1:
            raise ValueError

    async def aanswer():
        await asyncio.sleep(0)
        return await aclient.chat.completions.create(**asked)

    def generated():
        for _ in range(2):
            yield client.chat.completions.create(**asked)

    async def main():
        await asyncio.gather(aanswer(), aanswer())

    for number in range(3):
        try:
            answer(number)
        except ValueError:
            pass
    for _ in generated():
        client.chat.completions.create(**asked)
    asyncio.run(main())
    """


@pytest.mark.skipif(sys.version_info < (3, 12), reason="marking functions of a script needs Python 3.12")
def test_functions_of_the_script_are_marked(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Plain ones, coroutines side by side, and generators, between whose steps the program is outside."""
    marks = [part for name in ("answer", "aanswer", "generated") for part in ("--task", f"__main__:{name}")]
    _, tasks = ran(marks, [sys.executable, script(SCRIPT), server.url], environment)
    found = sorted((task["name"], task["outcome"], task["calls"]) for task in tasks if task["outcome"])
    assert found == [("agent.py", "success", 2), ("answer", "failure", 1)]
    others = sorted((task["name"], task["calls"]) for task in tasks if not task["outcome"])
    assert others == [("aanswer", 1), ("aanswer", 1), ("answer", 1), ("answer", 1), ("generated", 2)]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python can")
def test_functions_of_the_script_cannot_be_marked(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Which is said, with what to do; and they are not advised."""
    command = [sys.executable, script(SCRIPT), server.url]
    run, (task,) = ran(["--task", "__main__:answer"], command, environment)
    assert task["calls"] == 9
    assert b"--task __main__:answer: functions of the script itself" in run.stderr
    for line in run.stderr.decode().splitlines():
        assert "agentprof run --task" not in line


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_calls_in_a_pool_that_is_left_are_all_recorded(
    method: str, script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Leaving `with Pool()` kills the workers without a word: what they did has left them by then."""
    file = script(
        f"""
        import multiprocessing, sys
        from openai import OpenAI
        def work(number):
            client = OpenAI(base_url=sys.argv[1], api_key="key")
            client.chat.completions.create(model="gpt-4o-mini", messages=[])
        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                pool.map(work, range(4))
            work(0)
        """
    )
    run, tasks = ran(["--quiet"], [sys.executable, file, server.url], environment)
    assert (run.returncode, sum(task["calls"] for task in tasks)) == (0, 5)


def test_a_run_can_be_followed(script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """Its page answers while the program runs, and each task has its line when it is finished."""
    file = script(
        """
        import re, sys, urllib.request
        import agentprof
        from openai import OpenAI
        agentprof.instrument()
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        with agentprof.task("answer", id="one"):
            client.chat.completions.create(model="gpt-4o-mini", messages=[])
        agentprof.flush()
        address = sys.stdin.readline().strip()
        with urllib.request.urlopen(address + "/api/v1/tasks/one") as answer:
            print(answer.read().decode())
        """
    )
    command = [*RUN, "--follow", "--", sys.executable, str(file), server.url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, environment, **pipes) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        address = told.removeprefix("agentprof: tasks are shown at ").strip()
        out, err = process.communicate(address + "\n", timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["calls"] == 1
    assert "agentprof: answer: " in err
