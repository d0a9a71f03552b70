"""Rows of the catalogue of failures seen in comparable tools, each a test: what was measured in others."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import openai
import pytest
from openai._base_client import AsyncAPIClient, SyncAPIClient
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.model_server import CHAT, DONE, ROLE, STREAM, ModelServer, Reply, chunk
from support.pitfalls import (
    INPUT_USD,
    MESSAGES,
    MODEL,
    OUTPUT_USD,
    async_client,
    chat,
    repeat_as_another_scope,
    summed,
)
from support.recorded import only, said
from support.timed_calls import EARLY, LATE
from support.twin_outcomes import ERROR_EVENT, HOLLOW

import agentprof
from agentprof import attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def test_m1_generators_are_not_consumed(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A caller's iterable reaches the server whole."""
    server.replies = [Reply.json(CHAT)]
    client.chat.completions.create(model=MODEL, messages=(message for message in MESSAGES))
    assert server.sent[0].json["messages"] == MESSAGES
    assert len(captured.spans) == 1


def test_m2_header_values_are_not_recorded(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Nor are keys."""
    server.replies = [Reply.json(CHAT)]
    chat(client, extra_headers={"Authorization": "Bearer of-secrets", "x-mine": "of-secrets"})
    assert server.sent[0].headers["authorization"] == "Bearer of-secrets"
    assert "of-secrets" not in captured.spans[0].to_json()


def test_m3_arguments_are_left_alone(server: ModelServer, client: openai.OpenAI, captured: Captured) -> None:
    """Headers and bodies given by the caller are as they were, though a `traceparent` went out."""
    server.replies = [Reply.json(CHAT)]
    headers, body = {"x-mine": "1"}, {"top_k": 3}
    chat(client, extra_headers=headers, extra_body=body)
    assert (headers, body) == ({"x-mine": "1"}, {"top_k": 3})
    assert "traceparent" in server.sent[0].headers


def test_m4_undoing_undoes(server: ModelServer, client: openai.OpenAI) -> None:
    """The original functions are back by identity; instrumenting twice gives one span."""
    server.replies = [Reply.json(CHAT)]
    before = [dict(vars(owner)) for owner in (SyncAPIClient, AsyncAPIClient)]
    with capture() as captured:
        agentprof.instrument()
        chat(client)
    chat(client)
    assert [dict(vars(owner)) for owner in (SyncAPIClient, AsyncAPIClient)] == before
    assert len(captured.spans) == 1


def test_m5_an_error_in_mid_stream_is_an_error(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Of the call, with its type and without its message."""
    server.replies = [Reply.stream([*STREAM[:3], ERROR_EVENT["chat"]])]
    with pytest.raises(openai.APIError):
        list(chat(client, stream=True))
    span, found = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert (found[attributes.ERROR_TYPE], found[attributes.STREAM_END]) == ("server_error", "error")
    assert "no more" not in span.to_json()


def test_m6_a_strange_body_reaches_the_program(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """`output: null` is what the SDK makes of it, and nothing of ours fails on it."""
    server.replies = [Reply.json(HOLLOW["responses"])]
    assert client.responses.create(model=MODEL, input="hi").output is None
    assert only(captured)[1][attributes.FINISH_REASONS] == ("completed",)


def test_m7_the_clock_starts_with_the_call(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Not when the headers are there."""
    server.replies = [Reply.stream([0.1, *STREAM], wait_s=0.2)]
    list(chat(client, stream=True))
    _, found = only(captured)
    assert 0.3 <= found[attributes.FIRST_TOKEN] < 0.3 + LATE


def test_m8_missing_usage_is_not_guessed(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A stream without usage has no token counts."""
    server.replies = [Reply.stream([*STREAM[:4], DONE])]
    summary = summed(lambda: list(chat(client, stream=True)))
    assert set(summary["tokens"].values()) == {None}
    assert (summary["usage_estimated_calls"], summary["estimates"]) == (0, [])


def test_m10_usage_null_is_a_success(server: ModelServer, client: openai.OpenAI, captured: Captured) -> None:
    """With unknown usage."""
    server.replies = [Reply.json(CHAT | {"usage": None})]
    assert chat(client).usage is None
    span, found = only(captured)
    assert span.status.status_code is StatusCode.UNSET
    assert attributes.INPUT_TOKENS not in found


def test_m11_a_cancelled_stream_is_cancelled(server: ModelServer, captured: Captured) -> None:
    """And the exception goes on."""
    release = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"".join(STREAM[:2])
        release.wait(20)

    server.replies = [Reply.stream(pieces())]

    async def read() -> None:
        async with async_client(server) as to:
            async for _ in await chat(to, stream=True):
                current = asyncio.current_task()
                assert current is not None
                current.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(read())
    release.set()
    span, found = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert (found[attributes.STREAM_END], found[attributes.ERROR_TYPE]) == ("cancelled", "CancelledError")


def test_m12_a_role_is_no_token(server: ModelServer, client: openai.OpenAI, captured: Captured) -> None:
    """The first token is the first of any channel: here a tool call, before any text."""
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}
    content = [chunk({"content": "Hel"}), chunk({}, "stop"), DONE]
    server.replies = [Reply.stream([ROLE, 2 * EARLY, chunk({"tool_calls": [call]}), 0.1, *content])]
    list(chat(client, stream=True))
    _, found = only(captured)
    assert found[attributes.FIRST_TOKEN] - found[attributes.TIME_TO_FIRST_CHUNK] >= EARLY
    assert found[attributes.FIRST_CONTENT] == found[attributes.FIRST_TOKEN]


def test_m13_a_silently_cut_stream_is_truncated(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A body that ends with the connection before any finish reason raises nothing and is marked."""
    server.replies = [Reply.stream(STREAM[:3], framing="close")]
    assert len(list(chat(client, stream=True))) == 3
    assert only(captured)[1][attributes.STREAM_END] == "truncated"


def test_m14_one_call_seen_by_three_counts_once(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Nothing is lost by that; what a span around two calls repeats of them is dropped, and that is said."""

    def ask() -> None:
        with trace.use_span(repeat_as_another_scope("chatcmpl-1", (100, 6)), end_on_exit=True):
            inner = repeat_as_another_scope(None, (100, 6), "third")
            with trace.use_span(inner, end_on_exit=True):
                chat(client)

    def ask_twice() -> None:
        with trace.use_span(repeat_as_another_scope(None, (200, 12)), end_on_exit=True):
            chat(client)
            chat(client)

    once = 100 * INPUT_USD + 6 * OUTPUT_USD
    for work, calls, warnings in ((ask, 1, []), (ask_twice, 2, ["double_report"])):
        server.replies = [Reply.json(CHAT), Reply.json(CHAT | {"id": "chatcmpl-2"})]
        summary = summed(work)
        assert (summary["calls"], summary["tokens"]["input"]) == (calls, calls * 100)
        assert Decimal(summary["cost_usd"]) == calls * once
        assert [warning["code"] for warning in summary["warnings"]] == warnings


def test_m15_calls_in_a_pool_belong_to_who_submitted_them(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Not to nobody, and not to the task the worker was started in."""
    server.replies = [Reply.json(CHAT)]
    with ThreadPoolExecutor(1) as pool:
        for name in ("first", "second"):
            with agentprof.task(name, id=name):
                pool.submit(chat, client).result()
        pool.submit(chat, client).result()
    assert [said(span).get(attributes.TASK_ID) for span in captured.named("chat")] == [
        "first",
        "second",
        None,
    ]


def test_m16_a_stream_is_copied_like_the_sdks(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """`copy.copy` gives a stream that goes on where the first one is."""
    server.replies = [Reply.stream()]
    stream = chat(client, stream=True)
    next(stream)
    copied = copy.copy(stream)
    assert type(copied) is openai.Stream
    assert len(list(copied)) == 4
    assert len(captured.spans) == 1
