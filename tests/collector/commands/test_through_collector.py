"""The commands give the same answers whoever holds the database: nobody, or a running collector."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentprof_collector import running
from agentprof_collector.collect.lockfile import LockFile, lock_path, read_lock, write_lock

Demo = tuple[list[dict[str, Any]], Path]
Run = Callable[..., Any]

REPORTS = [
    [],
    ["--json"],
    ["--json", "--limit", "2"],
    ["--csv"],
    ["--group-by", "label.customer"],
    ["--group-by", "outcome", "--json"],
    ["--by", "tool"],
    ["--by", "model", "--json", "--outcome", "success"],
    ["--calls"],
    ["--calls", "--json", "--label", "customer=globex"],
    ["--calls", "--csv", "--name", "tidy files"],
    ["--name", "tidy files", "--outcome", "failure", "--json"],
    ["--search", "TIDY", "--since", "2020-01-01", "--until", "2100-01-01", "--json"],
    ["--since", "1970-01-03", "--until", "1970-01-05T12:00:00.000001", "--json"],
    ["--since", "1970-01-01", "--until", "9999-12-31", "--json"],
    ["--service", "agentprof-demo", "--csv"],
    ["--service", "none"],
    ["TASK"],
    ["TASK", "--json"],
    ["TASK", "--calls", "--json"],
    ["TASK", "--by", "tool", "--csv"],
    ["--calls", "--by", "context"],
    ["--calls", "--by", "concurrency", "--json", "--label", "customer=globex"],
    ["TASK", "--calls", "--by", "context", "--csv"],
    ["--estimate"],
    ["--estimate", "--csv", "--name", "tidy files"],
    ["TASK", "--estimate", "--json"],
    ["--gpu-hours"],
    ["--gpu-hours", "--json", "--label", "customer=globex"],
    ["none"],
    ["…"],
]


@contextmanager
def collecting(database: Path, **environment: str) -> Iterator[str]:
    """`agentprof collect` on a database, in a process of its own; the address of its page."""
    ports = [word for name in ("--port", "--otlp-http-port", "--otlp-grpc-port") for word in (name, "0")]
    command = [sys.executable, "-m", "agentprof", "collect", "--db", str(database), *ports]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=os.environ | environment, **pipes) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.fixture
def database(demo_run: Demo, tmp_path: Path) -> Path:
    """The tasks of the demo, in a file of this test."""
    return Path(shutil.copy(demo_run[1], tmp_path / "own.duckdb"))


def test_reports_are_the_same_byte_for_byte(agentprof_command: Run, demo_run: Demo, database: Path) -> None:
    """Tables, JSON, CSV and errors: from the file, from the collector that holds it, and from an address."""
    first = demo_run[0][0]["task_id"][:8]
    asked = [[first if word == "TASK" else word for word in words] for words in REPORTS]
    of_file = [agentprof_command("report", "--db", database, *words) for words in asked]
    assert [done.returncode for done in of_file] == [0] * (len(REPORTS) - 2) + [1, 1]
    assert "there is no task 'none'" in of_file[-2].stderr
    assert "beginning of several tasks" in of_file[-1].stderr
    with collecting(database) as url:
        for where in (["--db", database], ["--url", url]):
            for words, expected in zip(asked, of_file, strict=True):
                assert agentprof_command("report", *where, *words) == expected, words


def test_an_outcome_is_recorded_through_the_collector(
    agentprof_command: Run, demo_run: Demo, database: Path
) -> None:
    """The report has it at once, and the file afterwards."""
    task_id = demo_run[0][0]["task_id"]
    with collecting(database) as url:
        done = agentprof_command("outcome", "--url", url, task_id[:8], "failure", "--score", "0.25")
        assert done == (0, f"{task_id}: failure, score 0.25\n", "")
        after = json.loads(agentprof_command("report", "--db", database, task_id, "--json").stdout)
        assert (after["outcome"], after["score"]) == ("failure", 0.25)
        kept = json.loads(agentprof_command("outcome", "--db", database, task_id, "success", "--json").stdout)
        assert (kept["task_id"], kept["outcome"], "score" in kept) == (task_id, "success", False)
    of_file = json.loads(agentprof_command("report", "--db", database, task_id, "--json").stdout)
    assert of_file["outcome"] == "success"


def test_more_rows_than_a_page_of_the_api(
    agentprof_command: Run, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages are put together: all rows, as many as were asked for, and those that follow."""
    monkeypatch.setattr(running, "_PAGE", {"tasks": 2, "calls": 3})
    asked = [
        ["--json"],
        ["--json", "--limit", "3"],
        ["--json", "--limit", "4"],
        ["--calls", "--json"],
        ["--calls", "--json", "--limit", "7"],
        ["--calls", "--json", "--limit", "10"],
    ]

    def following(done: Any) -> list[str]:
        return ["--json", "--after", json.loads(done.stdout)["next"]]

    of_file = [agentprof_command("report", "--db", database, *words) for words in asked]
    asked += [following(of_file[1]), [*following(of_file[4]), "--calls"]]
    of_file += [agentprof_command("report", "--db", database, *words) for words in asked[-2:]]
    with collecting(database):
        assert [agentprof_command("report", "--db", database, *words) for words in asked] == of_file
    tasks, _, _, calls, some, whole, rest_of_tasks, rest = (json.loads(done.stdout) for done in of_file)
    assert (len(tasks["tasks"]), tasks["next"], len(rest_of_tasks["tasks"])) == (5, None, 2)
    assert (len(calls["calls"]), calls["count"], calls["next"], whole["next"]) == (10, 10, None, None)
    assert (len(some["calls"]), some["count"], rest["count"]) == (7, 10, 10)
    assert [*some["calls"], *rest["calls"]] == calls["calls"]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_a_note_that_was_left_is_ignored(agentprof_command: Run, database: Path, tmp_path: Path) -> None:
    """Also where another collector, of another database, answers at that address meanwhile."""
    expected = agentprof_command("report", "--db", database, "--json")
    task_id = json.loads(expected.stdout)["tasks"][0]["task_id"]
    write_lock(database, LockFile(url=f"http://127.0.0.1:{free_port()}", pid=os.getpid()))
    assert agentprof_command("report", "--db", database, "--json") == expected
    with collecting(tmp_path / "other.duckdb") as other:
        write_lock(database, LockFile(url=other, pid=os.getpid()))
        assert agentprof_command("report", "--db", database, "--json") == expected
        assert agentprof_command("outcome", "--db", database, task_id, "success").returncode == 0
    lock_path(database).write_bytes(b"\xff{")
    assert agentprof_command("report", "--db", database).returncode == 0


