"""`report --calls --by context|concurrency`: figures worked out by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.raw import SECOND, T0, call_span, task_span
from support.serving import OfStore

from agentprof_collector.receive.otlp import decode_json
from agentprof_collector.reports import REPORTS, rates
from agentprof_collector.reports.calls import rows_of_calls
from agentprof_collector.reports.endpoints import by_endpoint
from agentprof_collector.reports.rates import company_bucket, context_bucket, rate_rows
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store, open_store

TRACE = "1" * 32
IN, OUT, CACHED = (f"gen_ai.usage.{name}_tokens" for name in ("input", "output", "cache_read.input"))


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty one."""
    with open_store(None) as opened:
        yield opened


def feed(store: Store, *calls: dict[str, Any]) -> None:
    """One task with these calls, in seconds from its start; one more token than `out` is made."""
    found = [task_span(TRACE, "t", start=T0)]
    for number, call in enumerate(calls):
        more = {name: value for name, value in call.items() if "." in name or "__" in name}
        if "first" in call:
            more["agentprof.first_token"] = call["first"]
        found.append(
            call_span(
                TRACE,
                "t",
                f"c{number:03}",
                at=call["at"],
                seconds=call["seconds"],
                **{"server.address": "h", "agentprof.stream.end": "complete", **more},
            )
        )
    OfStore(store).feed(found)


def rows(store: Store, by: Any, **selected: Any) -> list[dict[str, Any]]:
    """Of the document."""
    found: list[dict[str, Any]] = REPORTS["rates"].document(store, Selection(by=by, **selected))["rows"]
    return found


def test_by_context(store: Store) -> None:
    """Powers of two of the input, cached or not; each figure with the calls that have it."""
    feed(
        store,
        {"at": 0, "seconds": 3, "first": 1, IN: 512, OUT: 101, CACHED: 0},
        {"at": 0, "seconds": 6, "first": 2, IN: 1023, OUT: 101, CACHED: 1000},
        {"at": 0, "seconds": 1, IN: 1024, OUT: 7},
        {"at": 0, "seconds": 1, IN: 0, OUT: 7},
    )
    low, middle, high = rows(store, "context")
    assert [(row["low"], row["high"], row["calls"]) for row in (low, middle, high)] == [
        (0, 127, 1),
        (512, 1023, 2),
        (1024, 2047, 1),
    ]
    assert middle["first_token_ns"] == {"p50": 1 * SECOND, "p95": 2 * SECOND, "p99": None, "n": 2}
    assert middle["generation_tokens_per_s"] == {"p50": 25.0, "p95": 50.0, "p99": None, "n": 2}
    assert high["first_token_ns"] == {"p50": None, "p95": None, "p99": None, "n": 0}
    assert {row["prefill_tokens_per_s"]["n"] for row in (low, middle, high)} == {0}
    assert (middle["provider"], middle["model"], middle["server"]) == ("openai", "gpt-4o-2024-08-06", "h")


def test_a_reported_prefill_has_a_rate(store: Store) -> None:
    """400 tokens that were not read from the cache, in half a second."""
    split = {"agentprof.phase.queue": 0.2, "agentprof.phase.prefill": 0.5}
    split_by = {"agentprof.phase_source.queue": "reported", "agentprof.phase_source.prefill": "reported"}
    feed(store, {"at": 0, "seconds": 3, "first": 1, IN: 1000, CACHED: 600, OUT: 41, **split, **split_by})
    (row,) = rows(store, "context")
    assert row["prefill_tokens_per_s"]["p50"] == 800.0


def test_by_concurrency(store: Store) -> None:
    """How many were in flight on average while a call ran: one alone, one with a second for its first half only."""
    feed(
        store,
        {"at": 0, "seconds": 1, "first": 0.1, IN: 10, OUT: 11},
        {"at": 2, "seconds": 4, "first": 0.2, IN: 10, OUT: 11},
        {"at": 2, "seconds": 4, "first": 0.3, IN: 10, OUT: 11},
        {"at": 2, "seconds": 4, "first": 0.4, IN: 10, OUT: 11},
    )
    one, three = rows(store, "concurrency")
    assert [(row["low"], row["high"], row["calls"]) for row in (one, three)] == [(1, 1, 1), (3, 4, 3)]
    assert three["first_token_ns"]["p50"] == round(0.3 * SECOND)


