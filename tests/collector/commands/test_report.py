import csv
import io
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

Demo = tuple[list[dict[str, Any]], Path]


@pytest.fixture
def report(agentprof_command: Any, demo_run: Demo) -> Any:
    """Runs `agentprof report` on the demo's database and returns what it printed."""

    def run(*arguments: str, **environment: str) -> str:
        done = agentprof_command("report", "--db", demo_run[1], *arguments, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    return run


def rows(text: str) -> list[dict[str, str]]:
    """CSV as dicts."""
    return list(csv.DictReader(io.StringIO(text)))


def test_one_task_as_json_is_its_summary(report: Any, demo_run: Demo) -> None:
    """The same object the demo printed, found by the beginning of its id."""
    for task in demo_run[0]:
        assert json.loads(report(task["task_id"][:10], "--json")) == task


def test_many_tasks_as_json(report: Any, demo_run: Demo) -> None:
    """Latest first, without profiles, with one group of all."""
    document = json.loads(report("--json"))
    expected = [{key: task[key] for key in task if key != "nodes"} for task in reversed(demo_run[0])]
    assert document["tasks"] == expected
    assert (document["schema"], document["selection"], document["next"]) == (1, {}, None)
    (group,) = document["groups"]
    assert (group["key"], group["tasks"]) == ({}, 5)
    assert group["outcomes"] == {"success": 3, "failure": 1, "unknown": 1}
    total = sum((Decimal(task["cost_usd"]) for task in demo_run[0]), Decimal(0))
    assert Decimal(group["total_cost_usd"]) == total
    low, high = group["cost_per_success_usd"]["low"], group["cost_per_success_usd"]["high"]
    assert abs(Decimal(low) - total / 4) <= Decimal("1e-10")
    assert abs(Decimal(high) - total / 3) <= Decimal("1e-10")


def test_pages(report: Any, demo_run: Demo) -> None:
    """`--limit` and `--after` walk through all tasks once; groups stay over all."""
    ids: list[str] = []
    cursor: list[str] = []
    while True:
        document = json.loads(report("--json", "--limit", "2", *cursor))
        ids += [task["task_id"] for task in document["tasks"]]
        assert document["groups"][0]["tasks"] == 5
        if document["next"] is None:
            break
        cursor = ["--after", document["next"]]
    assert ids == [task["task_id"] for task in reversed(demo_run[0])]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--name", "tidy files"], ["tidy files", "tidy files"]),
        (["--outcome", "failure"], ["tidy files"]),
        (["--outcome", "unknown"], ["dragons"]),
        (["--label", "customer=acme"], ["tidy files", "multiply"]),
        (["--label", "customer=globex", "--name", "capital"], ["capital"]),
        (["--label", "customer=nobody"], []),
    ],
)
def test_filters(report: Any, arguments: list[str], names: list[str]) -> None:
    """Only what fits is listed and grouped."""
    document = json.loads(report("--json", *arguments))
    assert [task["name"] for task in document["tasks"]] == names
    assert [group["tasks"] for group in document["groups"]] == ([len(names)] if names else [])


