"""Failures seen in comparable tools, one test a row of the catalogue, named after the row.

Rows that are tested elsewhere:

| row | where |
|---|---|
| T3, S4, C1 | `library/test_framework_pitfalls.py`: LangChain and LangGraph |
| T5 | `test_t5_...` here for streams of the SDK; through LangChain in `library/test_framework_pitfalls.py` |
| T7, T9, T15 | `library/vocabularies/test_normalise.py`, `library/rollup/test_totals.py`, `library/pricing/` |
| T10, M14 | here for any two scopes; with the real instrumentations `library/twin/test_other_instrumentations.py` |
| C4 | `library/soak/test_soak.py` |
| T6, T8 | `collector/test_trace_pitfalls.py` |
| B1, B5 | here for the SDK; for LiteLLM in `library/test_framework_pitfalls.py` |
| C3 | `library/seams/test_mcp.py`: servers over stdio and HTTP |
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import inspect
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import openai
import pytest
from openai._base_client import AsyncAPIClient, SyncAPIClient
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from support.collector_server import CollectorServer
from support.model_server import CHAT, DONE, ROLE, STREAM, ModelServer, Reply, chunk
from support.timed_calls import EARLY, LATE
from support.twin_outcomes import ERROR_EVENT, EVENTS, HOLLOW, WHOLE

import agentprof
from agentprof import _instrument, attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MODEL = "gpt-4o-mini"
MESSAGES: Any = [{"role": "user", "content": "hi"}]
INPUT_USD, OUTPUT_USD = Decimal("0.15") / 1_000_000, Decimal("0.60") / 1_000_000
"""Of one token of the model in the table."""


@pytest.fixture
def client(server: ModelServer) -> Iterator[openai.OpenAI]:
    """A client of the endpoint that repeats what failed."""
    with openai.OpenAI(base_url=server.url, api_key="x", max_retries=2, timeout=5) as opened:
        yield opened


def async_client(server: ModelServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.url, api_key="x", max_retries=2, timeout=5)


def chat(to: Any, **more: Any) -> Any:
    return to.chat.completions.create(model=MODEL, messages=MESSAGES, **more)


def using(**usage: Any) -> Reply:
    return Reply.json(CHAT | {"usage": usage})


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def only(captured: Captured) -> tuple[ReadableSpan, dict[str, Any]]:
    (span,) = captured.spans
    return span, said(span)


def summed(work: Callable[[], object]) -> dict[str, Any]:
    """The summary of a task that does something."""
    with agentprof.task("t") as task:
        work()
    return task.summary().to_dict()


# --- tokens and cost -----------------------------------------------------------------------------
def test_t1_cached_tokens_are_part_of_the_input(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Of every call, also the second equal one."""
    server.replies = [
        using(prompt_tokens=1999, completion_tokens=1, prompt_tokens_details={"cached_tokens": 1792})
    ]
    summary = summed(lambda: [chat(client), chat(client)])
    assert (summary["tokens"]["input"], summary["tokens"]["cache_read"]) == (2 * 1999, 2 * 1792)
    cost = 2 * (207 * INPUT_USD + 1792 * INPUT_USD / 2 + OUTPUT_USD)
    assert Decimal(summary["cost_usd"]) == cost


def test_t2_reasoning_is_part_of_the_output(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """1970 output tokens with 956 of reasoning cost 1970 output tokens."""
    details = {"reasoning_tokens": 956}
    server.replies = [using(prompt_tokens=0, completion_tokens=1970, completion_tokens_details=details)]
    summary = summed(lambda: chat(client))
    assert (summary["tokens"]["output"], summary["tokens"]["reasoning"]) == (1970, 956)
    assert Decimal(summary["cost_usd"]) == 1970 * OUTPUT_USD


def test_t4_a_rejected_request_costs_nothing(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """However long its prompt was; the cost is complete."""
    server.replies = [Reply.json({"error": {"message": "too long"}}, 400)]

    def ask() -> None:
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "x" * 1_000_000}]
            )

    summary = summed(ask)
    assert (Decimal(summary["cost_usd"]), summary["cost_complete"]) == (0, True)
    assert summary["errors"]["call"] == 1


