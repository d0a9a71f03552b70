"""Rows of the catalogue of failures seen in comparable tools, each a test: the program, context and lifetimes."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from opentelemetry import context as otel_context
from opentelemetry.trace import StatusCode
from support.collector_server import CollectorServer
from support.model_server import CHAT, STREAM, ModelServer, Reply, chunk
from support.pitfalls import MESSAGES, MODEL, async_client, chat, summed
from support.recorded import only
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import _instrument, attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


# --- the program is as it was --------------------------------------------------------------------
def test_b1_m9_streams_keep_their_type(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Checks by class hold, of raw responses too."""
    server.replies = [Reply.stream()]
    stream = chat(client, stream=True)
    assert type(stream) is openai.Stream
    raw = client.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=True)
    assert type(raw).__name__ == "LegacyAPIResponse"
    assert type(raw.parse()) is openai.Stream
    assert len([*stream, *raw.parse()]) == 10


def test_b2_async_generator_methods_are_iterated(captured: Captured) -> None:
    """`async for` over a marked one works, whatever its name."""

    class Agent:
        @agentprof.tool
        async def create(self) -> AsyncIterator[int]:
            yield 1
            yield 2

    async def run() -> list[int]:
        return [number async for number in Agent().create()]

    assert asyncio.run(run()) == [1, 2]
    assert only(captured)[0].name == "execute_tool create"


def test_b3_arguments_that_cannot_be_copied(captured: Captured) -> None:
    """A tool gets the very lock it was given."""
    lock = threading.RLock()
    given: list[Any] = []

    @agentprof.tool
    def use(held: Any) -> None:
        given.append(held)

    use({"lock": lock})
    assert given[0]["lock"] is lock


def test_b4_async_functions_are_seen_as_async() -> None:
    """Of everything that is patched, before and after."""
    with capture():
        for patch in _instrument._applied:
            now = inspect.iscoroutinefunction(patch.current())
            assert now == inspect.iscoroutinefunction(patch.original)


def test_b5_an_import_alone_traces_nothing() -> None:
    """Nothing is patched, and no provider is set, before `instrument()`."""
    program = """
        import agentprof, openai, httpx2, threading
        from openai._base_client import SyncAPIClient
        from opentelemetry import trace
        touched = [f for f in (SyncAPIClient.request, httpx2.Client.send, threading.Thread.start)
                   if hasattr(f, "__wrapped__")]
        print(touched, type(trace.get_tracer_provider()).__name__)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[] ProxyTracerProvider\n"


# --- context and lifetimes -----------------------------------------------------------------------
def _request(to: Any, api: str, streamed: bool) -> Any:
    more = {"stream": True} if streamed else {}
    if api == "chat":
        return chat(to, **more)
    return to.responses.create(model=MODEL, input="hi", **more)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("is_async", [False, True])
def test_c2_every_call_hangs_from_what_is_around_it(
    server: ModelServer, client: openai.OpenAI, captured: Captured, api: str, streamed: bool, is_async: bool
) -> None:
    """In every API, sync and async, streamed and not."""
    server.replies = [Reply.stream(EVENTS[api]) if streamed else Reply.json(WHOLE[api])]

    async def run() -> None:
        async with async_client(server) as to:
            result = await _request(to, api, streamed)
            if streamed:
                async for _ in result:
                    pass

    with agentprof.task("t"), agentprof.step("framework"):
        if is_async:
            asyncio.run(run())
        else:
            list(_request(client, api, streamed))
    call, step, _ = captured.spans
    assert step.context is not None
    assert call.parent is not None
    assert call.parent.span_id == step.context.span_id


def test_c5_a_short_script_loses_nothing(server: ModelServer) -> None:
    """One call, then the end of the process: the spans have arrived when it is over."""
    program = f"""
        import agentprof, openai
        agentprof.instrument()
        with agentprof.task("short"):
            openai.OpenAI(api_key="x", base_url={server.url!r}).chat.completions.create(model="m", messages=[])
    """
    server.replies = [Reply.json(CHAT)]
    with CollectorServer() as collector:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(collector.names) == ["chat m", "short"]


def test_c6_instrumenting_imports_no_sdk() -> None:
    """What is not imported is patched when it is, and costs nothing before."""
    program = """
        import sys, agentprof
        agentprof.instrument(propagate_to=())
        heavy = {"openai", "httpx", "httpx2", "requests", "aiohttp", "genai_prices"} & set(sys.modules)
        import openai
        print(heavy, hasattr(openai._base_client.SyncAPIClient.request, "__wrapped__"))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "set() True\n"


def test_c7_a_call_inside_an_evaluation_is_recorded(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Also where the function runs in a pool, with other instrumentations told to be silent."""
    server.replies = [Reply.json(CHAT)]

    def evaluated() -> None:
        silent = otel_context.set_value("suppress_instrumentation", True)
        token = otel_context.attach(silent)
        try:
            chat(client)
        finally:
            otel_context.detach(token)

    def evaluate() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(evaluated).result()

    assert summed(evaluate)["calls"] == 1


def test_c8_data_of_content_filters_is_no_outcome(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Chunks with filter results and no delta are passed over; the finish reason decides."""
    results = {"hate": {"filtered": False, "severity": "safe"}}
    nothing = {"index": 0, "delta": None, "finish_reason": None, "content_filter_results": results}
    filters = chunk(
        choices=[], prompt_filter_results=[{"prompt_index": 0, "content_filter_results": results}]
    )
    server.replies = [Reply.stream([filters, *STREAM[:3], chunk(choices=[nothing]), *STREAM[3:]])]
    assert len(list(chat(client, stream=True))) == 7
    span, found = only(captured)
    assert span.status.status_code is StatusCode.UNSET
    assert (found[attributes.STREAM_END], found[attributes.FINISH_REASONS]) == ("complete", ("stop",))
