"""What every CSV has in common: its columns, and that nothing in it acts on a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

NASTY = "\x1b[31mred\x1b]0;title\x07\nsecond\u202eline\x9b2J"
KINDS: tuple[list[str], ...] = (
    [],
    ["--group-by", "label.k"],
    ["--by", "model"],
    ["--by", "step"],
    ["--calls"],
    ["--calls", "--by", "context"],
    ["--calls", "--by", "concurrency"],
    ["--estimate"],
    ["--gpu-hours"],
)


def nasty_request() -> str:
    """A task with a call, in which every text acts on a terminal."""
    task = {"agentprof.task.id": f"id {NASTY}", "agentprof.task.name": NASTY, "agentprof.label.k": NASTY}
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": NASTY,
        "gen_ai.request.model": NASTY,
        "server.address": NASTY,
    }
    spans = [
        {
            "traceId": "ab" * 16,
            "spanId": f"0{number}" * 8,
            "parentSpanId": parent,
            "name": NASTY,
            "startTimeUnixNano": "1790000000000000000",
            "endTimeUnixNano": "1790000001000000000",
            "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
        }
        for number, parent, texts in ((1, None, task), (2, "01" * 8, call))
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


@pytest.fixture
def report(agentprof_command: Any, tmp_path: Path) -> Any:
    """Runs `agentprof report --csv` on the nasty task; what it printed."""
    (tmp_path / "a.jsonl").write_text(nasty_request())
    assert agentprof_command("ingest", "a.jsonl").returncode == 0

    def run(*arguments: str) -> str:
        done = agentprof_command("report", "--csv", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    return run


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_columns_are_there_without_rows(kind: list[str], report: Any) -> None:
    """A program that reads it finds the same head whether or not something fits."""
    head = report(*kind).partition("\n")[0]
    assert "," in head
    assert report(*kind, "--name", "no task of this name") == f"{head}\n"


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_nothing_acts_on_a_terminal(kind: list[str], report: Any) -> None:
    """As in tables: what would is written out."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", report(*kind))


def test_texts_are_written_out_whole(report: Any) -> None:
    """Of a task, of one of its calls, and of its profile; one line a row."""
    written = "\\x1b[31mred\\x1b]0;title\\x07\\nsecond\\u202eline\\x9b2J"
    (task,) = csv.DictReader(io.StringIO(report()))
    assert (task["task_id"], task["name"]) == (f"id {written}", written)
    (call,) = csv.DictReader(io.StringIO(report("--calls")))
    assert call["model"] == written
    text = report("id ")
    assert text.count("\n") == len(list(csv.DictReader(io.StringIO(text)))) + 1
