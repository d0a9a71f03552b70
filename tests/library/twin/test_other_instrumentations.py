"""Other instrumentations in the same process: together with agentprof one call counts once, here and when stored."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import beside_others
from support.beside_others import OTHERS
from support.model_server import CHAT, STREAM, ModelServer, Reply, Sent
from support.twin_outcomes import EVENTS, WHOLE

TESTS = Path(__file__).parents[2]
AT_ONCE = 5


def _is_here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


PRESENT = [name for name, module in OTHERS.items() if _is_here(module)]
MIXED = [[name] for name in OTHERS] + [list(OTHERS)]
ORDERS = [order for names in MIXED for order in (["agentprof", *names], [*names, "agentprof"])]


class _Answers(ModelServer):
    """Answers what it is asked for; every answer has an id of its own."""

    _numbers = itertools.count(1)

    def _answer(self, handler: Any, reply: Reply) -> None:
        super()._answer(handler, _reply_to(self.sent[-1], next(self._numbers)))


def _reply_to(sent: Sent, number: int) -> Reply:
    """The last one sent is the one to answer: one request is under way at a time, or all are alike."""
    if "refused" in sent.path:
        return Reply.json({"error": {"message": "no"}}, 400)
    if "embeddings" in sent.path:
        return Reply.json(WHOLE["embeddings"])
    streamed = sent.json.get("stream") is True
    if "responses" in sent.path:
        events = [event.replace(b"resp_1", b"resp_%d" % number) for event in EVENTS["responses"]]
        return Reply.stream(events) if streamed else Reply.json(WHOLE["responses"] | {"id": f"resp_{number}"})
    events = [event.replace(b"chatcmpl-1", b"chatcmpl-%d" % number) for event in STREAM]
    return Reply.stream(events) if streamed else Reply.json(CHAT | {"id": f"chatcmpl-{number}"})


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model endpoint."""
    with _Answers() as running:
        running.replies = [Reply(b"")]
        yield running


def _expected(name: str) -> tuple[int, int | None, int | None]:
    """Calls, input and output tokens of a task."""
    if name == "refused":
        return 1, None, None
    if name == "embeddings":
        return 1, 8, None
    if name.startswith("responses"):
        return 1, 11, 7
    times = AT_ONCE if name == "at_once" else 1
    return times, 100 * times, 6 * times


def _counted(summary: dict[str, Any]) -> tuple[int, int | None, int | None]:
    return summary["calls"], summary["tokens"]["input"], summary["tokens"]["output"]


@pytest.mark.parametrize("order", ORDERS, ids="+".join)
def test_one_call_counts_once(order: list[str], server: ModelServer, tmp_path: Path) -> None:
    """In `task.summary()` and in the report of the exported spans, whoever was switched on first."""
    missing = [name for name in order if name != "agentprof" and name not in PRESENT]
    if missing:
        pytest.skip(f"not installed: {', '.join(OTHERS[name] for name in missing)}")
    file, database = tmp_path / "spans.pb", str(tmp_path / "store.duckdb")
    environment = os.environ | {
        "AGENTPROF_DB": database,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "TRACELOOP_TRACE_CONTENT": "false",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = json.loads(run(beside_others.__file__, server.url, str(file), *order).splitlines()[-1])
    assert len(told["scopes"]) == len(order)  # all of them saw something
    assert told["failures"] == {}
    expected = {name: _expected(name) for name in told["tasks"]}
    assert {name: _counted(summary) for name, summary in told["tasks"].items()} == expected

    script = "import sys; from agentprof._cli import main; sys.exit(main())"
    run("-c", script, "ingest", str(file))
    report = json.loads(run("-c", script, "report", "--json"))
    assert {task["name"]: _counted(task) for task in report["tasks"]} == expected
    costs = {name: summary["cost_usd"] for name, summary in told["tasks"].items()}
    assert {task["name"]: task["cost_usd"] for task in report["tasks"]} == costs
