"""Programs that read streams slowly, or in loops that others block: that is no slow generation."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import openai
import pytest
from support.model_server import DONE, ROLE, ModelServer, Reply, chunk
from support.timed_calls import (
    ASKED,
    EARLY,
    USAGE,
    Pacing,
    S,
    about,
    exactly,
    faults,
    metrics,
    row_of,
    saying,
    streamed,
)

from agentprof import attributes
from agentprof._gaps import READ_SLOWLY
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


TOKENS = [chunk({"content": str(number)}) for number in range(20)]
CLOSE = [chunk({}, "stop"), chunk(usage=USAGE), DONE]
FAST: list[bytes | float] = [0.1, ROLE, *TOKENS, *CLOSE]
GAP_S = 0.05
STEADY: list[bytes | float] = [ROLE, *(piece for token in TOKENS for piece in (GAP_S, token)), *CLOSE]
GENERATION_S = 19 * GAP_S


def test_a_slow_reader(server: ModelServer, captured: Captured) -> None:
    """A program that takes its time between chunks that are there: the time is its own, not generation."""
    server.replies = [Reply.stream(FAST)]
    with openai.OpenAI(api_key="key", base_url=server.url, max_retries=0) as client:
        for _ in client.chat.completions.create(**ASKED, stream=True):
            time.sleep(0.02)
    row = row_of(captured)
    assert row.phases_ns["wait"] == about(0.1)
    assert row.phases_ns["client"] >= 0.3 * S
    assert row.phases_ns["generation"] <= row.phases_ns["client"] / 2
    assert row.timing_faults == [READ_SLOWLY]
    assert row.generation_tokens_per_s is None
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
    assert phases["generation"] <= phases["client"] / 2
    assert "inter_token: the program was slow to read" in faults(captured)


def test_an_event_loop_blocked_by_others(server: ModelServer, captured: Captured) -> None:
    """Tokens that came while the loop was held up come together after it: their gaps are not the engine's."""
    server.replies = [Reply.stream(STEADY)]

    async def read() -> None:
        seen = asyncio.Event()

        async def block() -> None:
            await seen.wait()
            time.sleep(10 * GAP_S)

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
    assert row.phases_ns["generation"] == about(GENERATION_S, EARLY)
    assert "inter_token: tokens were held up" in faults(captured)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None


@pytest.mark.parametrize("client_kind", ["openai", "aiohttp"])
def test_a_steady_stream(server: ModelServer, captured: Captured, client_kind: str) -> None:
    """A program that reads as fast as tokens come has their gaps, and no time of its own."""
    if client_kind == "openai":
        streamed(server, STEADY)
    else:
        pacing = Pacing()
        server.replies = [Reply.stream(pacing.pieces(STEADY))]
        asyncio.run(_read_with_aiohttp(f"{server.url}/chat/completions", pacing, pause_s=0))
    row = row_of(captured)
    assert row.phases_ns["generation"] == about(GENERATION_S)
    assert row.phases_ns.get("client", 0) <= row.phases_ns["generation"] / 2
    assert saying(captured, attributes.INTER_TOKEN + "p50") >= GAP_S


def test_a_slow_reader_that_is_handed_the_bytes(server: ModelServer, captured: Captured) -> None:
    """aiohttp takes bytes in as they come, whether or not the program asks: the stamps stay those of the arrivals."""
    server.replies = [Reply.stream(STEADY)]
    asyncio.run(_read_with_aiohttp(f"{server.url}/chat/completions", Pacing(), pause_s=4 * GAP_S))
    row = row_of(captured)
    assert row.phases_ns["generation"] == about(GENERATION_S, EARLY)
    assert saying(captured, attributes.INTER_TOKEN + "p50") <= 3 * GAP_S


async def _read_with_aiohttp(url: str, pacing: Pacing, *, pause_s: float) -> None:
    async with aiohttp.ClientSession() as session, session.post(url, json=ASKED | {"stream": True}) as answer:
        pacing.begun()
        async for line in answer.content:
            if line.startswith(b"data: "):
                pacing.got()
                await asyncio.sleep(pause_s)
