"""Parallel calls of the openai SDK to llama.cpp's real server: what the spans say, beside the server's own times."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from support.llama_cpp import LlamaCpp, serving

import agentprof
from agentprof._readable import to_raw
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.testing import capture
from agentprof.vocabularies import normalise

MS = 1e-3
AT_ONCE = 4
MOST = 0.75
"""Of the calls at least; while another program has the processor, this one may see headers or an answer late."""
TRIES = 8
"""Runs of which one has to be right, where limits are narrower than what a busy machine may take."""


class Seen(NamedTuple):
    """One call as the test saw it, s."""

    total: float
    first_token: float | None
    """None: it was no stream."""
    prefill: float
    """As the server says: `prompt_ms`."""
    generation: float
    """As the server says: `predicted_ms`."""
    tokens: dict[str, int]
    """As the server counts them beside its times."""

    @property
    def queue(self) -> float:
        """What the server did not work on the request: it never reports this."""
        before = self.total - self.generation if self.first_token is None else self.first_token
        return before - self.prefill


def ask(client: openai.OpenAI, number: int, *, stream: bool) -> Seen:
    """One call, of a length of its own, that shares no prefix with another."""
    text = f"{number} " * (20 + 10 * (number % AT_ONCE)) + "Count on."
    request: dict[str, Any] = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 12,
        "temperature": 0,
    }
    begin = time.perf_counter()
    if not stream:
        timings = _timings(client.chat.completions.create(**request))
        end = time.perf_counter()
        return _seen(end - begin, None, timings)
    first: float | None = None
    timings = {}
    for chunk in client.chat.completions.create(**request, stream=True):
        if first is None and chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter()
        timings = _timings(chunk) or timings
    end = time.perf_counter()
    assert first is not None
    return _seen(end - begin, first - begin, timings)


def _seen(total: float, first_token: float | None, timings: dict[str, float]) -> Seen:
    read, cached, output = (int(timings[name]) for name in ("prompt_n", "cache_n", "predicted_n"))
    tokens = {"input": read + cached, "cache_read": cached, "output": output}
    return Seen(total, first_token, timings["prompt_ms"] * MS, timings["predicted_ms"] * MS, tokens)


def _timings(answer: Any) -> dict[str, float]:
    return (answer.model_extra or {}).get("timings") or {}


class Run(NamedTuple):
    """The calls of an agent as seen, and as recorded, each in the order in which they were made."""

    seen: list[Seen]
    rows: list[CallRow]

    def with_queue(self) -> Run:
        """The calls whose queue is told; of the others what precedes the prefill is a wait, and these are few."""
        told = [
            (seen, row) for seen, row in zip(self.seen, self.rows, strict=True) if "queue" in row.phases_ns
        ]
        for row in self.rows:
            assert ("queue" in row.phases_ns) != ("wait" in row.phases_ns)
        assert len(told) >= MOST * len(self.rows)
        return Run([seen for seen, _ in told], [row for _, row in told])

    def queue_errors(self, server: LlamaCpp) -> list[float]:
        """By how much each recorded queue ends too late or too early, s, by the clock of the server.

        Its log says when a slot took each request and when it let it go. The least time by which the client saw
        anything of that later is what lies between the two clocks.
        """
        worked = [server.worked(seen.prefill / MS, seen.generation / MS) for seen in self.seen]
        begun = [row.start_ns / 1e9 for row in self.rows]
        ends = [at + phase_s(row, "connect", "queue") for at, row in zip(begun, self.rows, strict=True)]
        tokens = [at + (row.first_token_ns or 0) / 1e9 for at, row in zip(begun, self.rows, strict=True)]
        late = [end - one.start for end, one in zip(ends, worked, strict=True)]
        between = min(
            *late, *(token - one.start - one.prefill for token, one in zip(tokens, worked, strict=True))
        )
        return [abs(one - between) for one in late]


def run_agent(url: str, *, rounds: int, stream: bool) -> Run:
    """An agent that makes some calls at once, some times over."""
    seen: dict[int, Seen] = {}
    with capture() as captured:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
        with agentprof.task("agent") as task, ThreadPoolExecutor(AT_ONCE) as pool:
            for turn in range(rounds):
                numbers = range(turn * AT_ONCE, (turn + 1) * AT_ONCE)

                def one(number: int) -> None:
                    with agentprof.step(f"call {number}"):
                        seen[number] = ask(client, number, stream=stream)

                list(pool.map(one, numbers))
        client.close()
    spans = [normalise(to_raw(span)) for span in captured.spans]
    rows = {row.path[-2]: row for row in call_rows(task.id, spans)}
    assert len(rows) == len(seen) == rounds * AT_ONCE
    numbers = sorted(seen)
    return Run([seen[number] for number in numbers], [rows[f"call {number}"] for number in numbers])


def in_one_run(check: Callable[[], None]) -> None:
    """Make a run and look at it; made again where the machine had other things to do."""
    for left in reversed(range(TRIES)):
        try:
            check()
        except AssertionError:
            if not left:
                raise
        else:
            return


def phase_s(row: CallRow, *names: str) -> float:
    """Time of a recorded call in some phases."""
    return sum(row.phases_ns.get(name, 0) for name in names) / 1e9


@pytest.fixture(scope="module")
def one_slot(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCpp]:
    """A server that works on one request at a time."""
    with serving(shared, tmp_path_factory.mktemp("one"), slots=1) as server:
        yield server


@pytest.fixture(scope="module")
def two_slots(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCpp]:
    """A server that works on two requests at a time: each one's times contain work for the other."""
    with serving(shared, tmp_path_factory.mktemp("two"), slots=2) as server:
        yield server


