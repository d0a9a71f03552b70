import http.client
import json
import re
import socket
import struct
import threading
from collections import Counter
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from genai_prices import data

from agentprof_collector.demo.server import DemoServer
from agentprof_collector.stores import open_store

Demo = tuple[list[dict[str, Any]], Path]

USED = {
    "multiply": ["multiply.0", "multiply.1"],
    "tidy files": ["files.0", "files.1"],
    "dragons": ["dragons.0", "dragons.1", "dragons.2"],
    "capital": ["capital.small", "capital.large"],
    "failed": ["files.0"],
}
"""The recordings each task is answered with."""


def recorded_usage(name: str) -> tuple[str, int, int]:
    """Model, input and output tokens as the recorded body says, read without this project's code."""
    file = resources.files("agentprof_collector.demo") / "recordings" / f"{name}.json"
    body = json.loads(file.read_text(encoding="utf-8"))["response"]["body"]
    if body.startswith("data:"):
        chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
        answer = next(chunk for chunk in chunks if chunk.get("usage"))
    else:
        answer = json.loads(body)
    return answer["model"], answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]


def listed_cost(model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    """Tokens times the rates of the table's own data; None for a model OpenAI does not list."""
    (openai,) = [provider for provider in data.providers if provider.id == "openai"]
    found = [entry for entry in openai.models if entry.is_match(model)]
    if not found:
        return None
    rates = found[0].prices
    return (input_tokens * Decimal(rates.input_mtok) + output_tokens * Decimal(rates.output_mtok)) / 1_000_000  # type: ignore[union-attr,arg-type]


def by_case(tasks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Tasks by name; the second run of `tidy files` as `failed`."""
    *others, last = tasks
    return {task["name"]: task for task in others} | {"failed": last}


def test_the_five_tasks(demo_run: Demo) -> None:
    """Names in the order they ran, outcomes, and labels."""
    tasks, _ = demo_run
    assert [(task["name"], task["outcome"], task["labels"]) for task in tasks] == [
        ("multiply", "success", {"customer": "acme"}),
        ("tidy files", "success", {"customer": "acme"}),
        ("dragons", None, {"customer": "globex"}),
        ("capital", "success", {"customer": "globex"}),
        ("tidy files", "failure", {"customer": "globex"}),
    ]
    assert all(task["complete"] and task["task_source"] == "declared" for task in tasks)
    # Of the times only a busy machine makes a warning.
    assert {warning["code"] for task in tasks for warning in task["warnings"]} <= {"timing_faults"}


def test_every_timeline_sums_to_the_wall(demo_run: Demo) -> None:
    """No nanosecond is lost or counted twice."""
    tasks, _ = demo_run
    for task in tasks:
        assert sum(task["timeline_ns"].values()) == task["wall_ns"] > 0
        overlap = task["overlap_ns"]
        assert overlap["model"] + overlap["tool"] - overlap["both"] + overlap["neither"] == task["wall_ns"]
        for part, sources in task["evidence_ns"].items():
            assert sum(sources.values()) == task["timeline_ns"][part]


def test_what_rows_own_sums_to_the_totals(demo_run: Demo) -> None:
    """Time, calls, tokens and cost of the profile's rows add up to those of the task."""
    tasks, _ = demo_run
    for task in tasks:
        own = [node["self"] for node in task["nodes"]]
        assert sum(figures["path_ns"] for figures in own) == task["wall_ns"]
        assert sum(figures["calls"] for figures in own) == task["calls"]
        for kind in ("input", "output"):
            assert sum(figures["tokens"][kind] or 0 for figures in own) == task["tokens"][kind]
        costs = [Decimal(figures["cost_usd"]) for figures in own if figures["cost_usd"] is not None]
        assert sum(costs) == Decimal(task["cost_usd"])
        assert task["nodes"][0]["total"]["path_ns"] == task["wall_ns"]


def test_tokens_and_costs_are_those_of_the_recordings_at_listed_prices(demo_run: Demo) -> None:
    """To the last digit; a model without a price makes a bound, not a zero."""
    tasks, _ = demo_run
    for case, task in by_case(tasks).items():
        used = [recorded_usage(name) for name in USED[case]]
        assert task["tokens"]["input"] == sum(tokens for _, tokens, _ in used)
        assert task["tokens"]["output"] == sum(tokens for _, _, tokens in used)
        costs = [listed_cost(*usage) for usage in used]
        known = [cost for cost in costs if cost is not None]
        assert Decimal(task["cost_usd"]) == sum(known)
        assert task["cost_complete"] is (len(known) == len(costs))
        assert task["unpriced"]["unknown_model"] == len(costs) - len(known) == (1 if case == "capital" else 0)
        per_model: Counter[str] = Counter()
        for model, tokens, _ in used:
            per_model[model] += tokens
        assert {model: row["tokens"]["input"] for model, row in task["models"].items()} == per_model


def test_the_refused_request_is_one_transport_retry(demo_run: Demo) -> None:
    """Its back-off and the failed attempt stand apart from the model's time."""
    tasks, _ = demo_run
    cases = by_case(tasks)
    retried = cases["tidy files"]
    assert (retried["calls"], retried["attempts"], retried["retries"]["transport"]) == (2, 3, 1)
    timeline = retried["timeline_ns"]
    assert 400_000_000 <= timeline["backoff"] < 600_000_000
    assert timeline["failed_attempt"] > 0
    # The recorded servers took 737 and 624 ms.
    assert 1_361_000_000 <= timeline["model"] < 1_700_000_000
    assert retried["errors"] == {"call": 0, "tool": 0, "task": 0}
    for case in ("multiply", "dragons", "capital", "failed"):
        assert cases[case]["retries"]["transport"] == 0
        assert cases[case]["timeline_ns"]["backoff"] == 0


def test_two_tools_run_at_once(demo_run: Demo) -> None:
    """Both are busy, and the timeline counts the moment once."""
    tasks, _ = demo_run
    task = by_case(tasks)["tidy files"]
    assert task["tools"]["create_file"]["busy_ns"] >= 180_000_000
    assert task["tools"]["delete_file"]["busy_ns"] >= 120_000_000
    assert task["busy_ns"]["tool"] >= 300_000_000
    assert task["timeline_ns"]["tool"] == task["overlap_ns"]["tool"] < 300_000_000


def test_the_streamed_answer_divides_into_wait_and_generation(demo_run: Demo) -> None:
    """First tokens are seen by the client; plain answers have none and stay undivided."""
    tasks, _ = demo_run
    cases = by_case(tasks)
    streamed = cases["multiply"]
    # 547 and 221 ms to the first chunk as recorded; the second's first chunk carries only the role.
    assert 768_000_000 <= streamed["timeline_ns"]["wait"] < 1_000_000_000
    assert streamed["timeline_ns"]["generation"] > 200_000_000
    assert streamed["timeline_ns"]["model"] == 0
    assert 221_000_000 <= streamed["first_token_ns"]["p50"] < streamed["first_token_ns"]["max"] < 700_000_000
    assert streamed["evidence_ns"]["wait"] == {"observed": streamed["timeline_ns"]["wait"]}
    assert cases["dragons"]["first_token_ns"] is None
    assert cases["dragons"]["timeline_ns"]["wait"] == 0


def test_the_failed_task(demo_run: Demo) -> None:
    """The tool that raised is an error of its run and the failure of its task; what it cost still counts."""
    tasks, _ = demo_run
    failed = by_case(tasks)["failed"]
    assert failed["outcome"] == "failure"
    assert failed["errors"] == {"call": 0, "tool": 1, "task": 1}
    assert failed["tools"]["delete_file"]["errors"] == 1
    assert failed["tools"]["create_file"]["errors"] == 0
    assert Decimal(failed["cost_usd"]) > 0


def test_the_steps_of_the_cascade(demo_run: Demo) -> None:
    """Each step owns its call."""
    tasks, _ = demo_run
    paths = [tuple(node["path"]) for node in by_case(tasks)["capital"]["nodes"]]
    assert paths == [
        ("capital",),
        ("capital", "small model"),
        ("capital", "small model", "qwen3:0.6b"),
        ("capital", "check"),
        ("capital", "check", "gpt-4o-2024-08-06"),
    ]


def test_no_text_of_prompts_or_tools_is_stored(demo_run: Demo) -> None:
    """Neither questions, answers nor arguments of tools are in the stored spans or summaries."""
    tasks, database = demo_run
    with open_store(database, read_only=True) as store:
        spans = store.spans_of([trace_id for task in tasks for trace_id in task["trace_ids"]])
    stored = msgspec.json.encode([spans, tasks]).decode()
    assert "gpt-4o-mini-2024-07-18" in stored
    for secret in (r"\b1231\b", "What is", "Crumpet", r"test\.txt", "Paris", "Delete", "Rate limit"):
        assert not re.search(secret, stored), secret


def test_a_client_that_cuts_its_connection_is_no_event(capfd: pytest.CaptureFixture[str]) -> None:
    """The SDK's connections may end so; a reset must not be printed among the summaries."""
    with DemoServer(pace=0) as server:
        connection = http.client.HTTPConnection(urlsplit(server.tool_url).netloc)
        connection.request("GET", "/population/Crumpet")
        connection.getresponse().read()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        for thread in threading.enumerate():
            if "process_request" in thread.name:
                thread.join(20)
    assert capfd.readouterr().err == ""
