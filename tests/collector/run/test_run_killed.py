"""Runs that are killed: what may be missing from their figures is said, and a cost that is not known is not 0."""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from typing import Any

import pytest
from support.model_server import STREAM, ModelServer, Reply
from support.runs import ran

CALL = """
    import os, signal, sys, time
    from openai import OpenAI
    import agentprof
    def call():
        client = OpenAI(base_url=sys.argv[1], api_key="key")
        client.chat.completions.create(model="gpt-4o-mini", messages=[])
"""
COST = Decimal("0.0000186")
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def summary(script: Any, environment: dict[str, str], server: ModelServer, rest: str) -> dict[str, Any]:
    """The one task of a run of a program that can make calls and ends like this."""
    body = CALL + "".join(f"    {line}\n" for line in rest.splitlines())
    _, (task,) = ran([], [sys.executable, script(body), server.url], environment)
    return task


def codes(task: dict[str, Any]) -> list[str]:
    """Of its warnings; of the times only a busy machine makes one here."""
    return [warning["code"] for warning in task["warnings"] if warning["code"] != "timing_faults"]


def test_killed_before_anything_left(script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """Its cost is unknown."""
    task = summary(script, environment, server, f"call()\n{KILL}")
    assert (task["calls"], task["cost_usd"], task["cost_complete"]) == (0, None, False)
    assert (task["complete"], codes(task)) == (False, ["cut_short"])


def test_killed_after_some_had_left(script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """Its cost is a bound; here one call was sent, and a later one was not."""
    task = summary(script, environment, server, f"call()\nagentprof.flush()\ncall()\n{KILL}")
    assert (task["calls"], Decimal(task["cost_usd"]), task["cost_complete"]) == (1, COST, False)
    assert codes(task) == ["cut_short"]


@pytest.mark.parametrize(
    "rest", [f"call()\nagentprof.flush()\n{KILL}", KILL, "call()\nsys.exit(3)", "call()"]
)
def test_nothing_can_be_missing(
    script: Any, environment: dict[str, str], server: ModelServer, rest: str
) -> None:
    """Of a program that had handed everything over, had nothing to hand over, or could say goodbye."""
    task = summary(script, environment, server, rest)
    assert (Decimal(task["cost_usd"]), task["cost_complete"]) == (COST if "call" in rest else 0, True)
    assert codes(task) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("last", "is_missing"), [("agentprof.flush()", False), ("pass", True)])
def test_a_child_that_ends_at_once(
    script: Any, environment: dict[str, str], server: ModelServer, last: str, is_missing: bool
) -> None:
    """A fork that calls and leaves by os._exit counts as what it is, though its parent ends as it should."""
    rest = f"call()\nif os.fork() == 0:\n    call()\n    {last}\n    os._exit(0)\nos.wait()"
    task = summary(script, environment, server, rest)
    assert (task["calls"], task["cost_complete"]) == ((1, False) if is_missing else (2, True))
    assert codes(task) == (["cut_short"] if is_missing else [])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_a_pool_kills(
    script: Any, environment: dict[str, str], server: ModelServer, method: str
) -> None:
    """Hand their spans on with each piece of work: nothing is missing when the pool is left."""
    body = (
        CALL
        + f"""
    import multiprocessing
    def begin(barrier):
        global both
        both = barrier
    def piece(number):
        both.wait(60)  # a worker that is killed while it starts has told nothing yet
        call()
        return number
    if __name__ == "__main__":
        kind = multiprocessing.get_context("{method}")
        with kind.Pool(2, begin, (kind.Barrier(2),)) as pool:
            assert pool.map(piece, range(4)) == [0, 1, 2, 3]
    """
    )
    _, (task,) = ran([], [sys.executable, script(body), server.url], environment)
    assert (task["calls"], task["cost_complete"], codes(task)) == (4, True, [])


def test_children_of_multiprocessing_say_goodbye(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """A forked process that ends by itself is none that was killed."""
    body = (
        CALL
        + """
    import multiprocessing
    if __name__ == "__main__":
        call()
        child = multiprocessing.get_context("fork").Process(target=call)
        child.start()
        child.join()
    """
    )
    _, (task,) = ran([], [sys.executable, script(body), server.url], environment)
    assert (task["calls"], task["cost_complete"], codes(task)) == (2, True, [])


def test_processes_of_a_run_share_its_key(
    script: Any, environment: dict[str, str], server: ModelServer
) -> None:
    """What one process asks and another asks again is a repeat."""
    body = (
        CALL
        + """
    import subprocess
    call()
    if len(sys.argv) == 2:
        subprocess.run([sys.executable, __file__, sys.argv[1], "again"], check=True)
    """
    )
    _, (task,) = ran([], [sys.executable, script(body), server.url], environment)
    assert (task["calls"], task["repeats"]["call"], codes(task)) == (2, 1, [])


def test_variables_for_usage(script: Any, environment: dict[str, str], server: ModelServer) -> None:
    """`AGENTPROF_ESTIMATE_USAGE` and `AGENTPROF_STREAM_USAGE` reach a program that is not changed."""
    stream = """
    client = OpenAI(base_url=sys.argv[1], api_key="key")
    print(len(list(client.chat.completions.create(model="gpt-4o-mini", messages=[], stream=True))))
    """
    command = [sys.executable, script(CALL + stream), server.url]
    server.replies = [Reply.stream(STREAM)]
    run, (task,) = ran([], command, environment | {"AGENTPROF_STREAM_USAGE": "1"})
    assert run.stdout == b"4\n"
    assert server.sent[-1].json["stream_options"] == {"include_usage": True}
    assert task["tokens"]["input"] == 100
    server.replies = [Reply.stream(STREAM[:4])]
    _, (task,) = ran([], command, environment | {"AGENTPROF_ESTIMATE_USAGE": "1"})
    assert (task["usage_estimated_calls"], codes(task)) == (1, ["usage_estimated"])
    assert "stream_options" not in server.sent[-1].json
