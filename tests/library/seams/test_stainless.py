"""Calls of the real SDK against a real server: what the span says, and that the program notices nothing."""

import asyncio
import copy
import gc
import json
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from support.model_server import CHAT, DONE, ROLE, STREAM, ModelServer, Reply, chunk
from support.timed_calls import EARLY

import agentprof
from agentprof import _guard, attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MESSAGES: Any = [{"role": "user", "content": "Say hello, secret-prompt."}]
MODEL = "gpt-4o-mini"


def client(server: ModelServer, **options: Any) -> openai.OpenAI:
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return openai.OpenAI(base_url=server.url, **options)


def async_client(server: ModelServer, **options: Any) -> openai.AsyncOpenAI:
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return openai.AsyncOpenAI(base_url=server.url, **options)


def chat(to: openai.OpenAI, **more: Any) -> Any:
    return to.chat.completions.create(model=MODEL, messages=MESSAGES, **more)


def only(captured: Captured) -> tuple[ReadableSpan, dict[str, Any]]:
    assert len(captured.spans) == 1
    return captured.spans[0], dict(captured.spans[0].attributes or {})


def test_a_plain_call(server: ModelServer, captured: Captured) -> None:
    """One span of kind client with model, usage, finish reason, server and attempts; no provider is guessed."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        answer = chat(to)
    assert answer.choices[0].message.content == "Hello."
    span, said = only(captured)
    assert span.name == f"chat {MODEL}"
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert 0 < said.pop(attributes.PHASE + "connect") < 2
    assert said.pop(attributes.PHASE_SOURCE + "connect") == "observed"
    assert said == {
        attributes.OPERATION: "chat",
        attributes.REQUEST_MODEL: MODEL,
        attributes.SERVER_ADDRESS: "127.0.0.1",
        attributes.SERVER_PORT: int(server.url.rpartition(":")[2].removesuffix("/v1")),
        attributes.RESPONSE_ID: "chatcmpl-1",
        attributes.RESPONSE_MODEL: "gpt-4o-mini-2024-07-18",
        attributes.FINISH_REASONS: ("stop",),
        attributes.INPUT_TOKENS: 100,
        attributes.OUTPUT_TOKENS: 6,
        attributes.ATTEMPTS: 1,
        attributes.INPUT_BYTES + "user": len(json.dumps(MESSAGES[0], separators=(",", ":"))),
        attributes.FINGERPRINT_REQUEST: said[attributes.FINGERPRINT_REQUEST],
        attributes.FINGERPRINT_PREFIX: said[attributes.FINGERPRINT_PREFIX],
    }


def test_first_token_is_not_the_role(server: ModelServer, captured: Captured) -> None:
    """Headers and a role come late, content later: the clock starts at the call, and the role is no token."""
    server.replies = [Reply.stream([ROLE, 2 * EARLY, *STREAM[1:]], wait_s=0.1)]
    with client(server) as to:
        assert [c.choices[0].delta.content for c in chat(to, stream=True) if c.choices] == [
            "",
            "Hel",
            "lo.",
            None,
        ]
    _, said = only(captured)
    assert said[attributes.TIME_TO_FIRST_CHUNK] >= 0.09
    assert said[attributes.FIRST_TOKEN] - said[attributes.TIME_TO_FIRST_CHUNK] >= EARLY
    assert said[attributes.FIRST_CONTENT] == said[attributes.FIRST_TOKEN]
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.PHASE_SOURCE + "generation"] == "observed"
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)


def test_attempts_and_pauses(server: ModelServer, captured: Captured) -> None:
    """Two refusals then an answer: three attempts, with the status and the pause of each failed one."""
    refusal = Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="60")
    server.replies = [refusal, refusal, Reply.json(CHAT)]
    with client(server, max_retries=2) as to:
        chat(to)
    span, said = only(captured)
    assert said[attributes.ATTEMPTS] == 3
    assert said[attributes.ATTEMPT_STATUS] == ("429", "429")
    assert all(0.05 <= pause < 3 for pause in said[attributes.ATTEMPT_BACKOFF])
    assert all(0 < duration < 3 for duration in said[attributes.ATTEMPT_DURATION])
    assert span.status.status_code is StatusCode.UNSET


def test_attempts_of_an_async_call(server: ModelServer, captured: Captured) -> None:
    """The async client reports its attempts in the same way."""
    server.replies = [Reply.json({}, 500, retry_after_ms="50"), Reply.json(CHAT)]

    async def run() -> None:
        async with async_client(server, max_retries=1) as to:
            await to.chat.completions.create(model=MODEL, messages=MESSAGES)

    asyncio.run(run())
    _, said = only(captured)
    assert said[attributes.ATTEMPTS] == 2
    assert said[attributes.ATTEMPT_STATUS] == ("500",)
    assert said[attributes.ATTEMPT_BACKOFF][0] >= 0.05


def test_a_rejected_request(server: ModelServer, captured: Captured) -> None:
    """A 400 is an error with its class and status, without usage, cost or message."""
    server.replies = [Reply.json({"error": {"message": "secret-prompt too long"}}, 400)]
    with client(server, max_retries=2) as to, pytest.raises(openai.BadRequestError):
        chat(to)
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert said[attributes.ERROR_TYPE] == "BadRequestError"
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (1, ("400",))
    assert attributes.INPUT_TOKENS not in said
    assert attributes.COST not in said


def test_timeouts(server: ModelServer, captured: Captured) -> None:
    """Attempts that timed out after the request left are told apart, each with its duration."""
    server.replies = [Reply.json(CHAT, **{}), Reply(json.dumps(CHAT).encode(), wait_s=1.0)]
    server.replies[0].wait_s = 1.0
    with (
        client(server, max_retries=1, timeout=openai.Timeout(5, read=0.1)) as to,
        pytest.raises(openai.APITimeoutError),
    ):
        chat(to)
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert said[attributes.ERROR_TYPE] == "APITimeoutError"
    assert said[attributes.ATTEMPT_STATUS] == ("timeout", "timeout")
    assert all(0.09 <= duration < 3 for duration in said[attributes.ATTEMPT_DURATION])
    assert said[attributes.ATTEMPT_BACKOFF][0] > 0.2
    assert said[attributes.ATTEMPT_BACKOFF][1] == 0


def test_nobody_there(captured: Captured) -> None:
    """A refused connection is a failed attempt of that kind: the request did not leave."""
    to = openai.OpenAI(api_key="x", base_url="http://127.0.0.1:9/v1", max_retries=0)
    with to, pytest.raises(openai.APIConnectionError):
        chat(to)
    _, said = only(captured)
    assert said[attributes.ATTEMPT_STATUS] == ("connection",)
    assert said[attributes.ERROR_TYPE] == "APIConnectionError"


def test_nothing_private_is_recorded(server: ModelServer, captured: Captured) -> None:
    """No header, key, prompt or answer is anywhere in the span."""
    server.replies = [Reply.json(CHAT), Reply.json({"error": {"message": "secret-error"}}, 400)]
    with client(server) as to:
        chat(to, extra_headers={"Authorization": "Bearer secret-header"})
        with pytest.raises(openai.BadRequestError):
            chat(to)
    recorded = "".join(span.to_json() for span in captured.spans)
    assert "secret" not in recorded
    assert "Hello." not in recorded


def test_same_bytes_go_out(server: ModelServer) -> None:
    """With and without instrumentation the request is equal, but for `traceparent` to a private address."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        chat(to)
        with capture() as captured:
            chat(to)
        with capture(propagate_to=()):
            chat(to)
    bare, ours, unpropagated = server.sent
    span = captured.spans[0]
    assert span.context is not None
    assert (
        ours.headers.pop("traceparent") == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"
    )
    for sent in (bare, ours, unpropagated):
        sent.headers.pop("x-stainless-idempotency-key", None)
        sent.headers.pop("idempotency-key", None)
    assert bare.body == ours.body == unpropagated.body
    assert bare.headers == ours.headers == unpropagated.headers


