"""`agentprof collect` as a process: how it starts, whom it makes way for, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from support.collect_process import CollectProcess, DidNotStart, Ports
from support.collecting import GRPC_METHOD, PROTOBUF, TRACES, agent_request

from agentprof_collector.collect.lockfile import LockFile, lock_path, read_lock, write_lock
from agentprof_collector.stores import open_store

TOKEN = "a-token-of-sixteen-characters"
Run = Callable[..., Any]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a.duckdb"


@pytest.fixture
def collector(database: Path) -> Iterator[CollectProcess]:
    with CollectProcess(database) as process:
        yield process


def send(collector: CollectProcess, *tasks: int, **headers: str) -> int:
    """Tasks over HTTP; the status."""
    statuses = {
        collector.otlp.ask(TRACES, "POST", agent_request(n), content_type=PROTOBUF, **headers).status
        for n in tasks
    }
    assert len(statuses) == 1
    return statuses.pop()


def stored(database: Path) -> dict[str, int]:
    """The rows in a file, with their model calls."""
    with open_store(database, read_only=True) as store:
        return {task.task_id: task.calls for task in store.tasks()}


def not_started(*arguments: Any, **more: Any) -> str:
    """What is said by one that ends instead of starting."""
    with pytest.raises(DidNotStart) as refused:
        CollectProcess(*arguments, **more)
    assert refused.value.returncode == 1
    said = str(refused.value)
    assert said.startswith("agentprof: ")
    assert "Traceback" not in said
    return said


def test_it_says_where_it_is(collector: CollectProcess, database: Path) -> None:
    """On stdout, and in the file beside the database."""
    assert collector.printed[3].split() == ["database", str(database)]
    assert read_lock(database) == LockFile(
        url=f"http://127.0.0.1:{collector.ports.page}",
        pid=collector.process.pid,
        otlp_http=f"http://127.0.0.1:{collector.ports.otlp_http}",
        otlp_grpc=f"127.0.0.1:{collector.ports.otlp_grpc}",
    )
    assert collector.pages.ask("/healthz").document["status"] == "ok"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_it_finish(collector: CollectProcess, database: Path, number: int) -> None:
    """What it has taken is added up, the file is free, and nothing says otherwise."""
    assert send(collector, *range(1, 6)) == 200
    code, said = collector.stop(number)
    assert (code, said) == (0, "stopping: what has come is being added up\n")
    assert stored(database) == {f"trace:{n:032x}": 1 for n in range(1, 6)}
    assert not lock_path(database).exists()
    assert [file.name for file in database.parent.iterdir()] == [database.name]


def test_who_is_sending_when_it_ends_gets_an_answer(collector: CollectProcess, database: Path) -> None:
    """Acknowledged and stored, or asked to come again; never neither."""
    statuses: list[tuple[int, int]] = []
    begun = threading.Semaphore(0)

    def keep_sending(first: int) -> None:
        for n in range(first, first + 10_000):
            try:
                statuses.append((n, send(collector, n)))
            except OSError:
                return  # it is gone
            begun.release()

    threads = [threading.Thread(target=keep_sending, args=(10_000 * at,)) for at in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        assert begun.acquire(timeout=30)
    code, _ = collector.stop()
    for thread in threads:
        thread.join(30)
    assert code == 0
    assert {status for _, status in statuses} <= {200, 503}
    taken = {f"trace:{n:032x}" for n, status in statuses if status == 200}
    assert len(taken) >= 30
    assert taken <= set(stored(database))


def test_a_second_signal_ends_it_at_once(collector: CollectProcess, database: Path) -> None:
    """Though it is still finishing; what it has taken is there all the same."""
    assert send(collector, 1) == 200
    with socket.create_connection(("127.0.0.1", collector.ports.otlp_http)) as unfinished:
        unfinished.sendall(b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n")
        assert send(collector, 2) == 200
        collector.process.send_signal(signal.SIGTERM)
        while lock_path(database).exists() and _is_listening(collector.ports.otlp_grpc):
            pass
        code, _ = collector.stop(signal.SIGTERM)
    assert code == -signal.SIGTERM
    with CollectProcess(database) as again:
        again.stop()
    assert set(stored(database)) == {f"trace:{n:032x}" for n in (1, 2)}


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("option", ["--port", "--otlp-http-port", "--otlp-grpc-port"])
def test_a_taken_port_is_said_with_by_whom(database: Path, option: str) -> None:
    """And with the two ways out; the file is left as it was."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = {"--port": "page", "--otlp-http-port": "otlp_http", "--otlp-grpc-port": "otlp_grpc"}
        said = not_started(database, Ports(**{ports[option]: port}))
    assert f"127.0.0.1:{port} is taken by " in said
    assert f"(process {os.getpid()})" in said
    assert f"Stop it, or choose another port with {option}" in said
    assert not lock_path(database).exists()
    assert stored(database) == {}


