"""Calls of the anthropic SDK against a real server: what the span says, and that the program notices nothing."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from support.anthropic_wire import (
    ANSWERED_BY,
    CALLING,
    END,
    ERROR,
    MESSAGE,
    MODEL,
    PING,
    SAYING,
    START,
    STREAM,
    THINKING,
)
from support.aws_frames import chunk
from support.model_server import ModelServer, Reply
from support.timed_calls import EARLY

import agentprof
from agentprof import attributes
from agentprof._readable import to_raw
from agentprof.model import Usage
from agentprof.testing import Captured, capture
from agentprof.vocabularies import normalise

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")

ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Say hello, secret-prompt."}],
}
SAID = {
    attributes.RESPONSE_ID: "msg_1",
    attributes.RESPONSE_MODEL: ANSWERED_BY,
    attributes.FINISH_REASONS: ("tool_use",),
    attributes.TOOL_CALLS: ("look",),
    attributes.INPUT_TOKENS: 2130,
    attributes.OUTPUT_TOKENS: 60,
    attributes.CACHE_READ_TOKENS: 2000,
    attributes.CACHE_WRITE_TOKENS: 30,
    attributes.CACHE_WRITE_1H_TOKENS: 20,
    attributes.REASONING_TOKENS: 25,
    attributes.SERVICE_TIER: "standard",
    attributes.ATTEMPTS: 1,
}
"""What the span says of the answer, however it was asked for."""


def client(server: ModelServer, **options: Any) -> Any:
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return anthropic.Anthropic(base_url=server.url.removesuffix("/v1"), **options)


def async_client(server: ModelServer, **options: Any) -> Any:
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return anthropic.AsyncAnthropic(base_url=server.url.removesuffix("/v1"), **options)


def only(captured: Captured) -> tuple[ReadableSpan, dict[str, Any]]:
    (span,) = captured.spans
    return span, dict(span.attributes or {})


def refusal(status: int, **headers: str) -> Reply:
    error = {"type": "overloaded_error", "message": "secret-prompt"}
    return Reply.json({"type": "error", "error": error}, status, **headers)


# --- ways to call --------------------------------------------------------------------------------
def create(to: Any) -> None:
    assert to.messages.create(**ASKED).content[0].text == "Hello."


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


def stream(to: Any) -> None:
    assert [event.type for event in to.messages.create(**ASKED, stream=True)].count("message_start") == 1


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


# --- clouds --------------------------------------------------------------------------------------
def test_vertex(server: ModelServer, captured: Captured) -> None:
    """Its path names the model; the provider is known whatever the host."""
    server.replies = [Reply.json(MESSAGE), Reply.stream(STREAM)]
    with anthropic.AnthropicVertex(
        base_url=server.url, region="europe-west1", project_id="p", access_token="secret-token"
    ) as to:
        to.messages.create(**ASKED)
        list(to.messages.create(**ASKED, stream=True))
    assert [sent.path.rpartition(":")[2] for sent in server.sent] == ["rawPredict", "streamRawPredict"]
    for span in captured.spans:
        assert SAID.items() <= dict(span.attributes or {}).items()
        assert (span.attributes or {})[attributes.PROVIDER] == "gcp.vertex_ai"
        assert (span.attributes or {})[attributes.REQUEST_MODEL] == MODEL


def test_bedrock(server: ModelServer, captured: Captured) -> None:
    """Its path names the model, and an event of a stream stands in a frame of AWS."""
    pytest.importorskip("botocore", reason="what the SDK needs for Bedrock is not installed")
    data = [piece.partition(b"data: ")[2].strip() for piece in STREAM if piece is not PING]
    framed = Reply(
        [chunk(piece) for piece in data],
        headers={"content-type": "application/vnd.amazon.eventstream"},
        framing="chunked",
    )
    server.replies = [Reply.json(MESSAGE), framed]
    asked = ASKED | {"model": "global.anthropic.claude-sonnet-5-5"}
    with anthropic.AnthropicBedrock(
        base_url=server.url, aws_region="eu-west-1", aws_access_key="secret", aws_secret_key="secret"
    ) as to:
        to.messages.create(**asked)
        assert [event.type for event in to.messages.create(**asked, stream=True)][-1] == "message_stop"
    assert [sent.path.rpartition("/")[2] for sent in server.sent] == ["invoke", "invoke-with-response-stream"]
    for span in captured.spans:
        said = dict(span.attributes or {})
        assert SAID.items() <= said.items()
        assert said[attributes.PROVIDER] == "aws.bedrock"
        assert said[attributes.REQUEST_MODEL] == asked["model"]
    streamed = dict(captured.spans[1].attributes or {})
    assert streamed[attributes.STREAM_END] == "complete"
    assert streamed[attributes.FIRST_TOKEN] <= streamed[attributes.FIRST_CONTENT]


def test_foundry(server: ModelServer, captured: Captured) -> None:
    """Azure's own host, or a gateway."""
    server.replies = [Reply.json(MESSAGE)]
    with anthropic.AnthropicFoundry(base_url=server.url.removesuffix("/v1"), api_key="secret-key") as to:
        to.messages.create(**ASKED)
    said = only(captured)[1]
    assert SAID.items() <= said.items()
    assert said[attributes.PROVIDER] == "azure.ai.inference"