def test_only_named_hosts_get_a_traceparent(server: ModelServer) -> None:
    """`propagate_to` names the hosts, and nobody else gets the header."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        with capture(propagate_to=["models.example.com"]):
            chat(to)
        with capture(propagate_to=["127.0.0.1"]):
            chat(to)
    assert ["traceparent" in sent.headers for sent in server.sent] == [False, True]


@pytest.mark.parametrize(
    "body", [{"output": None}, {"output": None, "usage": {"output_tokens_details": None}}]
)
def test_a_strange_responses_body(server: ModelServer, captured: Captured, body: dict[str, Any]) -> None:
    """A body with nulls where objects belong gives the same value as without us."""
    whole = {"id": "resp_1", "object": "response", "model": MODEL, "status": "completed"} | body
    server.replies = [Reply.json(whole)]
    with client(server) as to:
        assert to.responses.create(model=MODEL, input="hi").output is None
    _, said = only(captured)
    assert said[attributes.FINISH_REASONS] == ("completed",)
    assert attributes.INPUT_TOKENS not in said


def test_unknown_usage_stays_unknown(server: ModelServer, captured: Captured) -> None:
    """A stream without usage, and `usage: null`, are successes without token counts."""
    server.replies = [Reply.stream([*STREAM[:4], DONE]), Reply.json(CHAT | {"usage": None})]
    with client(server) as to:
        list(chat(to, stream=True))
        chat(to)
    for span in captured.spans:
        assert span.status.status_code is StatusCode.UNSET
        assert attributes.INPUT_TOKENS not in (span.attributes or {})
        assert attributes.OUTPUT_TOKENS not in (span.attributes or {})


def test_types_are_unchanged(server: ModelServer, captured: Captured) -> None:
    """Streams are the SDK's own objects, raw and streaming responses too, and a copy of one works."""
    server.replies = [Reply.stream()]
    with client(server) as to:
        stream = chat(to, stream=True)
        assert type(stream) is openai.Stream
        assert type(copy.copy(stream)) is openai.Stream
        assert len(list(stream)) == 5
        raw = to.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=True)
        assert type(raw).__name__ == "LegacyAPIResponse"
        assert raw.headers["content-type"] == "text/event-stream"
        assert len(list(raw.parse())) == 5
        with to.chat.completions.with_streaming_response.create(
            model=MODEL, messages=MESSAGES, stream=True
        ) as response:
            assert sum(line.startswith("data:") for line in response.iter_lines()) == 6
            assert response.elapsed.total_seconds() > 0
    ends = [(span.attributes or {})[attributes.STREAM_END] for span in captured.spans]
    assert ends == ["complete"] * 3
    assert all((span.attributes or {})[attributes.OUTPUT_TOKENS] == 6 for span in captured.spans)


