"""Calls whose times mislead: each through a real seam over loopback, with the phases it must have.

The server's pauses are true times from below; from above a busy machine adds to them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import httpx2
import openai
import pytest
from support.model_server import CHAT, DONE, ROLE, ModelServer, Reply, chunk

from agentprof import _guard, attributes
from agentprof._readable import to_raw
from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.testing import Captured
from agentprof.vocabularies import normalise

S = 1_000_000_000
EARLY = 0.005
LATE = 0.150
"""What a busy machine may add to a pause."""

USAGE = {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320}
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Count."}]}


@pytest.fixture(autouse=True)
def nothing_fails_inside() -> Any:
    """No test may pass because a failure of ours was swallowed."""
    before = _guard.counts()
    yield
    assert _guard.counts() == before


def metrics(queue: float, prefill: float, generation: float) -> dict[str, Any]:
    """What vLLM puts beside the usage, of seconds."""
    times = {"queue_time_ms": queue, "time_to_first_token_ms": prefill, "generation_time_ms": generation}
    return {"metrics": {name: s * 1000 for name, s in times.items()}}


def streamed(server: ModelServer, pieces: list[bytes | float]) -> None:
    """Read a stream to its end with the openai SDK."""
    server.replies = [Reply.stream(pieces)]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            pass


def whole(server: ModelServer, body: dict[str, Any], wait_s: float) -> None:
    """Get a whole answer with the openai SDK."""
    reply = Reply.json(CHAT | {"usage": USAGE} | body)
    reply.wait_s = wait_s
    server.replies = [reply]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        client.chat.completions.create(**ASKED)


def spans_of(captured: Captured) -> list[Span]:
    return [normalise(to_raw(span)) for span in captured.spans]


def row_of(captured: Captured) -> CallRow:
    (row,) = call_rows("t", spans_of(captured))
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row


def faults(captured: Captured) -> str:
    """What the summary says of times that cannot be."""
    found = [w.detail for w in roll_up("t", spans_of(captured)).warnings if w.code == "timing_faults"]
    return found[0] if found else ""


def about(seconds: float) -> Any:
    """A time in ns that is no shorter, and not much longer."""

    class About:
        def __eq__(self, ns: object) -> bool:
            return isinstance(ns, int) and seconds - EARLY <= ns / S <= seconds + LATE

        def __repr__(self) -> str:
            return f"about {seconds} s"

    return About()


def exactly(seconds: float) -> int:
    return round(seconds * S)


def saying(captured: Captured, name: str) -> Any:
    return (captured.spans[0].attributes or {}).get(name)


# --- what the engine says ------------------------------------------------------------------------
def test_a_wrong_clock(server: ModelServer, captured: Captured) -> None:
    """Stamps of an engine whose clock is years off: only their differences count."""
    meta = {
        "queue_time": 0.1,
        "forward_entry_time": 1000.1,
        "prefill_finished_time": 1000.15,
        "first_token_latency": 0.15,
        "e2e_latency": 0.25,
    }
    choice = CHAT["choices"][0] | {"matched_stop": None, "meta_info": meta}
    whole(server, {"choices": [choice]}, wait_s=0.3)
    assert row_of(captured).phases_ns == {
        "connect": pytest.approx(0, abs=0.05 * S),
        "network": about(0.05),
        "queue": exactly(0.1),
        "prefill": exactly(0.05),
        "generation": exactly(0.1),
    }
    assert row_of(captured).engine == "sglang"
    assert row_of(captured).phase_fields["queue"] == "choices[0].meta_info.queue_time"
    assert faults(captured) == ""


def test_a_clock_that_was_set_back(server: ModelServer, captured: Captured) -> None:
    """A difference of stamps below zero is named and is no prefill."""
    meta = {"queue_time": 0.1, "forward_entry_time": 1000.1, "prefill_finished_time": 999.0}
    choice = CHAT["choices"][0] | {"matched_stop": None, "meta_info": meta}
    whole(server, {"choices": [choice]}, wait_s=0.3)
    phases = row_of(captured).phases_ns
    assert "prefill" not in phases
    assert (phases["queue"], phases["model"]) == (exactly(0.1), about(0.2))
    assert "prefill_finished_time - choices[0].meta_info.forward_entry_time: negative" in faults(captured)


def test_no_first_token(server: ModelServer, captured: Captured) -> None:
    """A stream that ends without a token is divided by what the engine says; the rest of it waited."""
    last = chunk(usage=USAGE | {"completion_tokens": 0}, **metrics(0.05, 0.1, 0.0))
    streamed(server, [0.2, ROLE, chunk({}, "stop"), last, DONE])
    row = row_of(captured)
    assert row.first_token_ns is None
    assert row.phases_ns["prefill"] == exactly(0.1)
    assert row.phases_ns["queue"] == about(0.1)
    assert row.phase_sources["queue"] == "derived"
    assert "generation" not in row.phases_ns


def test_a_cached_prompt(server: ModelServer, captured: Captured) -> None:
    """Hardly any prefill is what the engine says, and the wait is still the wait."""
    timings = {"cache_n": 298, "prompt_n": 2, "prompt_ms": 2.0, "predicted_n": 20, "predicted_ms": 200.0}
    last = chunk({}, "stop", usage=USAGE, timings=timings)
    streamed(server, [ROLE, 0.2, chunk({"content": "1"}), 0.2, chunk({"content": "2"}), last, DONE])
    row = row_of(captured)
    assert row.phases_ns["prefill"] == exactly(0.002)
    # The headers came at once: by them the prefill was no part of the 0.2 s, so they say nothing of a queue.
    assert row.phases_ns["wait"] == about(0.198)
    assert "queue" not in row.phases_ns
    assert row.phases_ns["generation"] == about(0.2)


def test_a_slot_that_came_free(server: ModelServer, captured: Captured) -> None:
    """Headers of llama.cpp that leave when the slot starts say how long the request had waited for it."""
    timings = {"cache_n": 0, "prompt_n": 300, "prompt_ms": 100.0, "predicted_n": 20, "predicted_ms": 200.0}
    last = chunk({}, "stop", usage=USAGE, timings=timings)
    pieces = [0.1, ROLE, chunk({"content": "1"}), 0.2, chunk({"content": "2"}), last, DONE]
    server.replies = [Reply.stream(pieces, wait_s=0.3)]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            pass
    row = row_of(captured)
    assert row.phases_ns["queue"] == about(0.3)
    assert row.phase_sources["queue"] == "derived"
    assert saying(captured, attributes.PHASE_FIELD + "queue") == "headers - request"
    assert row.phases_ns["prefill"] == exactly(0.1)
    assert "wait" not in row.phases_ns


def test_hidden_reasoning(server: ModelServer, captured: Captured) -> None:
    """What is thought and not shown is generation, although the client had seen no token yet."""
    usage = USAGE | {"completion_tokens_details": {"reasoning_tokens": 15}}
    last = chunk(usage=usage, **metrics(0.0, 0.05, 0.4))
    streamed(server, [ROLE, 0.35, chunk({"content": "1"}), 0.1, chunk({"content": "2"}, "stop"), last, DONE])
    row = row_of(captured)
    assert row.first_token_ns == about(0.35)
    assert row.phases_ns["generation"] == exactly(0.4)
    assert row.phases_ns["prefill"] == exactly(0.05)
    assert row.phase_sources["generation"] == "reported"
    assert row.tokens["reasoning"] == 15


def test_visible_reasoning(server: ModelServer, captured: Captured) -> None:
    """The first thought is the first token; what it says comes later."""
    pieces = [
        ROLE,
        0.1,
        chunk({"reasoning_content": "Hm."}),
        0.2,
        chunk({"content": "1"}),
        0.1,
        chunk({"content": "2"}, "stop"),
        DONE,
    ]
    streamed(server, pieces)
    row = row_of(captured)
    assert (row.first_token_ns, row.first_content_ns) == (about(0.1), about(0.3))
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.1), about(0.3))


def test_a_tool_call_and_nothing_else(server: ModelServer, captured: Captured) -> None:
    """Its first piece is the first token, and content."""
    begun = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "count", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": "{}"}}]
    pieces = [ROLE, 0.1, chunk({"tool_calls": begun}), 0.2, chunk({"tool_calls": more}, "tool_calls"), DONE]
    streamed(server, pieces)
    row = row_of(captured)
    assert (row.first_token_ns, row.first_content_ns) == (about(0.1), about(0.1))
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.1), about(0.2))


def test_an_empty_completion(server: ModelServer, captured: Captured) -> None:
    """Nothing was generated: no generation, and no time is invented for it."""
    empty = {"choices": [CHAT["choices"][0] | {"message": {"role": "assistant", "content": ""}}]}
    whole(server, empty | {"usage": USAGE | {"completion_tokens": 0}}, wait_s=0.1)
    row = row_of(captured)
    assert row.phases_ns["model"] == about(0.1)
    assert "generation" not in row.phases_ns


def test_figures_that_contradict_the_call(server: ModelServer, captured: Captured) -> None:
    """An engine that says it took longer than the client waited is not believed, and named."""
    whole(server, {"kv_transfer_params": None} | metrics(0.4, 0.5, 2.0), wait_s=0.1)
    row = row_of(captured)
    assert set(row.phases_ns) == {"connect", "model"}
    assert "metrics.generation_time_ms: longer than the call" in faults(captured)


# --- what lies between ---------------------------------------------------------------------------
def test_a_buffering_proxy(server: ModelServer, captured: Captured) -> None:
    """All chunks in one burst: generation keeps the length the engine says, times between tokens are none."""
    tokens = [chunk({"content": str(number)}) for number in range(20)]
    last = chunk(usage=USAGE, **metrics(0.02, 0.05, 0.4))
    streamed(server, [0.5, b"".join([ROLE, *tokens, chunk({}, "stop"), last, DONE])])
    row = row_of(captured)
    assert row.phases_ns["generation"] == exactly(0.4)
    assert row.phases_ns["prefill"] == exactly(0.05)
    assert row.phases_ns["queue"] == about(0.05)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None
    assert "inter_token: all tokens came at once" in faults(captured)


def test_a_buffering_proxy_before_an_engine_that_says_nothing(
    server: ModelServer, captured: Captured
) -> None:
    """Twenty tokens within a millisecond were not generated in it: the time is not divided by them."""
    tokens = [chunk({"content": str(number)}) for number in range(20)]
    streamed(server, [0.3, b"".join([ROLE, *tokens, chunk({}, "stop"), chunk(usage=USAGE), DONE])])
    row = row_of(captured)
    assert row.phases_ns["wait"] == about(0.3)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None
    assert "inter_token: all tokens came at once" in faults(captured)


def test_comments_that_keep_a_connection_open(server: ModelServer, captured: Captured) -> None:
    """They are no chunk and no token."""
    comment = b": keep-alive\n\n"
    pieces = [
        comment,
        0.1,
        comment,
        0.1,
        ROLE,
        chunk({"content": "1"}),
        0.1,
        chunk({"content": "2"}, "stop"),
        DONE,
    ]
    streamed(server, pieces)
    row = row_of(captured)
    assert row.first_token_ns == about(0.2)
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.2), about(0.1))
    assert saying(captured, attributes.TIME_TO_FIRST_CHUNK) >= 0.2 - EARLY


def test_empty_lines_that_keep_a_connection_open(server: ModelServer, captured: Captured) -> None:
    """A whole answer after empty lines is read like any other."""
    body = b'{"id": "1", "choices": [{"index": 0, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}'
    server.replies = [Reply([b"\n", 0.05, b"\n", 0.05, body], framing="chunked")]
    with (
        httpx2.Client() as client,
        client.stream("POST", f"{server.url}/chat/completions", json=ASKED) as answer,
    ):
        answer.read()
    row = row_of(captured)
    assert row.tokens["input"] == 3
    assert row.finish_reasons == ["stop"]


# --- what the program does -----------------------------------------------------------------------
TOKENS = [chunk({"content": str(number)}) for number in range(20)]
CLOSE = [chunk({}, "stop"), chunk(usage=USAGE), DONE]
FAST: list[bytes | float] = [0.1, ROLE, *TOKENS, *CLOSE]
STEADY: list[bytes | float] = [ROLE, *(piece for token in TOKENS for piece in (0.02, token)), *CLOSE]


def test_a_slow_reader(server: ModelServer, captured: Captured) -> None:
    """A program that takes its time between chunks that are there: the time is its own, not generation."""
    server.replies = [Reply.stream(FAST)]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            time.sleep(0.02)
    phases = row_of(captured).phases_ns
    assert phases["wait"] == about(0.1)
    assert phases["client"] >= 0.3 * S
    assert phases["generation"] <= 0.15 * S
    assert "inter_token: the program was slow to read" in faults(captured)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None


def test_a_slow_reader_of_an_engine_that_says_its_times(server: ModelServer, captured: Captured) -> None:
    """Generation has the length the engine says, the rest is the program's."""
    last = chunk(usage=USAGE, **metrics(0.01, 0.08, 0.15))
    server.replies = [Reply.stream([0.1, ROLE, *TOKENS, chunk({}, "stop"), last, DONE])]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            time.sleep(0.02)
    row = row_of(captured)
    assert row.phases_ns["generation"] == exactly(0.15)
    assert row.phases_ns["prefill"] == exactly(0.08)
    assert row.phases_ns["client"] >= 0.15 * S


