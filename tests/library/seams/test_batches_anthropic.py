"""Results of batches of Anthropic messages: a line is a call, as the program reads it."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.trace import StatusCode
from support.anthropic_wire import MESSAGE
from support.model_server import ModelServer, Reply

import agentprof
from agentprof import _batches, attributes
from agentprof.testing import Captured

anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")


def line(number: int, kind: str, **result: Any) -> bytes:
    return json.dumps({"custom_id": f"secret-{number}", "result": {"type": kind, **result}}).encode() + b"\n"


REFUSED = {"type": "error", "error": {"type": "invalid_request_error", "message": "secret"}}
LINES = [
    line(0, "succeeded", message=MESSAGE),
    line(1, "errored", error=REFUSED),
    line(2, "expired"),
    line(3, "canceled"),
    line(4, "succeeded", message=MESSAGE | {"id": "msg_2"}).rstrip(),
]


@pytest.fixture(autouse=True)
def _no_batch_was_seen(nothing_fails_inside: None) -> None:
    """Lines that another test has read count again."""
    _batches._seen.clear()


def replies(server: ModelServer) -> list[Reply]:
    """What looking after a batch and reading its results are answered with."""
    root = server.url.removesuffix("/v1")
    batch = {
        "id": "b",
        "type": "message_batch",
        "processing_status": "ended",
        "results_url": f"{root}/v1/messages/batches/b/results",
    }
    pieces = b"".join(LINES)
    cut = [pieces[at : at + 100] for at in range(0, len(pieces), 100)]
    results = Reply(cut, headers={"content-type": "application/x-jsonl"}, framing="chunked")
    return [Reply.json(batch), results, Reply.json(batch), results]


def test_results_are_calls(server: ModelServer, captured: Captured) -> None:
    """Answered and refused requests are, expired and cancelled ones are not; reading again adds nothing."""
    server.replies = replies(server)
    root = server.url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=root, api_key="x", max_retries=0) as to, agentprof.task("t") as task:
        assert [one.result.type for one in to.messages.batches.results("b")] == [
            "succeeded",
            "errored",
            "expired",
            "canceled",
            "succeeded",
        ]
        assert len(list(to.messages.batches.results("b"))) == len(LINES)
    calls = captured.named("chat")
    said = [dict(span.attributes or {}) for span in calls]
    assert [one.get(attributes.RESPONSE_ID) for one in said] == ["msg_1", None, "msg_2"]
    assert [one.get(attributes.INPUT_TOKENS) for one in said] == [2130, None, 2130]
    assert [one[attributes.SERVICE_TIER] for one in said] == ["batch"] * 3
    assert calls[1].status.status_code is StatusCode.ERROR
    assert not any("secret" in str(value) for one in said for value in one.values())
    summary = task.summary().to_dict()
    assert summary["calls"] == 3
    usd = 100 * Decimal(1) + 2000 * Decimal("0.05") + 10 * Decimal("1.25") + 20 * Decimal(2) + 60 * Decimal(5)
    assert Decimal(summary["cost_usd"]) == 2 * usd / 10**6


def test_async_and_left_early(server: ModelServer, captured: Captured) -> None:
    """Lines are calls as they are read; those of a stream that is left are not, until somebody reads them."""
    server.replies = replies(server)

    async def run() -> None:
        async with anthropic.AsyncAnthropic(
            base_url=server.url.removesuffix("/v1"), api_key="x", max_retries=0
        ) as to:
            async for _ in await to.messages.batches.results("b"):
                break
            assert len([one async for one in await to.messages.batches.results("b")]) == len(LINES)

    asyncio.run(run())
    assert len(captured.named("chat")) == 3