def test_a_whole_body_read_by_the_program(server: ModelServer, captured: Captured) -> None:
    """A streaming response that is no stream is understood once the program has read it."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        with to.chat.completions.with_streaming_response.create(model=MODEL, messages=MESSAGES) as response:
            assert response.parse().id == "chatcmpl-1"
        assert (
            to.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES).parse().usage
            is not None
        )
    for span in captured.spans:
        assert (span.attributes or {})[attributes.OUTPUT_TOKENS] == 6
        assert attributes.STREAM_END not in (span.attributes or {})
    assert len(captured.spans) == 2


def test_the_sdks_own_stream_manager(server: ModelServer, captured: Captured) -> None:
    """`chat.completions.stream()` works unchanged, sync and async."""
    server.replies = [Reply.stream()]

    async def run() -> str | None:
        async with (
            async_client(server) as to,
            to.chat.completions.stream(model=MODEL, messages=MESSAGES) as events,
        ):
            return (await events.get_final_completion()).choices[0].message.content

    with client(server) as to, to.chat.completions.stream(model=MODEL, messages=MESSAGES) as events:
        assert events.get_final_completion().choices[0].message.content == "Hello."
    assert asyncio.run(run()) == "Hello."
    assert [(span.attributes or {})[attributes.STREAM_END] for span in captured.spans] == ["complete"] * 2


def _leave_with_block(stream: Any) -> None:
    with stream:
        next(stream)
        next(stream)


def _close(stream: Any) -> None:
    next(stream)
    next(stream)
    stream.close()


def _break(stream: Any) -> None:
    for seen, _ in enumerate(stream):
        if seen == 1:
            break


@pytest.mark.parametrize("leave", [_leave_with_block, _close, _break])
def test_a_stream_left_early(server: ModelServer, captured: Captured, leave: Callable[[Any], None]) -> None:
    """However a stream is left, it gives one span that ends with the last chunk that came."""
    server.replies = [Reply.stream([*STREAM[:2], 0.5, *STREAM[2:]])]
    with client(server) as to:
        stream = chat(to, stream=True)
        leave(stream)
        del stream
        gc.collect()
    span, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert attributes.FIRST_TOKEN in said
    assert span.start_time is not None
    assert span.end_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(
        said[attributes.FIRST_TOKEN] + said[attributes.PHASE + "client"], abs=1e-6
    )
    assert said[attributes.PHASE + "client"] < 2


def test_a_stream_nobody_reads(server: ModelServer, captured: Captured) -> None:
    """A stream that is dropped before its first chunk gives one span, and a failed attempt."""
    server.replies = [Reply.stream([0.3, *STREAM])]
    with client(server) as to:
        stream = chat(to, stream=True)
        assert captured.spans == []
        del stream
        gc.collect()
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert said[attributes.ATTEMPT_STATUS] == ("cancelled",)


def test_a_broken_stream(server: ModelServer, captured: Captured) -> None:
    """A connection that breaks in mid-stream is an error with the exception's class."""
    server.replies = [Reply.stream(STREAM[:3], framing="cut")]
    with client(server) as to, pytest.raises(openai.APIConnectionError):
        list(chat(to, stream=True))
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert said[attributes.ERROR_TYPE] == "RemoteProtocolError"
    assert said[attributes.STREAM_END] == "error"