def test_t5_usage_on_every_chunk_is_not_added(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Of several snapshots the largest holds."""
    pieces = [chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in (1, 2, 3)]
    server.replies = [Reply.stream([*pieces, chunk({}, "stop"), DONE])]
    tokens = summed(lambda: list(chat(client, stream=True)))["tokens"]
    assert (tokens["input"], tokens["output"]) == (9, 3)


def _repeat_as_another_scope(
    response_id: str | None, tokens: tuple[int, int] | None, scope: str = "another"
) -> Any:
    tracer = trace.get_tracer(scope, tracer_provider=_provider())
    span = tracer.start_span(
        "chat again", attributes={attributes.OPERATION: "chat", attributes.REQUEST_MODEL: MODEL}
    )
    if response_id is not None:
        span.set_attribute(attributes.RESPONSE_ID, response_id)
    if tokens is not None:
        span.set_attributes(
            dict(zip((attributes.INPUT_TOKENS, attributes.OUTPUT_TOKENS), tokens, strict=True))
        )
    return span


def _provider() -> Any:
    from agentprof import _runtime

    runtime = _runtime.active()
    assert runtime is not None
    return runtime.settings.tracer_provider


@pytest.mark.parametrize(
    ("response_id", "tokens"), [("chatcmpl-1", (100, 6)), ("chatcmpl-1", None), (None, (100, 6))]
)
def test_t10_two_spans_of_one_call_count_once(
    server: ModelServer, client: openai.OpenAI, captured: Captured, response_id: str, tokens: tuple[int, int]
) -> None:
    """Told by the id of the response, else by model and counts."""
    server.replies = [Reply.json(CHAT)]

    def ask() -> None:
        again = _repeat_as_another_scope(response_id, tokens)
        with trace.use_span(again, end_on_exit=True):
            chat(client)

    summary = summed(ask)
    assert len(captured.spans) == 3
    assert (summary["calls"], summary["tokens"]["input"], summary["tokens"]["output"]) == (1, 100, 6)


def test_t11_usage_of_streams_is_read(server: ModelServer, client: openai.OpenAI, captured: Captured) -> None:
    """The last chunk of a chat that was asked for it, and the end of a streamed response."""
    server.replies = [Reply.stream()]
    tokens = summed(lambda: list(chat(client, stream=True, stream_options={"include_usage": True})))["tokens"]
    assert (tokens["input"], tokens["output"]) == (100, 6)
    server.replies = [Reply.stream(EVENTS["responses"])]
    tokens = summed(lambda: list(client.responses.create(model=MODEL, input="hi", stream=True)))["tokens"]
    assert (tokens["input"], tokens["output"], tokens["cache_read"], tokens["reasoning"]) == (11, 7, 4, 2)


def test_t12_null_details_lose_nothing_else(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A detail that is null or of a wrong type leaves the counts beside it."""
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": "many"},
        "output_tokens": 7,
        "output_tokens_details": None,
        "total_tokens": 18,
    }
    server.replies = [Reply.json(WHOLE["responses"] | {"usage": usage})]
    tokens = summed(lambda: client.responses.create(model=MODEL, input="hi"))["tokens"]
    assert (tokens["input"], tokens["output"]) == (11, 7)
    assert (tokens["cache_read"], tokens["reasoning"]) == (None, None)