def test_a_second_collector_on_a_file_is_sent_to_the_first(collector: CollectProcess, database: Path) -> None:
    """It neither takes the file nor touches what the first has written beside it."""
    said = not_started(database)
    assert f"a collector already runs on {database}" in said
    assert f"http://127.0.0.1:{collector.ports.page} (process {collector.process.pid})" in said
    assert "--db" in said
    lock = read_lock(database)
    assert lock is not None
    assert lock.pid == collector.process.pid
    assert send(collector, 1) == 200


def test_a_file_that_a_stranger_holds_is_said_with_by_whom(database: Path) -> None:
    """Whatever an old note beside it says."""
    write_lock(database, LockFile(url="http://127.0.0.1:1", pid=1))
    with open_store(database):
        said = not_started(database)
    assert f"{database} is held by process {os.getpid()}" in said
    assert "collector already runs" not in said


def test_a_note_that_was_left_by_a_kill_is_replaced(database: Path) -> None:
    """The file is free, and that counts; what was taken before the kill is added up."""
    with CollectProcess(database) as killed:
        assert send(killed, 1) == 200
        killed.kill()
    assert lock_path(database).exists()
    with CollectProcess(database) as collector:
        lock = read_lock(database)
        assert lock is not None
        assert lock.pid == collector.process.pid
        answered = collector.pages.ask(f"/api/v1/tasks/trace:{1:032x}")
        assert answered.status == 200
        assert answered.document["calls"] == 1


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    """As is a place that cannot be one; both are left as they are."""
    (tmp_path / "notes.txt").write_text("no database" * 1000)
    assert "notes.txt: cannot be opened" in not_started(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "no database" * 1000
    assert not lock_path(tmp_path / "notes.txt").exists()
    assert "cannot be opened" in not_started(tmp_path / "notes.txt" / "a.duckdb")


@pytest.mark.parametrize("token", [None, "", "too short"])
def test_it_is_not_open_to_others_without_a_token(database: Path, token: str | None) -> None:
    """Nothing is created, and the error says which variable."""
    environment = {} if token is None else {"AGENTPROF_TOKEN": token}
    said = not_started(database, options=["--host", "0.0.0.0"], environment=environment)
    assert "AGENTPROF_TOKEN" in said
    assert "16" in said
    assert not database.exists()


@pytest.mark.parametrize(
    "token", ["too short", "with a space inside it", "nöt-ascii-but-long-enough", "x" * 20 + "\n"]
)
def test_a_token_that_cannot_be_shown_is_refused(database: Path, token: str) -> None:
    """Also on this machine only."""
    said = not_started(database, environment={"AGENTPROF_TOKEN": token})
    assert "AGENTPROF_TOKEN must be at least 16 printable ASCII characters without spaces" in said
    assert token not in said
    assert not database.exists()


def test_with_a_token_others_may_use_it(database: Path) -> None:
    """Who does not show it is refused, on all three ports; the token is in no file and no output."""
    with CollectProcess(
        database, options=["--host", "0.0.0.0"], environment={"AGENTPROF_TOKEN": TOKEN}
    ) as collector:
        shown = {"authorization": f"Bearer {TOKEN}"}
        assert (send(collector, 1), send(collector, 2, **shown)) == (401, 200)
        assert collector.pages.ask("/api/v1/tasks").status == 401
        assert collector.pages.ask("/api/v1/tasks", **shown).status == 200
        with grpc.insecure_channel(collector.grpc_target) as channel:
            export = channel.unary_unary(GRPC_METHOD.format("trace", "Trace"))
            with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
                export(agent_request(3), timeout=30)
            assert export(agent_request(4), timeout=30, metadata=tuple(shown.items())) == b""
        assert TOKEN not in lock_path(database).read_text() + "".join(collector.printed)
        _, said = collector.stop()
    assert TOKEN not in said
    assert set(stored(database)) == {f"trace:{n:032x}" for n in (2, 4)}


def test_a_run_gives_its_spans_to_it(collector: CollectProcess, database: Path, run_alone: Run) -> None:
    """And both show the same task, while the collector goes on."""
    program = "import agentprof\nwith agentprof.task('of a run'): pass"
    done = run_alone("run", "--db", database, "--", sys.executable, "-c", program)
    assert (done.returncode, "of a run" in done.stdout + done.stderr) == (0, True)
    listed = collector.pages.ask("/api/v1/tasks").document["tasks"]
    assert [task["name"] for task in listed] == ["of a run"]
    reported = json.loads(run_alone("report", "--db", database, "--json").stdout)
    assert reported["tasks"] == listed


def test_a_report_of_what_it_holds_is_up_to_date(
    collector: CollectProcess, database: Path, run_alone: Run
) -> None:
    """Also at once after the spans came, and it is the same when the collector has ended."""
    assert send(collector, 1) == 200
    task = f"trace:{1:032x}"
    during = run_alone("report", "--db", database, task, "--json")
    assert (during.returncode, json.loads(during.stdout)["calls"]) == (0, 1)
    collector.stop()
    assert run_alone("report", "--db", database, task, "--json").stdout == during.stdout


def test_help_says_what_it_is_for(agentprof_command: Run) -> None:
    """Every option, the token, and examples."""
    done = agentprof_command("collect", "--help")
    assert done.returncode == 0
    options = ["--db", "--host", "--port", "--otlp-http-port", "--otlp-grpc-port", "--keep"]
    others = [
        "--phase-spans-to",
        "--jaeger-url",
        "AGENTPROF_TOKEN",
        "8321",
        "4318",
        "4317",
        "collect --keep 30d",
    ]
    for word in options + others:
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--keep", "30"], "12h, 30d or 8w"),
        (["--keep", "0d"], "12h, 30d or 8w"),
        (["--keep", "-5d"], "12h, 30d or 8w"),
        (["--port", "65536"], "65536"),
        (["--port", "-1"], "-1"),
        (["--nothing"], "--nothing"),
        (["--port", "4318"], "--port and --otlp-http-port name the same port 4318"),
        (["--otlp-grpc-port", "7", "--port", "7"], "--port and --otlp-grpc-port name the same port 7"),
        (["--jaeger-url", "javascript:alert(1)"], "http://localhost:16686"),
        (["--jaeger-url", "localhost:16686"], "http://localhost:16686"),
        (["--jaeger-url", "http://"], "http://localhost:16686"),
    ],
)
def test_wrong_usage(agentprof_command: Run, arguments: list[str], message: str) -> None:
    """Before anything is opened."""
    done = agentprof_command("collect", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(Path.cwd().glob("*.duckdb*"))


def test_what_was_wrong_with_an_address_is_said(agentprof_command: Run) -> None:
    """Of phase spans, and of a host that is none."""
    ports = Ports().options()
    done = agentprof_command("collect", *ports, "--phase-spans-to", "no url")
    assert done.returncode == 1
    assert done.stderr.startswith("agentprof: --phase-spans-to:")
    done = agentprof_command("collect", *ports, "--host", "no.such.host.invalid", AGENTPROF_TOKEN=TOKEN)
    assert done.returncode == 1
    assert "no.such.host.invalid is no address to listen on" in done.stderr


def test_the_process_is_left_as_it_was(agentprof_command: Run) -> None:
    """What it does to signals lasts no longer than it: else a later fork, such as a worker of a pool, would not end
    when it is told to."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    done = agentprof_command("collect", *Ports().options(), "--phase-spans-to", "no url")
    assert done.returncode == 1
    assert [signal.getsignal(number) for number in numbers] == before


def test_where_it_is_can_be_read_by_a_machine(database: Path) -> None:
    """With --json, as one line before anything else."""
    ports = ["--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0"]
    command = [sys.executable, "-m", "agentprof", "collect", "--json", "--db", str(database), *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        lock = read_lock(database)
        process.terminate()
        assert (process.stdout.read(), process.wait(60)) == ("", 0)
    assert lock is not None
    listens = {"url": lock.url, "otlp_http": lock.otlp_http, "otlp_grpc": lock.otlp_grpc}
    assert said == {"schema": 1, **listens, "database": str(database), "pid": process.pid}