def test_tasks_beside_groups_are_a_page(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are over all tasks; of the tasks themselves there is a page, and where the next begins."""
    monkeypatch.setattr("agentprof_collector.commands.report._TASKS_BESIDE_GROUPS", 2)
    document = json.loads(report("--json", "--group-by", "outcome"))
    assert (sum(group["tasks"] for group in document["groups"]), len(document["tasks"])) == (5, 2)
    assert document["selection"] == {"group_by": "outcome", "limit": 2}
    following = json.loads(report("--json", "--group-by", "outcome", "--after", document["next"]))
    assert following["groups"] == document["groups"]
    assert not {t["task_id"] for t in following["tasks"]} & {t["task_id"] for t in document["tasks"]}


def test_groups(report: Any, demo_run: Demo) -> None:
    """By label: counts, sums and the wall's quantiles with their number."""
    groups = json.loads(report("--json", "--group-by", "label.customer"))["groups"]
    assert [group["key"] for group in groups] == [{"label.customer": "acme"}, {"label.customer": "globex"}]
    acme, globex = groups
    assert (acme["tasks"], acme["cost_complete"], globex["tasks"], globex["cost_complete"]) == (
        2,
        True,
        3,
        False,
    )
    walls = sorted(task["wall_ns"] for task in demo_run[0] if task["labels"]["customer"] == "globex")
    assert globex["wall_ns"]["p50"] == walls[1]
    assert (globex["wall_ns"]["p99"], globex["wall_ns"]["n"]) == (None, 3)
    (first, second) = rows(report("--csv", "--group-by", "label.customer"))
    assert first["key"] == '{"label.customer":"acme"}'
    assert (first["tasks"], second["outcomes.failure"], second["wall_ns.p99"]) == ("2", "1", "")
    assert Decimal(first["total_cost_usd"]) == Decimal(acme["total_cost_usd"])


def test_by_tool(report: Any, demo_run: Demo) -> None:
    """Tools over all tasks, the one with most time first."""
    found = json.loads(report("--json", "--by", "tool"))["rows"]
    by_name = {row["name"]: row for row in found}
    assert {name: (row["tasks"], row["runs"], row["errors"]) for name, row in by_name.items()} == {
        "create_file": (2, 2, 0),
        "delete_file": (2, 2, 1),
        "lookup_population": (1, 1, 0),
        "can_have_dragons": (1, 1, 0),
        "multiply": (1, 1, 0),
    }
    assert [row["path_ns"] for row in found] == sorted((row["path_ns"] for row in found), reverse=True)
    busy = sum(task["tools"].get("delete_file", {"busy_ns": 0})["busy_ns"] for task in demo_run[0])
    assert by_name["delete_file"]["busy_ns"] == busy
    assert by_name["multiply"]["cost_usd"] is None


def test_by_model(report: Any, demo_run: Demo) -> None:
    """Models over all tasks: calls, tokens and cost; unknown where the price is."""
    by_name = {row["name"]: row for row in json.loads(report("--json", "--by", "model"))["rows"]}
    assert {name: row["calls"] for name, row in by_name.items()} == {
        "gpt-4o-2024-08-06": 4,
        "gpt-4o-mini-2024-07-18": 5,
        "qwen3:0.6b": 1,
    }
    assert by_name["qwen3:0.6b"]["cost_usd"] is None
    known = sum(Decimal(row["cost_usd"]) for row in by_name.values() if row["cost_usd"])
    assert known == sum(Decimal(task["cost_usd"]) for task in demo_run[0])


def test_by_step_of_one_task(report: Any, demo_run: Demo) -> None:
    """A step has what is below it in its totals."""
    capital = demo_run[0][3]
    found = json.loads(report(capital["task_id"], "--json", "--by", "step"))["rows"]
    assert {row["name"]: (row["runs"], row["calls"]) for row in found} == {
        "small model": (1, 1),
        "check": (1, 1),
    }
    (check,) = [row for row in found if row["name"] == "check"]
    assert Decimal(check["cost_usd"]) == Decimal(capital["cost_usd"])
    assert json.loads(report("--json", "--by", "agent"))["rows"] == []


def test_calls(report: Any, demo_run: Demo) -> None:
    """A row a call; its phases fill it exactly, in JSON and in CSV."""
    calls = json.loads(report("--json", "--calls"))["calls"]
    assert len(calls) == sum(task["calls"] for task in demo_run[0]) == 10
    for call in calls:
        assert sum(call["phases_ns"].values()) == call["duration_ns"]
    retried = [call for call in calls if call["attempts"] == 2]
    assert [call["failed_statuses"] for call in retried] == [["429"]]
    flat = rows(report("--csv", "--calls"))
    for row, call in zip(flat, calls, strict=True):
        assert row["span_id"] == call["span_id"]
        assert row["path"] == " / ".join(call["path"])
        phases = [int(row[name]) for name in row if name.startswith("phases_ns.") and row[name]]
        assert sum(phases) == int(row["duration_ns"])
        assert int(row["tokens.input"]) == call["tokens"]["input"]
        assert int(row["input_bytes.user"]) == call["input_bytes"]["user"] > 0
        assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{16}", row["fingerprint"])
        assert row["error"] == "false"


def test_a_table_of_calls_has_phases_or_says_so(report: Any) -> None:
    """The three longest of each call where there is room, else where to find them."""
    narrow, wide = (report("--calls", COLUMNS=columns) for columns in ("80", "200"))
    assert "no room for: phases (widen the terminal, or --json)" in narrow
    assert "no room for" not in wide
    assert re.search(r"phases *\n", wide)
    assert re.search(r"generation \d+ ms, wait \d+ ms", wide)


def test_csv_of_tasks(report: Any, demo_run: Demo) -> None:
    """The same columns whatever the tasks hold; unknown is empty."""
    found = rows(report("--csv"))
    by_name = {row["name"]: row for row in found}
    assert len(found) == 5
    assert by_name["dragons"]["outcome"] == ""
    assert by_name["capital"]["cost_complete"] == "false"
    assert by_name["capital"]["unpriced.unknown_model"] == "1"
    assert by_name["multiply"]["labels"] == '{"customer":"acme"}'
    for row, task in zip(found, reversed(demo_run[0]), strict=True):
        timeline = [int(row[name]) for name in row if name.startswith("timeline_ns.")]
        assert sum(timeline) == int(row["wall_ns"]) == task["wall_ns"]
    profile = rows(report(demo_run[0][3]["task_id"], "--csv"))
    assert "capital / small model / qwen3:0.6b" in [row["path"] for row in profile]  # by the time they took
    assert sum(int(row["self.path_ns"]) for row in profile) == demo_run[0][3]["wall_ns"]


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_fit_their_width(report: Any, demo_run: Demo, columns: int) -> None:
    """No line is longer than the terminal, and no figure is cut."""
    task = demo_run[0][1]["task_id"]
    parts = [["--by", "model"], ["--by", "tool"], ["--calls"], ["--group-by", "label.customer"]]
    views: list[list[str]] = [[], [task], *parts]
    for view in views:
        text = report(*view, COLUMNS=str(columns))
        assert max(map(len, text.splitlines())) <= columns
        # A name may be cut; dollars never are.
        assert not [word for word in text.split() if word.startswith("$") and word.endswith("…")]


def test_the_text_of_one_task(report: Any, demo_run: Demo) -> None:
    """Outcome, bar in letters without colours, retries, and the profile."""
    text = report(demo_run[0][1]["task_id"])
    lines = text.splitlines()
    assert lines[0].startswith("tidy files   success   ")
    assert len(lines[1].strip()) == 80
    # On a busy machine an answer may be read late enough to be seen.
    assert set("mbft") <= set(lines[1]) <= set("mbfnt.")
    assert re.search(r"1 transport retry, 4\d\d ms back-off", text)
    assert "2 model calls in 3 attempts, 2 tool runs" in text
    assert "\x1b[" not in text


def test_the_text_says_what_a_cost_lacks(report: Any, demo_run: Demo) -> None:
    """A bound in the header, the table and the totals."""
    text = report(demo_run[0][3]["task_id"])
    assert "≥ $0.000105, without 1 call of a model with no known price" in text
    assert "≥ $0.000105" in next(line for line in text.splitlines()[1:] if line.startswith("capital   "))
    assert "cost ≥ $0.00203" in report()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["none"], 1, "there is no task 'none'"),
        (["--by", "chip"], 2, "'chip' is not one of"),
        (["--group-by", "chip"], 2, "expected name, outcome or label.KEY, got 'chip'"),
        (["--group-by", "label."], 2, "expected name, outcome or label.KEY"),
        (["--label", "customer"], 2, "expected KEY=VALUE, got 'customer'"),
        (["--after", "soon"], 2, "the value of next"),
        (["--after", "x:y"], 2, "--after"),
        (["--json", "--csv"], 2, "exclude each other"),
        (["--by", "tool", "--calls"], 2, "--by tool and --calls exclude each other"),
        (["--by", "context"], 2, "--by context tells how fast calls were: give it with --calls"),
        (["--by", "tool", "--calls"], 2, "with --calls there are context and concurrency"),
        (["--estimate", "--calls"], 2, "Error: --calls and --estimate exclude each other."),
        (["--estimate", "--by", "tool"], 2, "Error: --by tool and --estimate exclude each other."),
        # --by context is a way to see calls: what excludes is the other kind of report.
        (
            ["--calls", "--by", "context", "--gpu-hours"],
            2,
            "Error: --calls and --gpu-hours exclude each other.",
        ),
        (
            ["--estimate", "--gpu-hours", "--group-by", "name"],
            2,
            "Error: --estimate, --gpu-hours and --group-by exclude each other.",
        ),
        (["--estimate", "--after", "1:x"], 2, "--after is for tasks and calls"),
        (["--calls", "--by", "context", "--after", "1:1:x"], 2, "--after is for tasks and calls"),
        (["x", "--estimate", "--csv"], 2, "take --json, or leave out TASK"),
        (["x", "--name", "y"], 2, "--name is for many tasks; leave out TASK."),
        (["x", "--gpu-hours"], 2, "--gpu-hours is for many tasks; leave out TASK."),
        (
            ["x", "--since", "2h", "--search", ""],
            2,
            "--since and --search are for many tasks; leave out TASK.",
        ),
    ],
)
def test_mistakes(agentprof_command: Any, demo_run: Demo, arguments: list[str], code: int, says: str) -> None:
    """Wrong usage is 2, a failure 1; the message says what was wrong; nothing is printed as a result."""
    done = agentprof_command("report", "--db", demo_run[1], *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_beginning_that_several_ids_share(agentprof_command: Any, tmp_path: Path) -> None:
    """The error lists them."""
    spans = [
        {
            "traceId": trace,
            "spanId": "01",
            "startTimeUnixNano": "5",
            "endTimeUnixNano": "9",
            "attributes": chat(),
        }
        for trace in ("aa01", "aa02")
    ]
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    assert agentprof_command("ingest", file).returncode == 0
    done = agentprof_command("report", "trace:aa")
    assert done.returncode == 1
    assert "'trace:aa' is the beginning of several tasks: trace:aa01, trace:aa02" in done.stderr
    assert json.loads(agentprof_command("report", "trace:aa01", "--json").stdout)["calls"] == 1


def chat() -> list[dict[str, Any]]:
    """Attributes that make a span a model call."""
    return [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]


def test_nothing_stored_yet(agentprof_command: Any) -> None:
    """The error names the file and the command that makes it."""
    done = agentprof_command("report")
    assert done.returncode == 1
    assert "no database at" in done.stderr
    assert "agentprof ingest" in done.stderr


def test_groups_are_bounded(report: Any) -> None:
    """Of more groups than asked for those that cost most; JSON, table and CSV say what is in the others."""
    every = json.loads(report("--json", "--group-by", "label.customer"))
    assert every["groups_left_out"] is None
    cut = json.loads(report("--json", "--group-by", "label.customer", "--groups", "1"))
    (shown,) = cut["groups"]
    (left,) = [group for group in every["groups"] if group["key"] != shown["key"]]
    assert Decimal(shown["total_cost_usd"]) > Decimal(left["total_cost_usd"])
    left_out = cut["groups_left_out"]
    assert (left_out["tasks"], left_out["total_cost_usd"]) == (left["tasks"], left["total_cost_usd"])
    table = " ".join(report("--group-by", "label.customer", "--groups", "1").split())
    assert f"Shown: the 1 group with the highest cost. In others: {left['tasks']} tasks" in table
    assert "--groups N" in table


def test_groups_without_a_key(agentprof_command: Any, demo_run: Demo) -> None:
    """How many groups says nothing without groups."""
    refused = agentprof_command("report", "--db", demo_run[1], "--groups", "3")
    assert (refused.returncode, "--group-by" in refused.stderr) == (2, True)
