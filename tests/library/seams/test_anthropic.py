"""Calls of the anthropic SDK against a real server: what the span says, and that the program notices nothing."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from support.anthropic_calls import ASKED, SAID, async_client, client, create, refusal, stream
from support.anthropic_wire import CALLING, END, ERROR, MESSAGE, MODEL, PING, SAYING, START, STREAM, THINKING
from support.model_server import ModelServer, Reply
from support.recorded import only
from support.timed_calls import EARLY

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")


# --- ways to call --------------------------------------------------------------------------------
def beta(to: Any) -> None:
    assert to.beta.messages.create(**ASKED, betas=["context-management-2025-06-27"]).id == "msg_1"


def raw(to: Any) -> None:
    assert to.messages.with_raw_response.create(**ASKED).parse().id == "msg_1"


def opened(to: Any) -> None:
    with to.messages.with_streaming_response.create(**ASKED) as response:
        assert response.parse().id == "msg_1"


def options(to: Any) -> None:
    assert to.with_options(timeout=3).messages.create(**ASKED).id == "msg_1"


def untyped(to: Any) -> None:
    assert to.post("/v1/messages", body=ASKED, cast_to=dict[str, Any])["id"] == "msg_1"


def beta_stream(to: Any) -> None:
    assert list(to.beta.messages.create(**ASKED, stream=True))


def helper(to: Any) -> None:
    with to.messages.stream(**ASKED) as events:
        assert "".join(events.text_stream) == "Hello."
        assert events.get_final_message().usage.output_tokens == 60


def raw_stream(to: Any) -> None:
    assert list(to.messages.with_raw_response.create(**ASKED, stream=True).parse())


def lines(to: Any) -> None:
    with to.messages.with_streaming_response.create(**ASKED, stream=True) as response:
        assert sum(line.startswith("data:") for line in response.iter_lines()) == len(STREAM)


@pytest.mark.parametrize("call", [create, beta, raw, opened, options, untyped])
def test_whole_answers(server: ModelServer, captured: Captured, call: Callable[[Any], None]) -> None:
    """One span with usage by class, tools and stop reason, in every style."""
    server.replies = [Reply.json(MESSAGE)]
    with client(server) as to:
        call(to)
    span, said = only(captured)
    assert span.name == f"chat {MODEL}"
    assert SAID.items() <= said.items()
    assert attributes.FIRST_TOKEN not in said
    assert not any("secret" in str(value) for value in said.values())


@pytest.mark.parametrize("call", [stream, beta_stream, helper, raw_stream, lines])
def test_streams(server: ModelServer, captured: Captured, call: Callable[[Any], None]) -> None:
    """Thinking is the first token, text the first content; a ping and the beginning are neither."""
    server.replies = [
        Reply.stream([START, PING, 2 * EARLY, *THINKING, 2 * EARLY, *SAYING, *CALLING, *END]),
    ]
    with client(server) as to:
        call(to)
    _, said = only(captured)
    assert SAID.items() <= said.items()
    assert said[attributes.STREAM_END] == "complete"
    chunk, token = said[attributes.TIME_TO_FIRST_CHUNK], said[attributes.FIRST_TOKEN]
    assert token - chunk >= EARLY
    assert said[attributes.FIRST_CONTENT] - token >= EARLY


def test_async_calls(server: ModelServer, captured: Captured) -> None:
    """Plain, streamed, and through the helper."""
    server.replies = [Reply.json(MESSAGE), Reply.stream(STREAM), Reply.stream(STREAM)]

    async def run() -> None:
        async with async_client(server) as to:
            await to.messages.create(**ASKED)
            async for _ in await to.messages.create(**ASKED, stream=True):
                pass
            async with to.messages.stream(**ASKED) as events:
                await events.get_final_message()

    asyncio.run(run())
    assert len(captured.spans) == 3
    assert all(SAID.items() <= dict(span.attributes or {}).items() for span in captured.spans)


def test_events_in_pieces(server: ModelServer, captured: Captured) -> None:
    """However the bytes are cut."""
    whole = b"".join(STREAM)
    server.replies = [Reply.stream([whole[at : at + 7] for at in range(0, len(whole), 7)])]
    with client(server) as to:
        stream(to)
    assert SAID.items() <= only(captured)[1].items()


# --- what is no call -----------------------------------------------------------------------------
def test_what_is_no_call(server: ModelServer, captured: Captured) -> None:
    """Counting tokens, and handing in and looking after a batch."""
    batch = {"id": "b", "type": "message_batch", "processing_status": "in_progress"}
    server.replies = [Reply.json({"input_tokens": 14}), Reply.json(batch), Reply.json(batch)]
    with client(server) as to:
        assert to.messages.count_tokens(model=MODEL, messages=ASKED["messages"]).input_tokens == 14
        to.messages.batches.create(requests=[{"custom_id": "1", "params": ASKED}])
        to.messages.batches.retrieve("b")
    assert captured.spans == []


# --- what goes wrong -----------------------------------------------------------------------------
@pytest.mark.parametrize("with_middleware", [False, True])
def test_attempts(server: ModelServer, captured: Captured, with_middleware: bool) -> None:
    """Refusals with their status and pause, then an answer; middleware of the program changes nothing."""
    server.replies = [
        refusal(529, retry_after_ms="30"),
        refusal(429, retry_after_ms="30"),
        Reply.json(MESSAGE),
    ]
    more: dict[str, Any] = {}
    if with_middleware:
        more["middleware"] = [lambda request, call_next: call_next(request)]
    with client(server, max_retries=2, **more) as to:
        to.messages.create(**ASKED)
    span, said = only(captured)
    assert SAID.items() - {(attributes.ATTEMPTS, 1)} <= said.items()
    assert said[attributes.ATTEMPTS] == 3
    assert said[attributes.ATTEMPT_STATUS] == ("529", "429")
    assert all(pause >= 0.025 for pause in said[attributes.ATTEMPT_BACKOFF])
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("with_middleware", [False, True])
def test_a_refusal(server: ModelServer, captured: Captured, with_middleware: bool) -> None:
    """An error of the SDK's class, with the status of the attempt, and no usage."""
    server.replies = [refusal(529)]
    more: dict[str, Any] = {}
    if with_middleware:
        more["middleware"] = [lambda request, call_next: call_next(request)]
    with client(server, **more) as to, pytest.raises(anthropic.APIStatusError):
        to.messages.create(**ASKED)
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert said[attributes.ERROR_TYPE] == "OverloadedError"
    assert said[attributes.ATTEMPT_STATUS] == ("529",)
    assert attributes.INPUT_TOKENS not in said


