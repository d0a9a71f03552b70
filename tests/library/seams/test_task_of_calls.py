"""A task made of real calls: retries, an abandoned attempt, a refusal and unknown prices in its summary."""

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import openai
import pytest
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.timed_calls import EARLY, LATE, S, about

import agentprof
from agentprof.testing import Captured

pytest.importorskip("genai_prices", reason="prices are an extra of their own")

MESSAGES: Any = [{"role": "user", "content": "hi"}]
SEARCHED = {
    "id": "resp_1",
    "object": "response",
    "model": "gpt-4o-mini-2024-07-18",
    "status": "completed",
    "output": [{"type": "web_search_call", "id": "ws_1", "status": "completed"}],
    "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
}


def client(server: ModelServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", **({"timeout": 5, "max_retries": 2} | options))


def ask(to: openai.OpenAI, model: str = "gpt-4o-mini", **more: Any) -> Any:
    return to.chat.completions.create(model=model, messages=MESSAGES, **more)


def test_retries_waste_and_unknowns(server: ModelServer, captured: Captured) -> None:
    """Each attempt, pause, refusal and missing price stands where it belongs, and the timeline adds up."""
    late = Reply(json.dumps(CHAT).encode(), wait_s=2)
    refusal = Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="80")
    with agentprof.task("mixed") as task:
        server.replies = [late, Reply.json(CHAT)]
        with client(server, timeout=openai.Timeout(5, read=0.5), max_retries=1) as to:
            ask(to)
        with client(server) as to:
            server.replies = [refusal, Reply.json(CHAT)]
            ask(to)
            server.replies = [Reply.json({"error": {"message": "too long"}}, 400)]
            with pytest.raises(openai.BadRequestError):
                ask(to)
            server.replies = [Reply.json(CHAT | {"model": "no-such-model"})]
            ask(to, model="no-such-model")
            server.replies = [Reply.json(SEARCHED)]
            to.responses.create(model="gpt-4o-mini", input="hi")
        spent = task.spent()
    summary = task.summary().to_dict()
    assert (summary["calls"], summary["attempts"], summary["retries"]["transport"]) == (5, 7, 2)
    assert summary["errors"]["call"] == 1
    assert summary["outcome"] is None
    assert summary["tokens"]["input"] == 310
    assert summary["tokens"]["output"] == 20
    assert summary["server_tools"] == {"web_search": 1}
    assert summary["unpriced"]["abandoned_attempts"] == 1
    assert summary["unpriced"]["unknown_model"] == 1
    assert summary["cost_complete"] is False
    assert Decimal(summary["cost_by_class_usd"]["input"]) == 210 * Decimal("0.15") / 1_000_000
    assert Decimal(summary["cost_by_class_usd"]["output"]) == 14 * Decimal("0.60") / 1_000_000
    timeline = summary["timeline_ns"]
    assert sum(timeline.values()) == summary["wall_ns"]
    assert timeline["backoff"] > 80e6 + 350e6
    assert 500e6 < timeline["failed_attempt"] < 2000e6 + LATE * S
    assert (spent.calls, spent.input_tokens, spent.output_tokens) == (5, 310, 20)


def test_phases_of_a_stream(server: ModelServer, captured: Captured) -> None:
    """Waiting, generation and the rest of a streamed call are on the timeline, and a failure is the task's."""
    server.replies = [Reply.stream([0.1, *STREAM[:2], 2 * EARLY, *STREAM[2:]])]
    tasks: list[agentprof.Task] = []

    def work() -> None:
        with client(server) as to, agentprof.task("streamed") as task:
            tasks.append(task)
            list(ask(to, stream=True))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    summary = tasks[0].summary().to_dict()
    timeline = summary["timeline_ns"]
    assert summary["outcome"] == "failure"
    assert timeline["wait"] == about(0.1)
    assert timeline["generation"] == about(2 * EARLY, EARLY)
    assert timeline["model"] == 0
    assert sum(timeline.values()) == summary["wall_ns"]
    assert summary["first_token_ns"]["max"] == pytest.approx(timeline["wait"] + timeline["network"])
    assert Decimal(summary["cost_usd"]) == (100 * Decimal("0.15") + 6 * Decimal("0.60")) / 1_000_000
    assert summary["cost_complete"]


def test_a_task_that_yields_a_stream(server: ModelServer, captured: Captured) -> None:
    """An endpoint that passes a stream on is a task until its last piece, whoever asks for the pieces."""
    server.replies = [Reply.stream([*STREAM[:3], 0.1, *STREAM[3:]])]

    @agentprof.task("answer")
    async def answer(to: openai.AsyncOpenAI) -> AsyncIterator[str]:
        stream = await to.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)
        async for piece in stream:
            for choice in piece.choices:
                yield choice.delta.content or ""

    async def serve() -> str:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="x") as to:
            pieces: Any = answer(to)
            text = ""
            while (piece := await asyncio.create_task(anext(pieces, None))) is not None:
                text += piece
            return text

    assert asyncio.run(serve()) == "Hello."
    call, root = captured.spans
    assert root.name == "answer"
    assert root.context is not None
    assert call.parent is not None
    assert call.parent.span_id == root.context.span_id
    assert root.start_time is not None
    assert root.end_time is not None
    assert root.end_time - root.start_time > 100_000_000
    assert call.end_time is not None
    assert call.end_time <= root.end_time
