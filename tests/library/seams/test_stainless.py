"""Calls of the real SDK against a real server: what the span says."""

import asyncio
import json
from typing import Any

import openai
import pytest
from opentelemetry.trace import SpanKind, StatusCode
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, chunk
from support.openai_calls import MESSAGES, MODEL, async_client, chat, client
from support.recorded import only

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


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
