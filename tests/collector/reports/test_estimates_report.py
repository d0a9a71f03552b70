"""`report --estimate` on real requests, stored as a client saw them: against what the engine knew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.engine_requests import prefill_ns, queue_ns, requests, spans
from support.raw import T0, call_span, task_span
from support.serving import OfStore

from agentprof.model import RawSpan
from agentprof_collector.estimates.validated import WORDS
from agentprof_collector.reports import REPORTS
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty one."""
    with open_store(None) as opened:
        yield opened


def estimates(store: Store, **selected: Any) -> dict[str, Any]:
    """The document."""
    return REPORTS["estimates"].document(store, Selection(**selected))


def by_concurrency(shared: Path, slots: int) -> dict[int, list[Any]]:
    """The requests, those made at the same concurrency together."""
    found: dict[int, list[Any]] = {}
    for request in requests(shared, slots):
        found.setdefault(request["conc"], []).append(request)
    return found


def test_waits_of_an_endpoint_are_divided(store: Store, shared: Path) -> None:
    """The sums hold the truth; queue and prefill share the wait; the words stand beside."""
    groups = by_concurrency(shared, 1)
    for number, members in groups.items():
        OfStore(store).feed(spans(members, f"load-{number}"))
    document = estimates(store)
    (row,) = document["rows"]
    known = [request for members in groups.values() for request in members]
    assert (row["model"], row["server"], row["divides"]) == ("small", "10.0.0.1", "wait")
    assert (row["calls"], row["answered"]) == (48, 48)
    assert (row["fitted_on"], row["alone"], row["reason"], row["not_answered"]) == (48, 13, None, {})
    for phase, truth in (("queue", queue_ns), ("prefill", prefill_ns)):
        bounds = row["phases_ns"][phase]
        assert bounds["low_ns"] < sum(map(truth, known)) < bounds["high_ns"]
    queue, prefill = row["phases_ns"]["queue"], row["phases_ns"]["prefill"]
    assert queue["low_ns"] + prefill["high_ns"] == queue["high_ns"] + prefill["low_ns"] == row["answered_ns"]
    assert "network" not in row["phases_ns"]
    assert document["validated"] == {"wait": WORDS["wait"]}
    assert (document["confidence"], document["reasons"]) == (0.9, {})


def test_one_task_is_compared_with_the_calls_of_the_day_before_it(store: Store, shared: Path) -> None:
    """Only its own waits are divided; what ran after it is not looked at."""
    groups = by_concurrency(shared, 1)
    for number, members in groups.items():
        OfStore(store).feed(spans(members, f"load-{number}"))
    (row,) = estimates(store, task_id="load-4")["rows"]
    assert (row["calls"], row["answered"], row["fitted_on"]) == (13, 13, 36)
    assert row["phases_ns"]["queue"]["low_ns"] < sum(map(queue_ns, groups[4]))
    assert sum(map(queue_ns, groups[4])) < row["phases_ns"]["queue"]["high_ns"]
    (first,) = estimates(store, task_id="load-1")["rows"]
    assert (first["calls"], first["answered"], first["reason"]) == (12, 0, "few_calls")


def test_the_order_in_which_spans_came_is_of_no_account(shared: Path) -> None:
    """The same estimates, to the nanosecond."""
    groups = sorted(by_concurrency(shared, 1).items())
    found = []
    for ordered in (groups, groups[::-1]):
        with open_store(None) as store:
            for number, members in ordered:
                OfStore(store).feed(spans(members[::-1], f"load-{number}"))
            found.append(estimates(store))
    assert found[0] == found[1]


def test_two_slots_say_why_there_is_nothing(store: Store, shared: Path) -> None:
    """In a code and in words."""
    for number, members in by_concurrency(shared, 2).items():
        OfStore(store).feed(spans(members, f"load-{number}"))
    document = estimates(store)
    (row,) = document["rows"]
    assert (row["answered"], row["phases_ns"], row["reason"]) == (0, None, "slowed")
    assert row["not_answered"] == {"slowed": 48}
    assert "works on several at once" in document["reasons"]["slowed"]


def test_what_cannot_be_used_is_counted_by_reason(store: Store) -> None:
    """No tokens, no word about the cache, hidden reasoning, a failure."""
    first = {"agentprof.first_token": 0.5, "agentprof.first_content": 0.5, "server.address": "h"}
    cached = {"gen_ai.usage.cache_read.input_tokens": 0}
    odd = {
        "a": first,
        "b": first | cached | {"gen_ai.usage.reasoning.output_tokens": 50},
        "c": first | cached | {"agentprof.usage.estimated": True},
        "d": first | cached,
        "e": {"server.address": "h"},
    }
    calls = [call_span("1" * 32, "t", name, **more) for name, more in odd.items()]
    calls[3] = msgspec.structs.replace(calls[3], status=2)
    OfStore(store).feed([task_span("1" * 32, "t", start=T0), *calls])
    row, whole = estimates(store)["rows"]
    assert (whole["divides"], whole["not_answered"]) == ("model", {"cache_unknown": 1})
    assert row["not_answered"] == {"cache_unknown": 1, "failed": 1, "hidden_reasoning": 1, "no_usage": 1}
    assert (row["divides"], row["calls"], row["answered"]) == ("wait", 4, 0)