def check_reported(run: Run, *, generation_within: float) -> None:
    """Prefill, generation and tokens of every call are what the server said of it, and all phases fill it.

    No stream here asks for its usage.
    """
    for row, seen in zip(run.rows, run.seen, strict=True):
        assert sum(row.phases_ns.values()) == row.duration_ns
        assert row.phase_sources["prefill"] == "reported"
        assert phase_s(row, "prefill") == pytest.approx(seen.prefill, abs=0.001)
        assert phase_s(row, "generation") == pytest.approx(seen.generation, abs=generation_within)
        assert not row.usage_estimated
        assert {name: row.tokens.get(name) for name in seen.tokens} == seen.tokens


def check_streams(run: Run, *, generation_within: float) -> Run:
    """The same where a queue is told, prefill and the whole everywhere; the calls with a queue."""
    check_reported(run, generation_within=float("inf"))
    told = run.with_queue()
    check_reported(told, generation_within=generation_within)
    assert {row.phase_sources["queue"] for row in told.rows} == {"derived"}
    return told


def check_waits(run: Run) -> None:
    """Of whole answers: what the server did not work on is the wait, never longer than the program itself saw.

    A program that is held up sees answers late: most calls of a run are not.
    """
    missed = [
        seen.queue - phase_s(row, "connect", "network", "wait")
        for row, seen in zip(run.rows, run.seen, strict=True)
    ]
    assert min(missed) >= -0.001
    assert sum(one <= 0.1 for one in missed) >= MOST * len(missed)


def test_streams_of_one_slot(one_slot: LlamaCpp) -> None:
    """Each phase is right to 10 ms in the middle and to 50 ms at worst: the queue by when the headers came."""

    def check() -> None:
        run = check_streams(run_agent(one_slot.url, rounds=2, stream=True), generation_within=0.05)
        assert max(phase_s(row, "queue") for row in run.rows) > 0.2, "calls made at once did not wait"
        late = run.queue_errors(one_slot)
        generation = [
            abs(phase_s(row, "generation") - seen.generation)
            for row, seen in zip(run.rows, run.seen, strict=True)
        ]
        for name, errors in (("queue", late), ("generation", generation)):
            print(f"errors of {name} in ms:", [round(one * 1000, 1) for one in errors])
            assert statistics.median(errors) <= 0.010
            assert max(errors) <= 0.050

    in_one_run(check)


def test_plain_answers_of_one_slot(one_slot: LlamaCpp) -> None:
    """Nothing on the wire says when the slot started: what the server does not report is the wait before it."""

    def check() -> None:
        run = run_agent(one_slot.url, rounds=1, stream=False)
        check_reported(run, generation_within=0.001)
        for row in run.rows:
            assert row.phase_sources["generation"] == "reported"
            assert "queue" not in row.phases_ns
        check_waits(run)

    in_one_run(check)


def test_streams_of_two_slots(two_slots: LlamaCpp) -> None:
    """Two of four calls start at once, the others wait until a slot is free."""

    def check() -> None:
        run = run_agent(two_slots.url, rounds=1, stream=True)
        told = check_streams(run, generation_within=0.1)
        assert max(told.queue_errors(two_slots)) <= 0.1
        waits = sorted(phase_s(row, "queue", "wait") for row in run.rows)
        assert waits[1] < waits[2] / 2

    in_one_run(check)


def test_plain_answers_of_two_slots(two_slots: LlamaCpp) -> None:
    """Prefill and generation as the server says, the rest before them."""

    def check() -> None:
        run = run_agent(two_slots.url, rounds=1, stream=False)
        check_reported(run, generation_within=0.001)
        check_waits(run)

    in_one_run(check)
