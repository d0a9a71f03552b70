import gzip
import json
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof.rollup import roll_up
from agentprof_collector import recompute
from agentprof_collector.stores import open_store


def line(trace: str, *, tokens: int = 7) -> str:
    """One request in JSON with one call."""
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": "house-1"}},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": str(tokens)}},
    ]
    span = {
        "traceId": trace * 16,
        "spanId": "0102030405060708",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "5000",
        "attributes": attributes,
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n"


def test_files_of_several_encodings(agentprof_command: Any, tmp_path: Path) -> None:
    """JSON, gzip and protobuf in one command; the counts are printed and the tasks are there."""
    (tmp_path / "a.jsonl").write_text(line("aa") + line("ab"))
    (tmp_path / "b.gz").write_bytes(gzip.compress(line("ba").encode()))
    message = ExportTraceServiceRequest()
    span = message.resource_spans.add().scope_spans.add().spans.add(name="chat", start_time_unix_nano=1000)
    span.trace_id, span.span_id = bytes.fromhex("ca" * 16), b"12345678"
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    (tmp_path / "c.pb").write_bytes(message.SerializeToString())
    done = agentprof_command("ingest", "a.jsonl", "b.gz", "c.pb")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"4 spans stored; 4 tasks added up in {tmp_path / 'default.duckdb'}\n"
    tasks = json.loads(agentprof_command("report", "--json").stdout)["tasks"]
    assert {task["task_id"] for task in tasks} == {
        f"trace:{trace * 16}" for trace in ("aa", "ab", "ba", "ca")
    }


def test_the_same_file_again_changes_no_number(agentprof_command: Any, tmp_path: Path) -> None:
    """Ingesting twice gives the same report."""
    (tmp_path / "a.jsonl").write_text(line("aa") + line("ab"))
    agentprof_command("ingest", "a.jsonl")
    once = agentprof_command("report", "--json").stdout
    counts = json.loads(agentprof_command("ingest", "a.jsonl", "--json").stdout)
    nothing = {"skipped": 0, "lost_values": 0, "failed": 0, "failed_tasks": 0}
    assert counts == {"schema": 1, "spans": 2, "tasks": 2} | nothing
    assert agentprof_command("report", "--json").stdout == once
    assert json.loads(once)["groups"][0]["tokens"]["input"] == 14


def test_a_bad_file_among_good_ones(agentprof_command: Any, tmp_path: Path) -> None:
    """What stands around the mistake and in other files is stored; every mistake is named; the code is 1."""
    (tmp_path / "bad.jsonl").write_text(line("aa") + "{oops\n" + line("ab"))
    (tmp_path / "good.jsonl").write_text(line("ba"))
    done = agentprof_command("ingest", "bad.jsonl", "none.jsonl", "good.jsonl")
    assert done.returncode == 1
    assert done.stdout.startswith("3 spans stored; 3 tasks added up")
    assert "1 line could not be read, the others are stored" in done.stderr
    assert "bad.jsonl, line 2: " in done.stderr
    assert "none.jsonl: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr
    tasks = json.loads(agentprof_command("report", "--json").stdout)["tasks"]
    assert {task["task_id"][6:8] for task in tasks} == {"aa", "ab", "ba"}


def test_what_is_left_out_is_counted(agentprof_command: Any, tmp_path: Path) -> None:
    """Spans without an identity and values of a wrong type, with the place of the first."""
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "n", "startTimeUnixNano": "1"}]}]}]}
    odd = line("aa").replace('"stringValue": "house-1"', '"stringValue": 5')
    (tmp_path / "a.jsonl").write_text(line("ab") + json.dumps(request) + "\n" + odd)
    done = agentprof_command("ingest", "a.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "2 spans stored, 1 without id or start left out, 1 value of a wrong type left out "
        "(the first in a.jsonl, line 2); 2 tasks added up"
    )
    counts = json.loads(agentprof_command("ingest", "a.jsonl", "--json").stdout)
    assert (counts["spans"], counts["skipped"], counts["lost_values"]) == (2, 1, 1)