def test_calls_in_one_piece_are_divided_at_the_speed_of_the_streamed(store: Store, shared: Path) -> None:
    """Those of four at a time as if they had not been streamed: the sums hold the truth."""
    groups = by_concurrency(shared, 1)
    for number, members in groups.items():
        found = spans(members, f"load-{number}")
        if number == 4:
            found = [without_first_token(span) for span in found]
        OfStore(store).feed(found)
    waits, whole = estimates(store)["rows"]
    assert (waits["divides"], waits["calls"], waits["answered"], waits["fitted_on"]) == ("wait", 35, 35, 35)
    assert (whole["divides"], whole["calls"], whole["answered"], whole["fitted_on"]) == ("model", 13, 13, 35)
    generation = sum(round((request["t_done"] - request["t_first_content"]) * 1e9) for request in groups[4])
    truths = {"queue": sum(map(queue_ns, groups[4])), "prefill": sum(map(prefill_ns, groups[4]))}
    for phase, truth in (truths | {"generation": generation}).items():
        assert whole["phases_ns"][phase]["low_ns"] < truth < whole["phases_ns"][phase]["high_ns"]
    (one,) = estimates(store, task_id="load-4")["rows"]
    assert (one["divides"], one["calls"], one["reason"]) == ("model", 13, None)


def without_first_token(span: RawSpan) -> RawSpan:
    """As of a call that was not streamed."""
    kept = {name: value for name, value in span.attributes.items() if "first_" not in name}
    return msgspec.structs.replace(span, attributes=kept)


def test_embeddings_are_no_calls_in_one_piece(store: Store) -> None:
    """They generate nothing."""
    more = {"gen_ai.operation.name": "embeddings"}
    OfStore(store).feed([task_span("1" * 32, "t"), call_span("1" * 32, "t", "a", **more)])
    assert estimates(store)["rows"] == []


def test_a_reported_queue_is_left_alone(store: Store) -> None:
    """Nothing that a server says is estimated."""
    more = {
        "agentprof.first_token": 0.5,
        "agentprof.phase.queue": 0.1,
        "agentprof.phase_source.queue": "reported",
    }
    OfStore(store).feed([task_span("1" * 32, "t"), call_span("1" * 32, "t", "a", **more)])
    assert estimates(store)["rows"] == []


def test_the_command(agentprof_command: Any, shared: Path, tmp_path: Path) -> None:
    """Many tasks and one, as a table, CSV and JSON; the timeline keeps its wait."""
    database = tmp_path / "own.duckdb"
    with open_store(database) as store:
        for number, members in by_concurrency(shared, 1).items():
            OfStore(store).feed(spans(members, f"load-{number}"))

    def report(*words: str) -> str:
        done = agentprof_command("report", "--db", database, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return str(done.stdout)

    table = report("--estimate")
    assert "small at 10.0" in table
    assert " ".join(WORDS["wait"].split()) in " ".join(table.split())
    assert json.loads(report("--estimate", "--json"))["rows"][0]["answered"] == 48
    assert report("--estimate", "--csv").splitlines()[1].startswith("black-box,small,10.0.0.1,,wait,48,48,")
    plain, estimated = (json.loads(report("load-4", "--json", *more)) for more in ([], ["--estimate"]))
    assert plain["estimates"] == []
    assert estimated["timeline_ns"] == plain["timeline_ns"]
    assert [entry["phase"] for entry in estimated["estimates"]] == ["queue", "prefill"]
    row = estimated["estimated"]["rows"][0]
    for entry in estimated["estimates"]:
        bounds = row["phases_ns"][entry["phase"]]
        assert (entry["low_ns"], entry["high_ns"]) == (bounds["low_ns"], bounds["high_ns"])
        assert entry["basis"].startswith("wait of 13 of 13 calls of small at 10.0.0.1, from 36 calls")
        assert entry["basis"].endswith(WORDS["wait"])
    one = " ".join(report("load-4", "--estimate").split())
    assert "of small at 10.0.0.1, 13 of 13 calls: queue " in one
    assert " ".join(WORDS["wait"].split()) in one
    none = " ".join(report("load-1", "--estimate").split())
    assert "wait of 12 calls of small at 10.0.0.1 not estimated: fewer than 20 calls" in none
    assert "validated" not in none
