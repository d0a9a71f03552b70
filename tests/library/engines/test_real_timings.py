"""Every recorded request to a real engine is divided whole, by what the engine and the client's clock say of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentprof.dialects import Answer, dialect_of
from agentprof.engines import llama_cpp
from agentprof.model import Call, Phase
from agentprof.rollup.phases import Filled, fill_phases

S = 1_000_000_000
MS = 1_000_000


def rows(shared: Path, name: str) -> list[dict[str, Any]]:
    text = (shared / "data" / "engine" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


def ns(row: dict[str, Any], until: str) -> int:
    """From sending the request, by the client's clock."""
    return round((row[until] - row["t_send"]) * S)


def read(row: dict[str, Any]) -> Answer:
    """The last chunk as its dialect reads it; of the recordings only its figures are kept."""
    dialect, answer = dialect_of("/v1/chat/completions"), Answer()
    assert dialect is not None
    kept = {name: row[name] for name in ("timings", "metrics", "usage") if name in row}
    dialect.event_reader(answer)(json.dumps({"choices": [], **kept}).encode())
    return answer


def divided(answer: Answer, duration: int, first_token: int | None, last_token: int | None) -> Filled:
    """The call, which must be filled exactly and without doubt."""
    phases = dict(answer.phases)
    if last_token is not None:
        phases["client"] = Phase(ns=max(duration - last_token, 0), source="observed")
    late = "metrics.queue_time_ms" in {phase.field for phase in phases.values()}
    filled = fill_phases(Call(phases=phases, first_token_ns=first_token, queue_starts_late=late), duration)
    assert sum(segment.ns for segment in filled.segments) == duration
    assert filled.faults == ()
    return filled


def length(filled: Filled, *names: str) -> int:
    return sum(segment.ns for segment in filled.segments if segment.name in names)


def test_llama_cpp_streams(shared: Path) -> None:
    """Queue by when the headers came, with one slot and two, with and without progress; prefill as the server says."""
    found = 0
    for row in rows(shared, "llama_cpp_requests.jsonl"):
        if "timings" not in row or "t_first_content" not in row:
            continue
        answer = read(row)
        assert answer.engine == "llama.cpp"
        first = ns(row, "t_first_content")
        llama_cpp.note_queue(answer, ns(row, "t_headers"), first)
        filled = divided(answer, ns(row, "t_done"), first, ns(row, "t_last_content"))
        queue = length(filled, "network", "queue")
        assert queue == pytest.approx(ns(row, "t_headers"), abs=24 * MS)
        assert {s.source for s in filled.segments if s.name == "queue"} <= {"derived"}
        assert length(filled, "prefill") == pytest.approx(row["timings"]["prompt_ms"] * MS, abs=1)
        assert length(filled, "wait", "model") == 0
        # A connection that ends a little late or early is within what two clocks differ by.
        assert length(filled, "generation") == pytest.approx(row["timings"]["predicted_ms"] * MS, abs=50 * MS)
        found += 1
    assert found == 96


def test_llama_cpp_whole_answers(shared: Path) -> None:
    """Without a stream the wait is what the server did not work on the request."""
    found = 0
    for row in rows(shared, "llama_cpp_requests.jsonl"):
        if row.get("kind") != "nonstream":
            continue
        answer = read(row)
        duration = ns(row, "t_done")
        filled = divided(answer, duration, None, None)
        worked = (row["timings"]["prompt_ms"] + row["timings"]["predicted_ms"]) * MS
        assert length(filled, "wait") == pytest.approx(duration - worked, abs=2)
        assert [segment.name for segment in filled.segments] == ["wait", "prefill", "generation"]
        found += 1
    assert found == 10


def test_vllm_requests(shared: Path) -> None:
    """What its queue figure leaves out before the first token is queueing, derived."""
    found = 0
    for row in rows(shared, "vllm_requests.jsonl"):
        answer = read(row | row["extra"])
        assert answer.engine == "vllm"
        filled = divided(answer, row["total_ms"] * MS, row["ttft_ms"] * MS, None)
        metrics = row["extra"]["metrics"]
        assert [segment.name for segment in filled.segments] == ["queue", "prefill", "generation"]
        prefill = metrics["time_to_first_token_ms"] * MS
        assert length(filled, "prefill") == pytest.approx(prefill, abs=1)
        assert length(filled, "queue") == pytest.approx(row["ttft_ms"] * MS - prefill, abs=5 * MS)
        found += 1
    assert found == len(rows(shared, "vllm_requests.jsonl")) > 0


def test_vllm_from_bodies_alone(shared: Path) -> None:
    """56 calls of agents, streamed and not: queue and prefill are the time to the first token, seen or generated."""
    for row in rows(shared, "vllm_joined_client.jsonl"):
        answer = read(row)
        duration = ns(row, "t_end")
        first = ns(row, "t_first_content") if row["stream"] else None
        last = ns(row, "t_last_content") if row["stream"] else None
        filled = divided(answer, duration, first, last)
        assert {segment.name for segment in filled.segments} <= {"queue", "prefill", "generation", "client"}
        # One stream shows its first token late, with the two after it.
        before = duration - round(row["metrics"]["generation_time_ms"] * MS)
        if first is not None:
            before = min(first, before)
        assert length(filled, "queue", "prefill") == pytest.approx(before, abs=50 * MS)
