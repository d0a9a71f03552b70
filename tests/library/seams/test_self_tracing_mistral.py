"""The SDK of Mistral where it traces itself: its spans stay, the call counts once, nothing of the task is sent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.trace import TracerProvider as AnyProvider
from support.model_server import CHAT, STREAM, ModelServer, Reply

import agentprof
from agentprof import _runtime, attributes
from agentprof._readable import to_raw
from agentprof.model import Span
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.testing import capture
from agentprof.vocabularies import normalise

ASKED: Any = {"model": "mistral-small", "messages": [{"role": "user", "content": "Hi"}]}
REFUSED = Reply.json({"error": "slow"}, 429, retry_after_ms="30")
UNREADY = Reply.json({"error": "full"}, 503)
LATE_S = 0.01
"""What a slow program does with an event of a stream; there are several, and 5 ms is what the roll-up tolerates."""


@pytest.fixture(autouse=True)
def _no_client_left_open(nothing_fails_inside: None) -> Iterator[None]:
    """Clients that nobody has closed are not left to other tests."""
    yield
    gc.collect()


def traced(url: str, provider: AnyProvider, **clients: Any) -> Any:
    """A client that repeats, and sends its spans to a provider."""
    pytest.importorskip("mistralai", reason="the SDK is not installed")
    module = pytest.importorskip("mistralai.client", reason="a version that is older than 2")
    observability = pytest.importorskip("mistralai.extra.observability")
    utils = import_module("mistralai.client.utils")
    client = module.Mistral(
        api_key="secret-key",
        server_url=url.removesuffix("/v1"),
        retry_config=utils.RetryConfig("backoff", utils.BackoffStrategy(1, 1, 1.0, 20_000), True),
        timeout_ms=20_000,
        **clients,
    )
    observability.configure_telemetry(client, provider=provider)
    return client


def _plain(client: Any) -> None:
    with client:
        client.chat.complete(**ASKED)


def _stream(client: Any, late_s: float = 0.0) -> None:
    with client, client.chat.stream(**ASKED) as events:
        for _ in events:
            time.sleep(late_s)


def _slow(client: Any) -> None:
    _stream(client, LATE_S)


def _plain_async(client: Any) -> None:
    async def call() -> None:
        async with client:
            await client.chat.complete_async(**ASKED)

    asyncio.run(call())


def _stream_async(client: Any, late_s: float = 0.0) -> None:
    async def call() -> None:
        async with client, await client.chat.stream_async(**ASKED) as events:
            async for _ in events:
                await asyncio.sleep(late_s)

    asyncio.run(call())


def _slow_async(client: Any) -> None:
    _stream_async(client, LATE_S)


def _agent(client: Any) -> None:
    with client:
        client.agents.complete(agent_id="ag-1", messages=ASKED["messages"])


WHOLE = Reply.json(CHAT)
AT_ONCE = Reply.stream([b"".join(STREAM)])
WAYS = {
    "plain": (_plain, WHOLE),
    "stream": (_stream, Reply.stream(STREAM)),
    "slow": (_slow, AT_ONCE),
    "async plain": (_plain_async, WHOLE),
    "async stream": (_stream_async, Reply.stream(STREAM)),
    "async slow": (_slow_async, AT_ONCE),
    "agent": (_agent, WHOLE),
}
BEFORE = {"at once": [], "429": [REFUSED, REFUSED], "503": [UNREADY]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_a_task", [True, False], ids=["task", "no task"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("way", WAYS)
def test_a_call_of_an_sdk_that_traces_itself_counts_once(
    way: str, before: str, in_a_task: bool, server: ModelServer
) -> None:
    """Its spans are there below ours; tokens, attempts and time are those of one call; no baggage goes out."""
    call, reply = WAYS[way]
    server.replies = [*BEFORE[before], reply]
    attempts = len(server.replies)
    with capture() as captured:
        client = traced(server.url, _provider())
        with agentprof.task("t") if in_a_task else contextlib.nullcontext():
            call(client)
    ours, theirs = _ours_and_theirs(captured.spans)
    assert theirs.parent is not None
    assert theirs.parent.span_id == ours.context.span_id
    summary = _summary(captured.spans)
    assert (summary.calls, summary.attempts, summary.errors["call"]) == (1, attempts, 0)
    assert (summary.tokens["input"], summary.tokens["output"]) == (100, 6)
    assert _times(summary) == _times(_summary([span for span in captured.spans if span is not theirs]))
    # Of the times only a busy machine makes a warning.
    assert {warning.code for warning in summary.warnings} <= {"timing_faults"}
    assert [sent.headers.get("baggage") for sent in server.sent] == [None] * attempts
    assert server.sent[-1].headers["traceparent"].split("-")[2] == f"{theirs.context.span_id:016x}"
    if "slow" in way:
        assert (theirs.end_time or 0) > (ours.end_time or 0) + 5_000_000


@pytest.mark.filterwarnings("ignore")
def test_an_attempt_that_broke_is_a_span_of_the_sdk_and_no_call(server: ModelServer) -> None:
    """Its span of an attempt without an answer ends too: neither a call, nor the end of ours."""
    server.replies = [WHOLE]
    httpx = pytest.importorskip("mistralai.client.httpclient").httpx

    class Breaks(httpx.HTTPTransport):  # type: ignore[misc, name-defined]
        is_broken = True

        def handle_request(self, request: Any) -> Any:
            if self.is_broken:
                self.is_broken = False
                raise httpx.ConnectError("refused", request=request)
            return super().handle_request(request)

    with capture() as captured, httpx.Client(transport=Breaks()) as sends:
        client = traced(server.url, _provider(), client=sends)
        with agentprof.task("t"):
            client.chat.complete(**ASKED)
    assert len([span for span in captured.spans if not _is_ours(span)]) == 2
    summary = _summary(captured.spans)
    assert (summary.calls, summary.attempts, summary.errors["call"]) == (1, 2, 0)
    assert _times(summary) == _times(_summary([span for span in captured.spans if _is_ours(span)]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["plain", "stream", "async plain", "async stream"])
def test_a_call_that_fails_in_the_end_counts_once_too(way: str, server: ModelServer) -> None:
    """As a failed call, of one attempt where its status is not repeated."""
    call, _ = WAYS[way]
    server.replies = [Reply.json({"object": "error", "message": "no such model"}, 400)]
    with capture() as captured:
        client = traced(server.url, _provider())
        with agentprof.task("t"), contextlib.suppress(Exception):
            call(client)
    _ours_and_theirs(captured.spans)
    summary = _summary(captured.spans)
    assert (summary.calls, summary.attempts, summary.errors["call"]) == (1, 1, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_a_task", [True, False], ids=["task", "no task"])
@pytest.mark.parametrize("way", ["plain", "stream", "async plain", "async stream", "agent"])
def test_with_a_provider_that_makes_no_spans_nothing_is_sent(
    way: str, in_a_task: bool, server: ModelServer
) -> None:
    """Not before the first attempt, nor before the next: without us there is no span that the SDK could take."""
    call, reply = WAYS[way]
    server.replies = [REFUSED, reply]
    with capture(propagate_to=()) as captured:
        client = traced(server.url, NoOpTracerProvider())
        with agentprof.task("t") if in_a_task else contextlib.nullcontext():
            call(client)
    assert [sent.headers.get("traceparent") for sent in server.sent] == [None, None]
    assert [sent.headers.get("baggage") for sent in server.sent] == [None, None]
    assert captured.spans[0].attributes is not None
    assert captured.spans[0].attributes[attributes.ATTEMPTS] == 2
    assert len({span.context.trace_id for span in captured.spans if span.context}) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("may_know", [True, False])
def test_a_workflow_that_is_started_in_a_task(may_know: bool, server: ModelServer) -> None:
    """The SDK writes whichever span is the present one into header and body, else a context of nobody's."""
    started = {"workflow_name": "w", "execution_id": "e", "root_execution_id": "e", "status": "RUNNING"}
    times = {"start_time": "2026-01-01T00:00:00Z", "end_time": None, "result": None}
    server.replies = [Reply.json(started | times)]
    module = pytest.importorskip("mistralai.client", reason="a version that is older than 2")
    pytest.importorskip("mistralai.client._hooks.traceparent")
    allowed = ("127.0.0.1",) if may_know else ()
    client = module.Mistral(api_key="k", server_url=server.url.removesuffix("/v1"))
    with capture(propagate_to=allowed) as captured, agentprof.task("t"), client:
        client.workflows.execute_workflow(workflow_identifier="w", input={"a": 1})
    (task,) = captured.spans
    (sent,) = server.sent
    assert json.loads(sent.body)["traceparent"] == sent.headers["traceparent"]
    assert task.context is not None
    assert (f"{task.context.trace_id:032x}" in sent.headers["traceparent"]) is may_know


def _times(summary: TaskSummary) -> list[Any]:
    """Which are the same as if the SDK had not traced itself."""
    return [summary.wall_ns, summary.timeline_ns, summary.busy_ns, summary.overlap_ns, summary.evidence_ns]


def _provider() -> TracerProvider:
    runtime = _runtime.active()
    assert runtime is not None
    provider = runtime.settings.tracer_provider
    assert isinstance(provider, TracerProvider)
    return provider


def _is_ours(span: ReadableSpan) -> bool:
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == "agentprof"


def _ours_and_theirs(spans: list[ReadableSpan]) -> tuple[ReadableSpan, ReadableSpan]:
    """The one call of ours, and the one span that the SDK has ended."""
    (ours,) = [span for span in spans if _is_ours(span) and normalise(to_raw(span)).kind == "model"]
    (theirs,) = [span for span in spans if not _is_ours(span)]
    return ours, theirs


def _summary(spans: list[ReadableSpan]) -> TaskSummary:
    (found,) = tasks_in(_normalised(spans)).items()
    return roll_up(*found)


def _normalised(spans: list[ReadableSpan]) -> list[Span]:
    return [normalise(to_raw(span)) for span in spans]