def test_a_blocked_event_loop_of_a_reader(server: ModelServer, captured: Captured) -> None:
    """The same where the program blocks the loop it reads in."""
    server.replies = [Reply.stream(FAST)]

    async def read() -> None:
        async with openai.AsyncOpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
            async for _ in await client.chat.completions.create(**ASKED, stream=True):
                time.sleep(0.02)

    asyncio.run(read())
    phases = row_of(captured).phases_ns
    assert phases["client"] >= 0.3 * S
    assert phases["generation"] <= 0.15 * S
    assert "inter_token: the program was slow to read" in faults(captured)


def test_an_event_loop_blocked_by_others(server: ModelServer, captured: Captured) -> None:
    """Tokens that came while the loop was held up come together after it: their gaps are not the engine's."""
    server.replies = [Reply.stream(STEADY)]

    async def read() -> None:
        seen = asyncio.Event()

        async def block() -> None:
            await seen.wait()
            time.sleep(0.25)

        blocking = asyncio.create_task(block())
        async with openai.AsyncOpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
            got = 0
            async for _ in await client.chat.completions.create(**ASKED, stream=True):
                got += 1
                if got == 8:
                    seen.set()
        await blocking

    asyncio.run(read())
    row = row_of(captured)
    assert row.phases_ns["generation"] == about(0.38)
    assert "inter_token: tokens were held up" in faults(captured)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None


