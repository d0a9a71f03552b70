"""A program under `agentprof run` beside the same program alone: output, exit code, environment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.model_server import CHAT, ModelServer, Reply
from support.runs import OF_OPENAI, RUN, as_a_shell_says, done, ran

ALIKE = {
    "prints": """
        import sys
        print("out")
        print("err", file=sys.stderr)
        """,
    "bytes": """
        import sys
        sys.stdout.buffer.write(bytes(range(256)))
        sys.stderr.buffer.write(bytes(range(255, -1, -1)))
        """,
    "exits 3": "raise SystemExit(3)",
    "exits with a text": "raise SystemExit('over')",
    "raises": """
        def broken():
            raise ValueError("no")
        broken()
        """,
    "leaves at once": """
        import os
        print("before", flush=True)
        os._exit(7)
        """,
    "kills itself": """
        import os, signal
        print("before", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    "terminates itself": """
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    "interrupts itself": """
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
        """,
    "reads": """
        import sys
        print(sys.stdin.read()[::-1], sys.stdin.isatty())
        """,
    "looks at itself": """
        import sys
        print(sys.path, sys.argv, sys.orig_argv, sys.flags, __name__, __file__)
        print(sorted(name for name in sys.modules if name.startswith(("agentprof", "opentelemetry"))))
        """,
    "forks": """
        import multiprocessing
        def work(number):
            print("child", number, flush=True)
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                process = multiprocessing.get_context(method).Process(target=work, args=(1,))
                process.start()
                process.join()
                print(method, process.exitcode)
        """,
    "starts others": """
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "print(1); raise SystemExit(4)"]).returncode)
        """,
    "threads and asyncio": """
        import asyncio, concurrent.futures
        async def double(number):
            await asyncio.sleep(0)
            return await asyncio.to_thread(lambda: 2 * number)
        async def main():
            return await asyncio.gather(*map(double, range(20)))
        print(asyncio.run(main()))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            print(list(pool.map(abs, range(-5, 5))))
        """,
}


@pytest.mark.parametrize("name", ALIKE)
def test_the_program_is_alike(name: str, script: Any, environment: dict[str, str]) -> None:
    """Same output, byte for byte, and same exit code."""
    file = script(ALIKE[name])
    given = {"input": b"some\xffthing\n", "cwd": file.parent} if name != "reads" else {"input": b"abc\n"}
    plain = done([sys.executable, file, "an argument"], environment, **given)
    run = done([*RUN, "--quiet", "--", sys.executable, file, "an argument"], environment, **given)
    assert run.stdout == plain.stdout
    assert run.stderr == plain.stderr
    assert run.returncode == as_a_shell_says(plain.returncode)


def test_a_program_that_calls_models_is_alike(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """It knows nothing of agentprof; its calls are recorded all the same."""
    file = script(OF_OPENAI)
    replies = [Reply.json(CHAT), Reply.stream(), Reply.json({"error": {"message": "no"}}, 400)]
    server.replies = [*replies, replies[-1]]
    plain = done([sys.executable, file, server.url], environment)
    server.replies = [*replies, replies[-1]]
    run, (task,) = ran(["--quiet"], [sys.executable, file, server.url], environment)
    assert (run.stdout, run.stderr, run.returncode) == (plain.stdout, plain.stderr, 0)
    assert (task["name"], task["task_source"], task["outcome"]) == ("agent.py", "run", "success")
    assert (task["calls"], task["errors"]["call"]) == (3, 1)
    assert task["tokens"]["input"] == 200
    assert task["run"]["sdks"].startswith("openai 3.")
    assert task["run"]["python"] == sys.version.split()[0]


def test_another_sitecustomize_is_loaded_too(
    script: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """As it is without us, its failure included."""
    (tmp_path / "sitecustomize.py").write_text("import sys; print('theirs', __file__); sys.theirs = 1")
    file = script("import sys, sitecustomize; print(sys.theirs, sitecustomize.__file__)", "x/agent.py")
    environment = environment | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, file]
    run_alone = [sys.executable, "-E", *RUN[1:]]  # which does not load it itself
    plain, run = done(command, environment), done([*run_alone, "--quiet", "--", *command], environment)
    assert (run.stdout, run.stderr) == (plain.stdout, plain.stderr)
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')")
    plain, run = done(command, environment), done([*run_alone, "--quiet", "--", *command], environment)
    assert b"ValueError: theirs" in plain.stderr
    assert (run.stdout, run.stderr, run.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_program_with_a_provider_of_its_own_keeps_it(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """The global tracer provider is left to the program, and its spans keep their parents."""
    file = script(
        """
        import sys
        from openai import OpenAI
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(kept))
        trace.set_tracer_provider(provider)
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        with trace.get_tracer("mine").start_as_current_span("request"):
            client.chat.completions.create(model="gpt-4o-mini", messages=[])
        print([(span.name, span.parent, dict(span.attributes)) for span in kept.get_finished_spans()])
        """
    )
    run, (task,) = ran([], [sys.executable, file, server.url], environment)
    assert (run.stdout, run.returncode) == (b"[('request', None, {})]\n", 0)
    assert (task["calls"], task["task_source"]) == (1, "run")


def test_open_files_are_inherited(script: Any, environment: dict[str, str], tmp_path: Path) -> None:
    """As by a shell: `3<file` and `<(command)` reach the program."""
    (tmp_path / "given").write_text("from file 3")
    file = script("import os; print(os.read(3, 100).decode())")
    command = f"exec {' '.join(RUN)} --quiet -- {sys.executable} {file} 3<given"
    assert done(["sh", "-c", command], environment, cwd=tmp_path).stdout == b"from file 3\n"


@pytest.mark.parametrize(
    "name",
    [
        "json",
        "operator",
        "keyword",
        "re",
        "enum",
        "functools",
        "collections",
        "contextlib",
        "warnings",
        "types",
    ],
)
def test_a_module_beside_the_script_may_be_named_like_one_of_the_library(
    name: str, script: Any, environment: dict[str, str]
) -> None:
    """What starts agentprof in the process has not loaded that of the standard library before it."""
    file = script(f"import sys, {name}; print(getattr({name}, 'MINE', None))")
    file.with_name(f"{name}.py").write_text("MINE = True\n")
    plain = done([sys.executable, file], environment)
    run = done([*RUN, "--quiet", "--", sys.executable, file], environment)
    assert (run.stdout, run.stderr, run.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_start_loads_no_module_that_a_bare_start_does_not(script: Any, environment: dict[str, str]) -> None:
    """But `sitecustomize` itself."""
    file = script("import sys; print(*sorted(sys.modules))")
    plain = done([sys.executable, file], environment)
    run = done([*RUN, "--quiet", "--", sys.executable, file], environment)
    assert set(run.stdout.split()) - set(plain.stdout.split()) <= {b"sitecustomize"}


def test_a_program_that_empties_its_environment_is_recorded(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """The process was told what it needs when it started."""
    server.replies = [Reply.json(CHAT), Reply.stream(), Reply.json({"error": {"message": "no"}}, 400)]
    file = script("    import os; os.environ.clear()\n" + OF_OPENAI.lstrip("\n"))
    run, (task,) = ran(["--quiet"], [sys.executable, file, server.url], environment)
    assert (run.returncode, task["calls"]) == (0, 3)
