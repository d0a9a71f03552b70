"""Headers that say how long a server took, through the seams over loopback, as hand-computed phases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx2
import openai
import pytest
import requests
from support.model_server import CHAT, DONE, ROLE, ModelServer, Reply, chunk
from support.timed_calls import about, streamed

from agentprof import attributes
from agentprof._readable import to_raw
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.testing import Captured
from agentprof.vocabularies import normalise

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MS = 1_000_000
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
WAIT_S = 0.25
"""How long the server here takes; what its headers say is less."""


def by_openai(url: str) -> None:
    """The SDK."""
    with openai.OpenAI(api_key="key", base_url=url, max_retries=0) as client:
        client.chat.completions.create(**ASKED)


def by_openai_async(url: str) -> None:
    """The SDK with coroutines."""

    async def ask() -> None:
        async with openai.AsyncOpenAI(api_key="key", base_url=url, max_retries=0) as client:
            await client.chat.completions.create(**ASKED)

    asyncio.run(ask())


def by_httpx2(url: str) -> None:
    """Plain HTTP."""
    with httpx2.Client() as client:
        client.post(f"{url}/chat/completions", json=ASKED)


def by_requests(url: str) -> None:
    """Plain HTTP by urllib3."""
    requests.post(f"{url}/chat/completions", json=ASKED, timeout=5)


def by_aiohttp(url: str) -> None:
    """Plain HTTP by aiohttp."""

    async def ask() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/chat/completions", json=ASKED) as answer,
        ):
            await answer.read()

    asyncio.run(ask())


SENDERS = [by_openai, by_openai_async, by_httpx2, by_requests, by_aiohttp]


def row_of(captured: Captured) -> CallRow:
    (row,) = call_rows("t", [normalise(to_raw(span)) for span in captured.spans])
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row


def answered(server: ModelServer, headers: dict[str, str], body: dict[str, Any] | None = None) -> None:
    """Answer with these headers."""
    reply = Reply.json(CHAT | (body or {}))
    reply.headers |= headers
    reply.wait_s = WAIT_S
    server.replies = [reply]


@pytest.mark.parametrize("send", SENDERS)
def test_every_seam_reads_them(server: ModelServer, captured: Captured, send: Callable[[str], None]) -> None:
    """The server's whole time is the model's, the rest of the call the way there and back; with the provider's id."""
    answered(server, {"openai-processing-ms": "200", "x-request-id": "req_1"})
    send(server.url)
    row = row_of(captured)
    assert row.phases_ns["model"] == 200 * MS
    assert row.phase_sources["model"] == "reported"
    assert row.phases_ns["network"] >= 40 * MS
    assert row.phase_sources["network"] == "derived"
    assert (captured.spans[0].attributes or {})[attributes.REQUEST_ID] == "req_1"


TGI = {
    "x-compute-type": "1-a100",
    "x-compute-time": "0.200",
    "x-total-time": "200",
    "x-validation-time": "5",
    "x-queue-time": "45",
    "x-inference-time": "150",
    "x-time-per-token": "11",
}
FIREWORKS = {
    "fireworks-tokenizer-queue-duration": "0.001",
    "fireworks-tokenizer-duration": "0.004",
    "fireworks-prefill-queue-duration": "0.035",
    "fireworks-prefill-duration": "0.060",
    "fireworks-generation-queue-duration": "0.002",
    "fireworks-generation-duration": "0.100",
    "fireworks-server-time-to-first-token": "0.102",
    "fireworks-server-processing-time": "0.202",
}

# Of each: the headers, who answered, and the phases in ms but for connect and network, which fill the call.
SERVERS: dict[str, tuple[dict[str, str], str | None, dict[str, int]]] = {
    "openai, azure, llama-cpp-python": ({"openai-processing-ms": "120.1074"}, None, {"model": 120}),
    "gemini": ({"server-timing": "gfet4t7; dur=180"}, None, {"model": 180}),
    "another server-timing": ({"server-timing": "db;dur=53, app;dur=47.2"}, None, {}),
    "litellm": (
        {"x-litellm-response-duration-ms": "215.2", "x-litellm-overhead-duration-ms": "15.2"},
        None,
        {"model": 200},
    ),
    "litellm that does not know": (
        {"x-litellm-response-duration-ms": "215", "x-litellm-overhead-duration-ms": "None"},
        None,
        {"model": 215},
    ),
    # Validation (5 ms) is in neither; prefill and generation are not told apart.
    "tgi": (TGI, "tgi", {"queue": 45, "model": 155}),
    # On /v1/completions the others are sums over prompts.
    "tgi, times of several prompts": (TGI | {"x-compute-time": "0"}, "tgi", {}),
    "together, from a recording": (
        {
            "x-compute-time": "214",
            "x-inference-time": "190",
            "x-queue-time": "22",
            "x-total-time": "214",
            "x-validation-time": "0",
        },
        "tgi",
        {"queue": 22, "model": 192},
    ),
    "fireworks, dedicated": (FIREWORKS, "fireworks", {"queue": 38, "prefill": 60, "generation": 100}),
    "fireworks, shared": (
        {name: FIREWORKS[name] for name in list(FIREWORKS)[-2:]},
        "fireworks",
        {"wait": 102, "generation": 100},
    ),
    "anthropic": ({"request-id": "req_1", "x-envoy-upstream-service-time": "230"}, None, {}),
}