@pytest.fixture
def stranger(database: Path) -> Iterator[int]:
    """Process id of a program that has the file open."""
    code = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process.pid
        process.communicate()


def test_a_file_that_a_stranger_holds(agentprof_command: Run, database: Path, stranger: int) -> None:
    """Its process is named, with what to do; a note of another process is not taken for its."""
    for words in (["report", "--json"], ["outcome", "x", "success"]):
        done = agentprof_command(*words, "--db", database)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{database} is held by process {stranger}. Wait for it or stop it" in done.stderr
    url = f"http://127.0.0.1:{free_port()}"
    write_lock(database, LockFile(url=url, pid=os.getpid()))
    said = agentprof_command("report", "--db", database).stderr
    assert f"is held by process {stranger}." in said
    assert f"ask it with --url {url}." in said


def test_a_collector_that_holds_the_file_and_does_not_answer(
    agentprof_command: Run, database: Path, stranger: int
) -> None:
    """Is waited for a moment, then named."""
    url = f"http://127.0.0.1:{free_port()}"
    write_lock(database, LockFile(url=url, pid=stranger))
    done = agentprof_command("report", "--db", database)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        f"is held by process {stranger}, but no collector answers at {url} (Connection refused)."
        in done.stderr
    )


TOKEN = "a-token-of-some-length"


def test_the_token_is_sent(agentprof_command: Run, database: Path) -> None:
    """From the environment; without it, or with a wrong one, it is said what is missing."""
    with collecting(database, AGENTPROF_TOKEN=TOKEN) as url:
        for where in (["--db", database], ["--url", url]):
            assert agentprof_command("report", *where, AGENTPROF_TOKEN=TOKEN).returncode == 0
            for wrong, said in (
                ("", "asks for its token: set AGENTPROF_TOKEN"),
                ("another", "is not the token of"),
            ):
                done = agentprof_command("report", *where, AGENTPROF_TOKEN=wrong)
                assert (done.returncode, done.stdout) == (1, "")
                assert said in done.stderr


def test_the_token_goes_to_no_place_that_another_user_named(database: Path, stranger: int) -> None:
    """Whoever can write beside a database could else have it sent anywhere."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sent = []
        for owner in (12_345, 0):
            write_lock(database, LockFile(url=url, pid=stranger))
            os.chown(lock_path(database), owner, owner)
            asking = subprocess.Popen(
                [sys.executable, "-m", "agentprof", "report", "--db", str(database)],
                env=os.environ | {"AGENTPROF_TOKEN": TOKEN},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(30)
                sent.append(connection.recv(65_536))
            asking.wait(60)
    assert [TOKEN.encode() in head for head in sent] == [False, True]
    assert sent[0].startswith(b"GET /api/v1/tasks?limit=30 HTTP/1.1")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://127.0.0.1", "--url: expected an address like http://127.0.0.1:8321, got 'ftp://127.0.0.1'."),
        ("http://", "--url: expected an address"),
        ("http://127.0.0.1:x", "--url: expected an address"),
        ("http://[", "--url: expected an address"),
        ("8321", "--url: expected an address"),
    ],
)
def test_what_is_no_address(agentprof_command: Any, url: str, said: str) -> None:
    """Is refused with an example."""
    done = agentprof_command("report", "--url", url)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_an_address_where_nobody_or_another_answers(agentprof_command: Any, tmp_path: Path) -> None:
    """Is told apart."""
    url = f"http://127.0.0.1:{free_port()}"
    done = agentprof_command("report", "--url", url)
    assert (done.returncode, done.stderr) == (
        1,
        f"agentprof: no collector answers at {url} (Connection refused).\n",
    )

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *arguments: Any) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = agentprof_command("report", "--url", url)
        thread.join()
    assert done.returncode == 1
    assert done.stderr == f"agentprof: what answers at {url} is no agentprof collector (status 200).\n"


def test_files_beside_a_collector(agentprof_command: Run, database: Path, tmp_path: Path) -> None:
    """Who holds the database, its address, and the two ways on; a file that is not there is said too."""
    (tmp_path / "a.jsonl").write_text('{"resourceSpans": []}\n')
    with collecting(database) as url:
        lock = read_lock(database)
        assert lock is not None
        done = agentprof_command("ingest", "--db", database, "a.jsonl", "none.jsonl")
        assert (done.returncode, done.stdout) == (1, "")
        missing, held = done.stderr.splitlines()
        assert missing == "agentprof: none.jsonl: No such file or directory. Check the path."
        assert f"is held by a collector, {url} (process {lock.pid}). Stop it first, or post" in held
        assert f"{lock.otlp_http}/v1/traces" in held