def test_another_endpoint_is_no_company(store: Store) -> None:
    """Rows by endpoint; what runs elsewhere at the same time does not count."""
    call = {"at": 0, "seconds": 4, "first": 1, IN: 10, OUT: 11}
    feed(store, call, {**call, "server.address": "other"})
    assert [(row["server"], row["low"], row["high"]) for row in rows(store, "concurrency")] == [
        ("h", 1, 1),
        ("other", 1, 1),
    ]


def test_failures_are_counted_and_have_no_figures(store: Store) -> None:
    """They are company all the same."""
    feed(store, {"at": 0, "seconds": 4, "first": 1, IN: 10, OUT: 11}, {"at": 0, "seconds": 4, "first": 1})
    failed = call_span(TRACE, "t", "bad", at=0, seconds=4, **{"server.address": "h"})
    OfStore(store).feed([msgspec.structs.replace(failed, status=2)])
    (row,) = rows(store, "concurrency")
    assert (row["low"], row["high"], row["calls"], row["errors"]) == (3, 4, 3, 1)
    assert row["first_token_ns"]["n"] == 2


def test_retries_are_not_the_endpoints_time(store: Store) -> None:
    """The first token counts from the start of the attempt that gave it."""
    failed = {
        "agentprof.attempts": 2,
        "agentprof.attempt.duration": [1.0],
        "agentprof.attempt.backoff": [0.5],
        "agentprof.attempt.status": ["500"],
    }
    feed(store, {"at": 0, "seconds": 4, "first": 2.0, IN: 10, OUT: 11, **failed})
    (row,) = rows(store, "context")
    assert row["first_token_ns"]["p50"] == round(0.5 * SECOND)


SPLIT = {"queue": 0.5, "prefill": 1.0, "generation": 2.0}


@pytest.mark.parametrize(
    ("parts", "more", "first_s"),
    [
        (SPLIT, {"gen_ai.request.stream": True}, 2.0),
        (SPLIT, {}, 2.0),
        (SPLIT, {"gen_ai.request.stream": False}, None),
        # Of the rest nobody says how much was queueing and how much the way.
        ({"prefill": 1.0, "generation": 2.0}, {}, None),
        ({"queue": 0.5, "prefill": 1.0}, {}, None),
    ],
)
def test_a_first_token_that_only_the_engine_saw(
    store: Store, parts: dict[str, float], more: dict[str, Any], first_s: float | None
) -> None:
    """Is what precedes the generation, of 4 s with half a second for the way; not of what came in one piece."""
    phases = {f"agentprof.phase.{name}": seconds for name, seconds in parts.items()}
    said_by = {f"agentprof.phase_source.{name}": "reported" for name in parts}
    feed(store, {"at": 0, "seconds": 4, IN: 10, OUT: 11, **phases, **said_by, **more})
    (row,) = rows(store, "context")
    assert row["first_token_ns"]["p50"] == (None if first_s is None else round(first_s * SECOND))


def test_first_tokens_of_joined_calls(shared: Path, store: Store) -> None:
    """Of 56 recorded calls that only vLLM's spans divide: what the client saw, to 50 ms, of each that streamed."""
    folder = shared / "data" / "engine"
    lines = (folder / "vllm_joined_client.jsonl").read_text().splitlines()
    stamps = {(row["trace_id"], row["span_id"]): row for row in map(json.loads, lines)}
    requests = (folder / "vllm_joined.otlp.jsonl").read_text().splitlines()
    OfStore(store).feed([span for request in requests for span in decode_json(request).spans])
    calls = [call for found in by_endpoint(rows_of_calls(store, Selection())).values() for call in found]
    assert len(calls) == len(stamps) == 56
    streamed = [call for call in calls if stamps[call.trace_id, call.span_id]["stream"]]
    for call in streamed:
        stamp = stamps[call.trace_id, call.span_id]
        assert call.first_token_ns is not None
        assert call.start_ns + call.first_token_ns == pytest.approx(
            stamp["t_first_chunk"] * SECOND, abs=SECOND // 20
        )
    found = rows(store, "concurrency")
    assert [row["first_token_ns"]["n"] for row in found] == [row["calls"] for row in found]