def test_cancelled_while_iterating(server: ModelServer, captured: Captured) -> None:
    """An asyncio task cancelled in mid-stream is recorded as cancelled, and the exception goes on."""
    server.replies = [Reply.stream([*STREAM[:2], 5.0])]

    async def run() -> None:
        async with async_client(server) as to:
            reading = asyncio.Event()

            async def read() -> None:
                async for _ in await to.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
                    reading.set()

            task = asyncio.create_task(read())
            await reading.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    span, said = only(captured)
    assert said[attributes.STREAM_END] == "cancelled"
    assert said[attributes.ERROR_TYPE] == "CancelledError"
    assert span.status.status_code is StatusCode.ERROR


def test_cancelled_before_the_answer(server: ModelServer, captured: Captured) -> None:
    """A call cancelled while the server works has one failed attempt of that kind."""
    server.replies = [Reply(json.dumps(CHAT).encode(), wait_s=5.0)]

    async def run() -> None:
        async with async_client(server) as to:
            call = asyncio.create_task(to.chat.completions.create(model=MODEL, messages=MESSAGES))
            while not server.sent:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(run())
    _, said = only(captured)
    assert said[attributes.ATTEMPT_STATUS] == ("cancelled",)
    assert said[attributes.ERROR_TYPE] == "CancelledError"