def test_an_error_in_a_stream(server: ModelServer, captured: Captured) -> None:
    """Status 200, and no answer to its end: what went in is known, what came out is not."""
    server.replies = [Reply.stream([START, *SAYING, ERROR])]
    with client(server) as to, pytest.raises(anthropic.APIStatusError):
        stream(to)
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert said[attributes.ERROR_TYPE] == "overloaded_error"
    assert said[attributes.STREAM_END] == "error"
    assert said[attributes.INPUT_TOKENS] == 2130
    assert attributes.OUTPUT_TOKENS not in said


@pytest.mark.parametrize("left", ["break", "close", "drop"])
def test_a_stream_left_early(server: ModelServer, captured: Captured, left: str) -> None:
    """It is abandoned, with what is known until then."""
    server.replies = [Reply.stream([START, *SAYING, 0.2, *END])]
    with client(server) as to:
        events = to.messages.create(**ASKED, stream=True)
        for event in events:
            if event.type == "content_block_delta":
                break
        if left == "close":
            events.close()
        del events
        gc.collect()
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert said[attributes.INPUT_TOKENS] == 2130
    assert attributes.OUTPUT_TOKENS not in said


def test_a_cut_stream(server: ModelServer, captured: Captured) -> None:
    """A body that ends without a stop reason is truncated."""
    server.replies = [Reply.stream([START, *SAYING], framing="close")]
    with client(server) as to:
        stream(to)
    assert only(captured)[1][attributes.STREAM_END] == "truncated"


# --- headers -------------------------------------------------------------------------------------
def test_limits_of_the_provider(server: ModelServer, captured: Captured) -> None:
    """What is allowed and left, and the provider's id of the exchange; of other headers nothing."""
    server.replies = [
        Reply.json(
            MESSAGE,
            request_id="req_1",
            anthropic_ratelimit_requests_limit="4000",
            anthropic_ratelimit_requests_remaining="3999",
            anthropic_ratelimit_requests_reset="2026-01-01T00:00:00Z",
            anthropic_ratelimit_input_tokens_remaining="150000",
            anthropic_organization_id="secret-organization",
            retry_after="30",
        )
    ]
    with client(server) as to:
        create(to)
    said = only(captured)[1]
    assert {name: value for name, value in said.items() if name.startswith(attributes.RATE_LIMIT)} == {
        attributes.RATE_LIMIT + "requests.limit": 4000,
        attributes.RATE_LIMIT + "requests.remaining": 3999,
        attributes.RATE_LIMIT + "input_tokens.remaining": 150000,
    }
    assert said[attributes.REQUEST_ID] == "req_1"
    assert attributes.RETRY_AFTER not in said
    assert not any("secret" in str(value) for value in said.values())


def test_how_long_a_refusal_asked_to_wait(server: ModelServer, captured: Captured) -> None:
    """Of the one that ended the call."""
    server.replies = [refusal(429, retry_after="37", request_id="req_2")]
    with client(server) as to, pytest.raises(anthropic.RateLimitError):
        create(to)
    said = only(captured)[1]
    assert (said[attributes.RETRY_AFTER], said[attributes.REQUEST_ID]) == (37.0, "req_2")
