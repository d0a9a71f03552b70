"""What cannot be a file, a number or a filter is told as such, and never as a mistake of the program."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

Demo = tuple[list[dict[str, Any]], Path]
TOO_LONG = "a" * 300
WRITES = (["ingest", "there.jsonl"], ["outcome", "task", "success"])
READS = (["report"], ["report", "task"], ["report", "--calls"])


@pytest.mark.parametrize("command", [*WRITES, *READS], ids=" ".join)
@pytest.mark.parametrize(
    ("database", "said"),
    [
        (TOO_LONG, "cannot be opened"),
        (f"{TOO_LONG}/below.duckdb", "cannot be opened"),
        ("~nobody-of-this-name/a.duckdb", "that home folder is not known"),
    ],
)
def test_a_database_that_cannot_be(
    command: list[str], database: str, said: str, agentprof_command: Any, tmp_path: Path
) -> None:
    """The name of the environment, what is wrong with it, and what to do; code 1."""
    (tmp_path / "there.jsonl").write_text('{"resourceSpans": []}\n')
    done = agentprof_command(*command, AGENTPROF_DB=database)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert database in done.stderr.replace("\n", "")
    assert "--db" in done.stderr
    assert "mistake of agentprof" not in done.stderr


def test_a_file_to_read_that_cannot_be(agentprof_command: Any, tmp_path: Path) -> None:
    """It is named with the reason of the system; the others are read."""
    (tmp_path / "there.jsonl").write_text('{"resourceSpans": []}\n')
    done = agentprof_command("ingest", TOO_LONG, "there.jsonl/below", "there.jsonl")
    assert done.returncode == 1
    assert f"{TOO_LONG}: File name too long. Check the path." in done.stderr
    assert "there.jsonl/below: Not a directory. Check the path." in done.stderr
    assert done.stdout.startswith("0 spans stored")


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "1e999"])
def test_a_score_is_a_number(score: str, agentprof_command: Any, demo_run: Demo, tmp_path: Path) -> None:
    """What is none is refused, as by the API, and records nothing."""
    database = tmp_path / "copy.duckdb"
    shutil.copy(demo_run[1], database)
    task = demo_run[0][0]["task_id"]
    done = agentprof_command("outcome", "--db", database, task, "failure", f"--score={score}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a finite number" in done.stderr
    assert json.loads(agentprof_command("report", "--db", database, task, "--json").stdout) == demo_run[0][0]


def test_two_values_of_one_label(agentprof_command: Any, demo_run: Demo) -> None:
    """No task has both, which is said; the same value twice is one."""
    database = demo_run[1]
    done = agentprof_command("report", "--db", database, "--label", "a=1", "--label", "a=2")
    assert done.returncode == 2
    assert "--label" in done.stderr
    assert "two values of one label" in done.stderr
    done = agentprof_command("report", "--db", database, "--json", "--label", "a=1", "--label", "a=1")
    assert json.loads(done.stdout)["selection"] == {"labels": {"a": "1"}}


@pytest.mark.parametrize(
    "name", [":memory:", ":default:", "md:tasks", "s3:a", "it's.duckdb", "a?b=c.duckdb", "ü 1.duckdb", "-x"]
)
def test_a_database_is_a_file_whatever_its_name(name: str, agentprof_command: Any, tmp_path: Path) -> None:
    """Written and read again, and nothing else."""
    span = {"traceId": "ab" * 16, "spanId": "01" * 8, "startTimeUnixNano": "5", "endTimeUnixNano": "9"}
    span |= {"attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]}
    (tmp_path / "t.jsonl").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    done = agentprof_command("ingest", "t.jsonl", AGENTPROF_DB=name)
    assert (done.returncode, done.stderr) == (0, "")
    done = agentprof_command("report", "--json", AGENTPROF_DB=name)
    assert (done.returncode, done.stderr) == (0, "")
    assert [task["calls"] for task in json.loads(done.stdout)["tasks"]] == [1]
    assert {file.name for file in tmp_path.iterdir()} == {"t.jsonl", name}