def test_retrieving_costs_nothing(server: ModelServer, captured: Captured) -> None:
    """Only requests that make a model work are calls: a retrieval with usage in its body is none."""
    whole = {"id": "resp_1", "object": "response", "model": MODEL, "status": "completed", "output": []}
    server.replies = [
        Reply.json(whole | {"usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10}})
    ]
    with client(server) as to:
        assert to.responses.retrieve("resp_1").usage is not None
        to.models.list()
    assert captured.spans == []


def test_compressed_streams_are_read(server: ModelServer, captured: Captured) -> None:
    """Tokens are seen in a gzip body too."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in STREAM]
    reply = Reply.stream([*pieces, packer.flush()])
    reply.headers["content-encoding"] = "gzip"
    server.replies = [reply]
    with client(server) as to:
        assert len(list(chat(to, stream=True))) == 5
    _, said = only(captured)
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert attributes.FIRST_TOKEN in said


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_split_anywhere(server: ModelServer, captured: Captured, size: int) -> None:
    """Events are found whatever pieces they come in, with CRLF line ends and comments between."""
    body = b": ping\r\n\r\n" + b"".join(STREAM).replace(b"\n", b"\r\n")
    server.replies = [Reply.stream([body[at : at + size] for at in range(0, len(body), size)])]
    with client(server) as to:
        assert len(list(chat(to, stream=True))) == 5
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert said[attributes.FINISH_REASONS] == ("stop",)


def test_embeddings_and_completions(server: ModelServer, captured: Captured) -> None:
    """Other endpoints are told by their path."""
    server.replies = [
        Reply.json(
            {
                "object": "list",
                "data": [{"embedding": [0.5], "index": 0}],
                "model": "e-1",
                "usage": {"prompt_tokens": 8, "total_tokens": 8},
            }
        )
    ]
    with client(server) as to:
        to.embeddings.create(model="e-1", input="hi")
    span, said = only(captured)
    assert span.name == "embeddings e-1"
    assert said[attributes.OPERATION] == "embeddings"
    assert said[attributes.INPUT_TOKENS] == 8


def test_reported_times_of_engines(server: ModelServer, captured: Captured) -> None:
    """Times in the body are phases with their source and field, and stand before what was observed."""
    metrics = {"queue_time_ms": 40.0, "time_to_first_token_ms": 160.0, "generation_time_ms": 1270.0}
    timings = {"prompt_ms": 12.5, "predicted_ms": 250.0, "cache_n": 3}
    server.replies = [
        Reply.stream([*STREAM[:4], chunk(usage=CHAT["usage"], metrics=metrics), DONE]),
        Reply.json(CHAT | {"timings": timings}),
    ]
    with client(server) as to:
        list(chat(to, stream=True))
        chat(to)
    vllm, llama = (dict(span.attributes or {}) for span in captured.spans)
    assert [vllm[attributes.PHASE + name] for name in ("queue", "prefill", "generation")] == [
        0.04,
        0.16,
        1.27,
    ]
    assert vllm[attributes.PHASE_SOURCE + "generation"] == "reported"
    assert vllm[attributes.PHASE_FIELD + "queue"] == "metrics.queue_time_ms"
    assert vllm[attributes.PHASE_SOURCE + "client"] == "observed"
    assert [llama[attributes.PHASE + name] for name in ("prefill", "generation")] == [0.0125, 0.25]
    assert llama[attributes.PHASE_FIELD + "prefill"] == "timings.prompt_ms"


def test_a_reported_cost(server: ModelServer, captured: Captured) -> None:
    """What a gateway says it charged is kept to the last digit, with the upstream part of a key of one's own."""
    usage = {"prompt_tokens": 14, "completion_tokens": 164, "cost": 0.000123456789}
    own_key = usage | {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.00417}}
    server.replies = [Reply.json(CHAT | {"usage": usage}), Reply.json(CHAT | {"usage": own_key})]
    with client(server) as to:
        chat(to)
        chat(to)
    costs = [(span.attributes or {})[attributes.COST] for span in captured.spans]
    assert costs == ["0.000123456789", "0.00417"]
    assert all((span.attributes or {})[attributes.COST_SOURCE] == "reported" for span in captured.spans)


def test_a_failing_dialect_is_not_noticed(
    server: ModelServer, captured: Captured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error inside us is counted and logged once; the program gets its answer, and the span its end."""
    from agentprof.dialects import openai_chat

    def broken(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(openai_chat, "_read_body", broken)
    monkeypatch.setattr(openai_chat, "_note_chunk", broken)
    monkeypatch.setattr(_guard, "_counts", {})
    server.replies = [Reply.json(CHAT), Reply.json(CHAT), Reply.stream()]
    with client(server) as to:
        assert chat(to).id == chat(to).id
        assert len(list(chat(to, stream=True))) == 5
    assert len(captured.spans) == 3
    assert _guard.counts() == {"reading an answer": 2, "reading a chunk": 5}
    assert len([record for record in caplog.records if record.name == "agentprof"]) == 2
    monkeypatch.undo()


def test_calls_in_threads_hang_from_their_task(server: ModelServer, captured: Captured) -> None:
    """A call in a pool, a thread or an executor of asyncio belongs to the task that asked for it."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to, ThreadPoolExecutor(1) as pool:
        with agentprof.task("outer") as task:
            pool.submit(chat, to).result()
            thread = threading.Thread(target=chat, args=(to,))
            thread.start()
            thread.join()

            async def run() -> None:
                await asyncio.get_running_loop().run_in_executor(None, chat, to)
                await asyncio.to_thread(chat, to)

            asyncio.run(run())
        pool.submit(chat, to).result()
    *calls, root, outside = captured.spans
    assert root.context is not None
    assert len(calls) == 4
    for span in calls:
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert (span.attributes or {})[attributes.TASK_ID] == task.id
    assert outside.parent is None
    assert attributes.TASK_ID not in (outside.attributes or {})


def test_a_custom_http_client(server: ModelServer, captured: Captured) -> None:
    """A client of the user's own is observed like the SDK's."""
    server.replies = [Reply.stream()]
    with httpx2.Client() as http, client(server, http_client=http) as to:
        assert len(list(chat(to, stream=True))) == 5
    assert only(captured)[1][attributes.OUTPUT_TOKENS] == 6
