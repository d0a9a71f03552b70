"""Instrumentations in a program without a tracer provider: they send none of our spans to a host of models."""

from __future__ import annotations

import asyncio
import contextvars
import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests
from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from support.model_server import CHAT, ModelServer, Reply

import agentprof
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
TRACER = trace.get_tracer("an instrumentation")
"""Makes no spans: nobody has set a provider."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Answers everything with a chat."""
    with ModelServer() as server:
        server.replies = [Reply.json(CHAT)]
        yield server


class _Traced(httpx.BaseTransport):
    """As an instrumentation of httpx does it: a span around each exchange, whose context is sent."""

    def __init__(self, tracer: trace.Tracer = TRACER, answer: httpx.Response | None = None) -> None:
        self.sent: list[str | None] = []
        self._tracer, self._answer = tracer, answer
        self._real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self._tracer.start_as_current_span("POST"):
            propagate.inject(request.headers)
            self.sent.append(request.headers.get("traceparent"))
            return self._answer or self._real.handle_request(request)

    def close(self) -> None:
        self._real.close()


def _with_httpx(url: str) -> None:
    with httpx.Client(transport=_Traced()) as client:
        client.post(f"{url}/chat/completions", json=BODY)


def _with_an_sdk(url: str) -> None:
    client: Any = httpx.Client(transport=_Traced())
    with openai.OpenAI(base_url=url, api_key="x", http_client=client) as sdk:
        sdk.chat.completions.create(**BODY)


def _with_requests(url: str) -> None:
    class Session(requests.Session):
        def send(self, request: Any, **kwargs: Any) -> Any:
            with TRACER.start_as_current_span("POST"):
                propagate.inject(request.headers)
                return super().send(request, **kwargs)

    with Session() as session:
        session.post(f"{url}/chat/completions", json=BODY)


def _with_aiohttp(url: str) -> None:
    async def inject(session: Any, context: Any, params: Any) -> None:
        with TRACER.start_as_current_span("POST"):
            propagate.inject(params.headers)

    async def main() -> None:
        config = aiohttp.TraceConfig()
        config.on_request_start.append(inject)
        async with aiohttp.ClientSession(trace_configs=[config]) as session:
            await (await session.post(f"{url}/chat/completions", json=BODY)).read()

    asyncio.run(main())


WAYS = [_with_httpx, _with_an_sdk, _with_requests, _with_aiohttp]


@pytest.mark.parametrize("in_a_task", [True, False], ids=["task", "no task"])
@pytest.mark.parametrize("way", WAYS)
def test_a_host_of_models_gets_none_of_our_spans(way: Any, in_a_task: bool, server: ModelServer) -> None:
    """As without us, where there is no span to send; our own spans hang together all the same."""
    with capture(propagate_to=()) as captured:
        if in_a_task:
            with agentprof.task("t"):
                way(server.url)
        else:
            way(server.url)
    (sent,) = server.sent
    assert "traceparent" not in sent.headers
    assert len({span.context.trace_id for span in captured.spans if span.context}) == 1
    assert len(captured.spans) == 1 + in_a_task


@pytest.mark.parametrize("way", WAYS)
def test_a_host_that_may_know_gets_it(way: Any, server: ModelServer) -> None:
    """As by ourselves."""
    with capture(propagate_to=("127.0.0.1",)) as captured, agentprof.task("t"):
        way(server.url)
    (sent,) = server.sent
    assert captured.spans[0].context is not None
    assert sent.headers["traceparent"].split("-")[1] == f"{captured.spans[0].context.trace_id:032x}"


def test_spans_of_the_program_are_sent_as_without_us(server: ModelServer) -> None:
    """Of an instrumentation that has a provider of its own: it says what it says."""
    provider = TracerProvider(shutdown_on_exit=False)
    transport = _Traced(provider.get_tracer("theirs"))
    with capture(propagate_to=()), httpx.Client(transport=transport) as client, agentprof.task("t"):
        client.post(f"{server.url}/chat/completions", json=BODY)
    assert transport.sent[0] is not None
    # A context that came from elsewhere is nobody's but the program's.
    remote = propagate.extract({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    quiet = _Traced()
    with capture(propagate_to=()), httpx.Client(transport=quiet) as client:
        token = otel_context.attach(remote)
        client.get(f"{server.url}/own/service")
        otel_context.detach(token)
    assert quiet.sent == [f"00-{'ab' * 16}-{'cd' * 8}-01"]


@pytest.mark.parametrize("mark", [agentprof.task, agentprof.step, agentprof.tool])
def test_other_requests(mark: Any) -> None:
    """Those to a known provider that are no calls say nothing; a service of the program's own joins the trace."""
    transport = _Traced(answer=httpx.Response(200, json={}))
    with capture(propagate_to=()), httpx.Client(transport=transport) as client, mark("t"):
        client.get("https://api.openai.com/v1/models")
        client.get("https://service.example/answer")
    to_provider, to_service = transport.sent
    assert to_provider is None
    assert to_service is not None


@pytest.mark.parametrize("mark", [agentprof.task, agentprof.step])
def test_other_requests_of_requests(mark: Any) -> None:
    """The same below a session, where an instrumentation of urllib3 stands: nor does the task go out in the baggage."""
    sent: dict[str, dict[str, str]] = {}

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
            carrier: dict[str, str] = {}
            with trace.use_span(trace.NoOpTracer().start_span("urllib3")):
                propagate.inject(carrier)
            sent[str(request.url)] = carrier
            answer = requests.Response()
            answer.status_code, answer.url, answer.request = 200, str(request.url), request
            answer.raw, answer._content = io.BytesIO(), b"{}"
            return answer

    provider, service = "https://api.openai.com/v1/models", "https://service.example/answer"
    with capture(propagate_to=()), requests.Session() as session, mark("t"):
        session.mount("https://", Adapter())
        for url in (provider, service):
            session.get(url)
    assert sent[provider] == {}
    assert "traceparent" in sent[service]
    assert ("baggage" in sent[service]) == (mark is agentprof.task)


def test_what_was_started_in_a_call_and_outlives_it(server: ModelServer) -> None:
    """Is no part of it: a service of the program's own that it asks joins the trace."""
    transport = _Traced(answer=httpx.Response(200, json={}))
    over = threading.Event()

    def later() -> None:
        assert over.wait(10)
        with httpx.Client(transport=transport) as client:
            client.get("https://service.example/answer")

    started = threading.Thread(target=later)

    class Starts(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            context = contextvars.copy_context()
            started.run = lambda: context.run(later)  # type: ignore[method-assign]
            started.start()
            return super().handle_request(request)

    with capture(propagate_to=()), httpx.Client(transport=Starts()) as client, agentprof.task("t"):
        client.post(f"{server.url}/chat/completions", json=BODY)
        over.set()
        started.join()
    (to_service,) = transport.sent
    assert to_service is not None


def test_tracers_are_as_before_in_the_end() -> None:
    """The replaced method pickles, and is gone with us."""
    before = trace.NoOpTracer.start_span
    with capture():
        during = trace.NoOpTracer.start_span
        assert during is not before
        assert pickle.loads(pickle.dumps(during)) is during
        span = trace.NoOpTracer().start_span("s")
    assert span is trace.INVALID_SPAN
    assert trace.NoOpTracer.start_span is before