@pytest.mark.parametrize("client_kind", ["openai", "aiohttp"])
def test_a_steady_stream(server: ModelServer, captured: Captured, client_kind: str) -> None:
    """A program that reads as fast as tokens come has their gaps, and no time of its own."""
    server.replies = [Reply.stream(STEADY)]
    if client_kind == "openai":
        with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
            for _ in client.chat.completions.create(**ASKED, stream=True):
                pass
    else:
        asyncio.run(_read_with_aiohttp(f"{server.url}/chat/completions", pause_s=0))
    row = row_of(captured)
    assert row.phases_ns["generation"] == about(0.38)
    assert row.phases_ns.get("client", 0) <= 0.05 * S
    assert saying(captured, attributes.INTER_TOKEN + "p50") >= 0.02 - EARLY


def test_a_slow_reader_that_is_handed_the_bytes(server: ModelServer, captured: Captured) -> None:
    """aiohttp takes bytes in as they come, whether or not the program asks: the stamps stay those of the arrivals."""
    server.replies = [Reply.stream(STEADY)]
    asyncio.run(_read_with_aiohttp(f"{server.url}/chat/completions", pause_s=0.04))
    row = row_of(captured)
    assert row.phases_ns["generation"] == about(0.38)
    assert saying(captured, attributes.INTER_TOKEN + "p50") <= 0.04


async def _read_with_aiohttp(url: str, *, pause_s: float) -> None:
    async with aiohttp.ClientSession() as session, session.post(url, json=ASKED | {"stream": True}) as answer:
        async for _ in answer.content:
            await asyncio.sleep(pause_s)