@pytest.mark.parametrize(("headers", "engine", "expected"), SERVERS.values(), ids=SERVERS.keys())
def test_a_whole_answer(
    server: ModelServer,
    captured: Captured,
    headers: dict[str, str],
    engine: str | None,
    expected: dict[str, int],
) -> None:
    """The phases a server's headers give."""
    answered(server, headers)
    by_openai(server.url)
    (span,) = [normalise(to_raw(span)) for span in captured.spans]
    assert span.call is not None
    assert span.call.engine == engine
    row = row_of(captured)
    phases = {
        name: round(ns / MS) for name, ns in row.phases_ns.items() if name not in ("connect", "network")
    }
    if expected:
        assert phases == expected
        assert row.phases_ns["network"] >= 30 * MS
    else:
        assert set(phases) == {"model"}
        assert row.phase_sources["model"] == "observed"


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ({"openai-processing-ms": "-7"}, "openai-processing-ms: negative"),
        ({"openai-processing-ms": "soon"}, "openai-processing-ms: not a number"),
        ({"openai-processing-ms": "60000"}, "openai-processing-ms: longer than the call"),
        (
            {"x-litellm-response-duration-ms": "10", "x-litellm-overhead-duration-ms": "20"},
            "x-litellm-overhead-duration-ms: longer than the whole it is part of",
        ),
    ],
)
def test_what_cannot_be(server: ModelServer, captured: Captured, headers: dict[str, str], fault: str) -> None:
    """It is named, and claims no time."""
    from agentprof.rollup import roll_up

    answered(server, headers)
    by_openai(server.url)
    spans = [normalise(to_raw(span)) for span in captured.spans]
    warnings = {warning.code: warning.detail for warning in roll_up("t", spans).warnings}
    assert fault in warnings["timing_faults"]
    assert row_of(captured).phase_sources["model"] == "observed"


def test_what_the_body_says_goes_before(server: ModelServer, captured: Captured) -> None:
    """A gateway's total adds nothing to the parts of the engine behind it."""
    times = {"queue_time_ms": 20.0, "time_to_first_token_ms": 60.0, "generation_time_ms": 100.0}
    answered(server, {"openai-processing-ms": "200"}, {"kv_transfer_params": None, "metrics": times})
    by_openai(server.url)
    row = row_of(captured)
    assert row.phases_ns["prefill"] == 60 * MS
    assert row.phases_ns["generation"] == 100 * MS
    assert "model" not in row.phases_ns


@pytest.mark.parametrize(
    "headers",
    [
        {"openai-processing-ms": "150"},
        {"server-timing": "gfet4t7; dur=150"},
        {"x-litellm-response-duration-ms": "160", "x-litellm-overhead-duration-ms": "10"},
    ],
)
def test_a_stream(server: ModelServer, captured: Captured, headers: dict[str, str]) -> None:
    """Headers leave before the body: the time is that until them, and gives the way alone."""
    pieces = [ROLE, 0.1, chunk({"content": "a"}), 0.1, chunk({"content": "b"}, "stop"), DONE]
    streamed(server, pieces, WAIT_S, headers)
    row = row_of(captured)
    assert row.phases_ns["network"] == about(0.1)
    assert row.phase_sources["network"] == "derived"
    assert row.phases_ns["wait"] == about(0.15 + 0.1)
    assert "model" not in row.phases_ns


def test_a_stream_of_fireworks(server: ModelServer, captured: Captured) -> None:
    """What is known before the body is its server's time to the first token."""
    pieces = [ROLE, chunk({"content": "a"}), 0.1, chunk({"content": "b"}, "stop"), DONE]
    streamed(server, pieces, WAIT_S, {"fireworks-server-time-to-first-token": "0.2"})
    row = row_of(captured)
    assert row.phases_ns["wait"] == 200 * MS
    assert row.phase_sources["wait"] == "reported"
    assert row.phases_ns["network"] >= 40 * MS
