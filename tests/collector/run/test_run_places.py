"""Where the spans of a run are kept: its database, the collector that holds it, or a file of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.collecting import collecting, refusing
from support.model_server import ModelServer
from support.runs import OF_OPENAI, RUN, done, ran, started

from agentprof_collector.collect.lockfile import LockFile, lock_path
from agentprof_collector.place import forward
from agentprof_collector.receive.exchange import Request
from agentprof_collector.stores import Store, open_store


@pytest.fixture
def held(environment: dict[str, str]) -> Iterator[Store]:
    """The database of the environment, held by this process."""
    with open_store(Path(environment["AGENTPROF_DB"])) as store:
        yield store


def names_a_collector(environment: dict[str, str], url: str) -> None:
    """Writes what a running collector writes beside its database."""
    Path(environment["AGENTPROF_DB"] + ".lock.json").write_text(f'{{"pid": 1, "url": "{url}"}}')


def test_the_database_has_the_tasks_afterwards(
    script: Any, environment: dict[str, str], server: ModelServer, tmp_path: Path
) -> None:
    """That of --db, else of the environment; a second run adds to it."""
    command = [sys.executable, script(OF_OPENAI), server.url]
    named = tmp_path / "named.duckdb"
    for _ in range(2):
        _, (task,) = ran(["--db", named], command, environment)
    with open_store(named, read_only=True) as store:
        tasks = store.tasks()
    assert [found.name for found in tasks] == ["agent.py"] * 2
    assert tasks[0].to_dict() == task
    assert not Path(environment["AGENTPROF_DB"]).exists()


def test_spans_go_to_the_collector_that_holds_the_database(
    script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """It gets all of them, and the run shows its summary all the same."""
    with collecting() as collected:
        names_a_collector(environment, collected.url)
        run, (task,) = ran([], [sys.executable, script(OF_OPENAI), server.url], environment)
    spans = {span.span_id: span for span in collected.received}
    assert len(spans) == task["calls"] + 1 == 4
    assert {span.trace_id for span in spans.values()} == set(task["trace_ids"])
    assert run.stderr == b""
    assert held.tasks() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "401: it asks for its token, set AGENTPROF_TOKEN"),
        ("wrong", "401: what AGENTPROF_TOKEN holds is not"),
    ],
)
def test_a_collector_that_asks_for_its_token_is_told_with_what_to_do(
    given: str, said: str, script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """And no page is named that does not show the run."""
    with collecting(token="a-token-of-sixteen-characters") as collected:
        names_a_collector(environment, collected.url)
        environment["AGENTPROF_TOKEN"] = given
        run = done([*RUN, "--", sys.executable, script(OF_OPENAI), server.url], environment)
    assert f"the collector at {collected.url} did not take the spans ({said}" in run.stderr.decode()
    assert "more: " not in run.stderr.decode()


def test_a_page_is_named_only_while_somebody_answers_there(
    script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """Not when the collector took the spans, and has ended since."""
    source = OF_OPENAI + "print('asked', flush=True); sys.stdin.read()\n"
    command = [*RUN, "--", sys.executable, str(script(source)), server.url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for ends in (False, True):
        with collecting() as collected:
            names_a_collector(environment, collected.url)
            with started(command, environment, **pipes) as process:
                assert process.stdout is not None
                assert "asked\n" in iter(process.stdout.readline, "")
                if ends:
                    collected.collector.stop()
                _, err = process.communicate("", timeout=60)
        assert (f"more: {collected.url}" in err) is not ends


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://[::1", "http://", "http://127.0.0.1:1"])
def test_a_note_that_names_no_collector_costs_no_span(url: str) -> None:
    """Why it could not be passed on is given back, and nothing raised: it is kept here."""
    request = Request("traces", "protobuf", "", b"")
    assert forward(LockFile(url=url, pid=1), request)


@pytest.mark.parametrize("listens", [True, False])
def test_a_collector_that_takes_nothing_is_told(
    listens: bool, script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """The summary is shown; the program neither waits nor fails."""
    with collecting(hooks=refusing()) as collected:
        names_a_collector(environment, collected.url)
        if not listens:
            collected.collector.stop()
        run, (task,) = ran([], [sys.executable, script(OF_OPENAI), server.url], environment)
    assert task["calls"] == 3
    assert f"the collector at {collected.url} did not take the spans" in run.stderr.decode()


def test_a_database_held_by_something_else_keeps_the_run_apart(
    script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """Where it is, and that it is whole."""
    run, (task,) = ran([], [sys.executable, script(OF_OPENAI), server.url], environment)
    said = run.stderr.decode()
    assert "is held by process" in said
    apart = re.search(r"agentprof report --db (\S+)", said)
    assert apart is not None
    shown = done(
        [sys.executable, "-m", "agentprof", "report", "--db", apart[1], task["task_id"]], environment
    )
    assert b"3 model calls" in shown.stdout
    assert held.tasks() == []


def test_a_run_kept_apart_moves_when_the_database_is_free(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """Nothing is left of the other file, and nothing is said."""
    source = OF_OPENAI + "print('asked', flush=True); sys.stdin.read()\n"
    command = [*RUN, "--quiet", "--", sys.executable, str(script(source)), server.url]
    database = Path(environment["AGENTPROF_DB"])
    environment["TMPDIR"] = str(database.parent)
    store = open_store(database)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, environment, **pipes) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert "asked\n" in lines
        store.close()
        _, err = process.communicate("", timeout=60)
    assert (process.returncode, err) == (0, "")
    with open_store(database, read_only=True) as store:
        assert [(task.name, task.calls) for task in store.tasks()] == [("agent.py", 3)]
    assert list(database.parent.glob("agentprof-run-*")) == []


def test_what_is_no_database_is_an_error_before_the_program_starts(
    script: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    """With the file and what to do."""
    (tmp_path / "notes.txt").write_text("no database" * 100)
    run = done([*RUN, "--db", tmp_path / "notes.txt", "--", "echo", "started"], environment)
    assert (run.returncode, run.stdout) == (1, b"")
    assert b"notes.txt: cannot be opened" in run.stderr


def test_without_the_collectors_packages_spans_go_where_they_always_go(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """To the endpoint of the environment, the span of the run among them; how to get summaries is said."""
    without = "import sys; sys.modules['agentprof_collector'] = None; from agentprof._cli import main; "
    command = [sys.executable, "-c", without + "sys.exit(main())", "run"]
    with collecting() as collected:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collected.url
        run = done(
            [*command, "--label", "a=b", "--", sys.executable, script(OF_OPENAI), server.url], environment
        )
    spans = collected.received
    assert sorted(span.name for span in spans) == ["agent.py", *["chat gpt-4o-mini"] * 3]
    (task,) = [span for span in spans if span.name == "agent.py"]
    assert task.attributes["agentprof.label.a"] == "b"
    assert {span.trace_id for span in spans} == {task.trace_id}
    assert b"pip install 'agentprof-otel[collector]'" in run.stderr
    refused = done([*command, "--summary", "x.json", "--", "echo", "started"], environment)
    assert (refused.returncode, refused.stdout) == (2, b"")


def test_nothing_is_sent_to_an_address_that_another_user_named(
    script: Any, environment: dict[str, str], server: ModelServer, held: Store
) -> None:
    """Whoever can write beside a database could else have spans and token sent anywhere."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    database = Path(environment["AGENTPROF_DB"])
    with collecting() as collected:
        names_a_collector(environment, collected.url)
        os.chown(lock_path(database), 12_345, 12_345)
        run, (task,) = ran([], [sys.executable, script(OF_OPENAI), server.url], environment)
    assert task["calls"] == 3
    assert collected.received == []
    assert "kept apart" in run.stderr.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux alone")
def test_names_that_are_no_text(script: Any, environment: dict[str, str], tmp_path: Path) -> None:
    """A script, a label and the folder of temporary files may be named in any bytes."""
    odd = os.fsdecode(b"caf\xe9")
    folder = tmp_path / odd
    folder.mkdir()
    result, (task,) = ran(
        ["--label", f"{odd}={odd}"],
        [sys.executable, script('print("worked")', f"{odd}.py")],
        environment | {"TMPDIR": str(folder)},
    )
    assert (result.returncode, result.stdout) == (0, b"worked\n")
    assert b"no model call was recorded" in result.stderr  # the notes of the process were found
    assert (task["name"], task["labels"]) == ("caf?.py", {"caf?": "caf?"})