def test_t13_a_dated_model_has_the_price_of_its_model(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A date nobody has listed is no reason not to price."""
    server.replies = [Reply.json(CHAT | {"model": "gpt-4o-mini-2099-12-31"})]
    summary = summed(lambda: chat(client))
    assert Decimal(summary["cost_usd"]) == 100 * INPUT_USD + 6 * OUTPUT_USD


def test_t14_unknown_usage_is_not_zero(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Neither tokens nor cost of a successful call without usage are numbers."""
    server.replies = [Reply.json({name: value for name, value in CHAT.items() if name != "usage"})]
    summary = summed(lambda: chat(client))
    assert (summary["tokens"]["input"], summary["tokens"]["output"], summary["cost_usd"]) == (
        None,
        None,
        None,
    )
    assert (summary["calls_without_usage"], summary["unpriced"]["no_usage"]) == (1, 1)
    assert summary["errors"]["call"] == 0


# --- retries -------------------------------------------------------------------------------------
def test_r1_attempts_and_pauses_are_told_apart(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Two refusals then an answer: entries of one span with status and pause, which is no model time."""
    refusal = Reply.json({}, 429, retry_after_ms="60")
    server.replies = [refusal, refusal, Reply.json(CHAT)]
    summary = summed(lambda: chat(client))
    found = said(captured.spans[0])
    assert (found[attributes.ATTEMPTS], found[attributes.ATTEMPT_STATUS]) == (3, ("429", "429"))
    assert all(pause >= 0.06 for pause in found[attributes.ATTEMPT_BACKOFF])
    assert (summary["calls"], summary["attempts"], summary["retries"]["transport"]) == (1, 3, 2)
    assert summary["timeline_ns"]["backoff"] >= 120e6


def test_r2_every_paid_answer_counts_and_what_was_wasted_is_shown(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A tool whose whole, billed answer was of no use is run again: both are paid, the first is waste."""
    server.replies = [Reply.json(CHAT | {"id": "chatcmpl-0"}), Reply.json(CHAT)]
    good = iter([False, True])

    @agentprof.tool
    def ask(question: str) -> None:
        chat(client)
        if not next(good):
            raise LookupError

    def work() -> None:
        with pytest.raises(LookupError):
            ask("why")
        ask("why")

    summary = summed(work)
    once = 100 * INPUT_USD + 6 * OUTPUT_USD
    assert (summary["calls"], Decimal(summary["cost_usd"])) == (2, 2 * once)
    assert Decimal(summary["wasted"]["cost_usd"]) == once


# --- streams -------------------------------------------------------------------------------------
def _leave_with_block(stream: Any) -> None:
    with stream:
        next(stream)


def _close(stream: Any) -> None:
    next(stream)
    stream.close()


def _break(stream: Any) -> None:
    for _ in stream:
        break


@pytest.mark.parametrize("leave", [_leave_with_block, _close, _break, lambda stream: None])
def test_s1_a_stream_left_early_is_one_span(
    server: ModelServer, client: openai.OpenAI, captured: Captured, leave: Callable[[Any], None]
) -> None:
    """However it is left."""
    server.replies = [Reply.stream()]
    stream = chat(client, stream=True)
    leave(stream)
    del stream
    gc.collect()
    assert only(captured)[1][attributes.STREAM_END] == "abandoned"


def test_s2_a_streamed_response_is_one_span(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """`responses.create(stream=True)` with its first token and its end."""
    server.replies = [Reply.stream(EVENTS["responses"])]
    assert len(list(client.responses.create(model=MODEL, input="hi", stream=True))) == 9
    _, found = only(captured)
    assert found[attributes.STREAM_END] == "complete"
    assert found[attributes.FIRST_TOKEN] == found[attributes.FIRST_CONTENT]


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_s3_the_sdks_own_stream_managers(
    server: ModelServer, client: openai.OpenAI, captured: Captured, wire: str
) -> None:
    """Work unchanged, sync and async."""
    server.replies = [Reply.stream(EVENTS[wire])]

    def manager(to: Any) -> Any:
        if wire == "chat":
            return to.chat.completions.stream(model=MODEL, messages=MESSAGES)
        return to.responses.stream(model=MODEL, input="hi")

    with manager(client) as events:
        expected = [event.type for event in events]

    async def run() -> list[str]:
        async with async_client(server) as to, manager(to) as events:
            return [event.type async for event in events]

    assert asyncio.run(run()) == expected
    assert [said(span)[attributes.STREAM_END] for span in captured.spans] == ["complete"] * 2


def test_s5_a_task_ends_with_its_generator(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Pieces asked for in other contexts, as a web server does, are made in the task; its end is the last's."""
    server.replies = [Reply.stream()]

    @agentprof.task("answer")
    def answer() -> Iterator[str]:
        for piece in chat(client, stream=True):
            with agentprof.step("piece"):
                yield piece.id

    pieces = answer()
    while contextvars.copy_context().run(next, pieces, None) is not None:
        assert agentprof.current_task() is None
    steps, (call,), (root,) = (captured.named(name) for name in ("piece", "chat", "answer"))
    assert captured.spans[-1] is root
    assert root.context is not None
    assert len(steps) == 5
    assert all(span.parent is not None for span in (*steps, call))
    assert {span.context.trace_id for span in captured.spans if span.context} == {root.context.trace_id}
    assert {said(span)[attributes.TASK_ID] for span in captured.spans} == {said(root)[attributes.TASK_ID]}


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


# --- measured in others --------------------------------------------------------------------------
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
        with trace.use_span(_repeat_as_another_scope("chatcmpl-1", (100, 6)), end_on_exit=True):
            inner = _repeat_as_another_scope(None, (100, 6), "third")
            with trace.use_span(inner, end_on_exit=True):
                chat(client)

    def ask_twice() -> None:
        with trace.use_span(_repeat_as_another_scope(None, (200, 12)), end_on_exit=True):
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