# --- the SDK traces itself -----------------------------------------------------------------------
def test_none_of_our_spans_is_sent_to_the_provider(server: ModelServer) -> None:
    """Without a tracer provider the SDK sends no trace context, in a task neither, whatever the endpoint."""
    server.replies = [Reply.json(MESSAGE)]
    with client(server) as to:
        to.messages.create(**ASKED)
        with capture(propagate_to=()), agentprof.task("t"):
            to.messages.create(**ASKED)
            to.messages.count_tokens(model=MODEL, messages=ASKED["messages"])
            own = to.messages.create(**ASKED, extra_headers={"traceparent": "own"})
    assert own.id == "msg_1"
    assert [sent.headers.get("traceparent") for sent in server.sent] == [None, None, None, "own"]
    assert all("baggage" not in sent.headers for sent in server.sent)


def test_one_traceparent_to_hosts_that_may_have_it(server: ModelServer, captured: Captured) -> None:
    """That of the call's span."""
    server.replies = [Reply.json(MESSAGE)]
    with client(server) as to:
        to.messages.create(**ASKED)
    context = only(captured)[0].get_span_context()
    assert context is not None
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert server.sent[0].headers["traceparent"] == expected


@pytest.fixture
def exported() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """A tracer provider of the program, which agentprof has joined, and what it exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agentprof.instrument(tracer_provider=provider)
    try:
        yield provider, exporter
    finally:
        agentprof.uninstrument()


Exported = tuple[TracerProvider, InMemorySpanExporter]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdks_own_span_is_the_same_call(server: ModelServer, exported: Exported, streamed: bool) -> None:
    """With a provider it makes a span too; it stays, and the call counts once, with all that agentprof knows."""
    server.replies = [
        refusal(529, retry_after_ms="20"),
        Reply.stream(STREAM) if streamed else Reply.json(MESSAGE),
    ]
    provider, exporter = exported
    with (
        agentprof.task("t") as task,
        client(server, max_retries=1, open_telemetry={"tracer_provider": provider}) as to,
    ):
        (stream if streamed else create)(to)
    summary = task.summary().to_dict()
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == ["anthropic.messages.create", f"chat {MODEL}", "t"]
    assert summary["calls"] == 1
    assert summary["attempts"] == 2
    assert summary["tokens"] == {
        "input": 2130,
        "output": 60,
        "cache_read": 2000,
        "cache_write": 30,
        "cache_write_1h": 20,
        "reasoning": 25,
    }
    assert summary["timeline_ns"]["backoff"] >= 15_000_000
    # The interval is that of the SDK's span, which begins a moment later than what agentprof measures.
    assert {warning["code"] for warning in summary["warnings"]} <= {"phase_overflow"}
    usd = 100 * Decimal(2) + 2000 * Decimal("0.1") + 10 * Decimal("2.5") + 20 * Decimal(4) + 60 * Decimal(10)
    assert Decimal(summary["cost_usd"]) == usd / 10**6
    assert summary["cost_complete"]


def test_its_spans_of_what_is_no_call(server: ModelServer, exported: Exported) -> None:
    """Counting tokens and handing in a batch run no model, though their spans may name one."""
    batch = {"id": "b", "type": "message_batch", "processing_status": "in_progress"}
    server.replies = [Reply.json({"input_tokens": 14}), Reply.json(batch)]
    provider, exporter = exported
    with (
        agentprof.task("t") as task,
        client(server, open_telemetry={"tracer_provider": provider}) as to,
    ):
        to.messages.count_tokens(model=MODEL, messages=ASKED["messages"])
        to.messages.batches.create(requests=[{"custom_id": "1", "params": ASKED}])
    names = {span.name for span in exporter.get_finished_spans()}
    assert names == {"anthropic.messages.count_tokens", "anthropic.messages.batches.create", "t"}
    summary = task.summary().to_dict()
    assert (summary["calls"], summary["tokens"]["input"], summary["warnings"]) == (0, None, [])


def test_its_own_span_alone(server: ModelServer, exported: Exported) -> None:
    """What a collector understands of the SDK's own span where agentprof was not there."""
    server.replies = [Reply.json(MESSAGE)]
    provider, exporter = exported
    agentprof.uninstrument()
    with client(server, open_telemetry={"tracer_provider": provider}) as to:
        create(to)
    (span,) = exporter.get_finished_spans()
    call = normalise(to_raw(span)).call
    assert call is not None
    assert (call.model, call.provider, call.service_tier) == (ANSWERED_BY, "anthropic", "standard")
    assert call.usage == Usage(
        input=2130, output=60, cache_read=2000, cache_write=30, cache_write_1h=20, reasoning=25
    )
