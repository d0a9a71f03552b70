"""The anthropic SDK traces itself: its spans stay, the call counts once, nothing of the task is sent."""

from collections.abc import Iterator
from decimal import Decimal

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.anthropic_calls import ASKED, client, create, refusal, stream
from support.anthropic_wire import ANSWERED_BY, MESSAGE, MODEL, STREAM
from support.model_server import ModelServer, Reply
from support.recorded import only

import agentprof
from agentprof._readable import to_raw
from agentprof.model import Usage
from agentprof.testing import Captured, capture
from agentprof.vocabularies import normalise

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

pytest.importorskip("anthropic", reason="the SDK is not installed")


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
    assert {warning["code"] for warning in summary["warnings"]} <= {"phase_overflow", "timing_faults"}
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