def test_a_99th_percentile_needs_100_calls(store: Store) -> None:
    """99 calls have none."""
    calls = [{"at": n, "seconds": 0.5, "first": (n + 1) / 1000, IN: 10, OUT: 11} for n in range(100)]
    feed(store, *calls[:99])
    assert rows(store, "context")[0]["first_token_ns"]["p99"] is None
    feed(store, *calls)
    figure = rows(store, "context")[0]["first_token_ns"]
    assert (figure["p50"], figure["p95"], figure["p99"]) == (50_000_000, 95_000_000, 99_000_000)


def test_only_so_many_calls_are_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the document says so."""
    feed(store, *[{"at": n, "seconds": 0.5, "first": 0.1, IN: 10, OUT: 11} for n in range(5)])
    whole = REPORTS["rates"].document(store, Selection(by="context"))
    assert (whole["calls"], whole["calls_left_out"]) == (5, False)
    monkeypatch.setattr(rates, "MOST_CALLS", 4)
    part = REPORTS["rates"].document(store, Selection(by="context"))
    assert (part["calls"], part["calls_left_out"], part["rows"][0]["calls"]) == (4, True, 4)


def test_rows_as_csv(store: Store) -> None:
    """All with the same columns."""
    feed(store, {"at": 0, "seconds": 3, "first": 1, IN: 512, OUT: 101, CACHED: 0})
    document = REPORTS["rates"].document(store, Selection(by="context"))
    (flat,) = REPORTS["rates"].rows(document)
    assert (flat["low"], flat["high"], flat["generation_tokens_per_s.p50"]) == (512, 1023, 50.0)
    assert (flat["first_token_ns.n"], flat["prefill_tokens_per_s.p99"]) == (1, None)


@given(st.integers(0, 10**9))
def test_a_context_is_in_its_bucket(tokens: int) -> None:
    """Buckets do not overlap: that of a bound is the same."""
    low, high = context_bucket(tokens) or (1, 0)
    assert low <= tokens <= high
    assert context_bucket(low) == context_bucket(high) == (low, high)


@given(st.floats(0, 10_000))
def test_a_company_is_in_its_bucket(mean: float) -> None:
    """Rounded; a call is in its own company."""
    low, high = company_bucket(mean)
    assert low - 0.5 <= max(1.0, mean) < high + 0.5
    assert company_bucket(float(low)) == company_bucket(float(high)) == (low, high)


def test_buckets_of_company() -> None:
    """1, 2, 3 to 4, 5 to 8, ..."""
    found = [company_bucket(float(number)) for number in (1, 2, 3, 4, 5, 8, 9, 17)]
    assert found == [(1, 1), (2, 2), (3, 4), (3, 4), (5, 8), (5, 8), (9, 16), (17, 32)]


def test_the_order_of_calls_is_of_no_account(store: Store) -> None:
    """The same rows whatever comes first."""
    dice = random.Random(3)
    feed(
        store,
        *[
            {"at": dice.random() * 9, "seconds": 2, "first": dice.random(), IN: dice.randrange(4000), OUT: 11}
            for _ in range(40)
        ],
    )
    calls = list(rows_of_calls(store, Selection()))
    mixed = calls[:]
    dice.shuffle(mixed)
    for by in ("context", "concurrency"):
        assert rate_rows(by_endpoint(calls), by) == rate_rows(by_endpoint(mixed), by)  # type: ignore[arg-type]