def test_a_task_that_cannot_be_added_up_is_named(
    agentprof_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, with code 1; the others are in the report."""

    def failing(task_id: str, *arguments: Any) -> Any:
        if task_id.startswith("trace:aa"):
            raise ZeroDivisionError("by zero")
        return roll_up(task_id, *arguments)

    monkeypatch.setattr(recompute, "roll_up", failing)
    (tmp_path / "a.jsonl").write_text(line("aa") + line("ab"))
    done = agentprof_command("ingest", "a.jsonl")
    assert done.returncode == 1
    assert done.stdout.startswith("2 spans stored; 1 task added up")
    assert f"task trace:{'aa' * 16} could not be added up (ZeroDivisionError" in done.stderr
    assert len(json.loads(agentprof_command("report", "--json").stdout)["tasks"]) == 1


def test_names_of_files_cannot_act_on_the_terminal(agentprof_command: Any, tmp_path: Path) -> None:
    """Nor can those of databases."""
    nasty = "bad\x1b[31m\nsecond\u202e"
    (tmp_path / nasty).write_text("{oops\n")
    done = agentprof_command("ingest", nasty, f"none{nasty}", "--db", f"{nasty}.duckdb")
    assert done.returncode == 1
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "bad\\x1b[31m\\nsecond\\u202e" in text
    assert len(done.stderr.splitlines()) == 2
    assert "\x1b" not in agentprof_command("report", "--db", f"other{nasty}").stderr


def test_standard_input(tmp_path: Path) -> None:
    """`-` reads what is piped in."""
    code = "import sys; from agentprof._cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "ingest", "--json", "--db", str(tmp_path / "x.duckdb"), "-"]
    done = subprocess.run(command, input=gzip.compress(line("aa").encode()), capture_output=True, check=True)
    assert json.loads(done.stdout)["spans"] == 1


def test_who_interrupts_is_told_what_is_there(tmp_path: Path) -> None:
    """Spans are stored that no report shows yet; read again they are there once, and whole."""
    file = tmp_path / "many.jsonl"
    file.write_text("".join(line(f"{number:02x}", tokens=1) for number in range(1, 250)) * 21)
    command = [sys.executable, "-m", "agentprof", "ingest", "--db", "a.duckdb"]
    with subprocess.Popen(
        [*command, "-"], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(file.read_text())
        process.stdin.flush()
        log = tmp_path / "a.duckdb.wal"
        while not (log.exists() and log.stat().st_size > 40_000):  # the tables alone take a tenth of that
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert re.fullmatch(
        r"interrupted: 5,\d\d\d spans stored, but not all added up; read the same .*\n+", told
    )
    done = subprocess.run([*command, "many.jsonl"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "249 tasks added up" in done.stdout
    with open_store(tmp_path / "a.duckdb") as store:
        assert [task.calls for task in store.tasks()] == [1] * 249


def test_prices_of_the_user(agentprof_command: Any, tmp_path: Path) -> None:
    """agentprof.yaml in the folder prices what no table knows; a mistake in it is told before anything is read."""
    (tmp_path / "agentprof.yaml").write_text("prices:\n  - {model: house-1, input: 2, output: 8}\n")
    (tmp_path / "a.jsonl").write_text(line("aa", tokens=500_000))
    assert agentprof_command("ingest", "a.jsonl").returncode == 0
    (task,) = json.loads(agentprof_command("report", "--json").stdout)["tasks"]
    assert Decimal(task["cost_usd"]) == 1
    (tmp_path / "agentprof.yaml").write_text("pricess: []\n")
    done = agentprof_command("ingest", "a.jsonl")
    assert done.returncode == 1
    assert "agentprof.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["environment", "data folder", "home"])
def test_where_the_database_is(agentprof_command: Any, tmp_path: Path, place: str) -> None:
    """AGENTPROF_DB, else the user's data folder."""
    (tmp_path / "a.jsonl").write_text(line("aa"))
    environment, expected = {
        "environment": ({"AGENTPROF_DB": str(tmp_path / "e" / "x.duckdb")}, tmp_path / "e" / "x.duckdb"),
        "data folder": (
            {"AGENTPROF_DB": "", "XDG_DATA_HOME": str(tmp_path / "data")},
            tmp_path / "data" / "agentprof" / "agentprof.duckdb",
        ),
        "home": (
            {"AGENTPROF_DB": "", "XDG_DATA_HOME": "", "HOME": str(tmp_path / "home")},
            tmp_path / "home" / ".local" / "share" / "agentprof" / "agentprof.duckdb",
        ),
    }[place]
    done = agentprof_command("ingest", "a.jsonl", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert expected.is_file()


def test_real_agents(agentprof_command: Any, shared: Path) -> None:
    """22 tasks and 56 calls of a real engine's trace file."""
    file = shared / "data" / "engine" / "vllm_joined.otlp.jsonl"
    assert agentprof_command("ingest", file).returncode == 0
    document = json.loads(agentprof_command("report", "--json").stdout)
    assert len(document["tasks"]) == 22
    assert sum(task["calls"] for task in document["tasks"]) == 56


def test_without_any_of_the_files_no_database_is_made(agentprof_command: Any, tmp_path: Path) -> None:
    """They are said, each in a line."""
    done = agentprof_command("ingest", "none.jsonl", "other.jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert "none.jsonl: No such file or directory" in done.stderr
    assert "other.jsonl: No such file or directory" in done.stderr
    assert list(tmp_path.iterdir()) == []
