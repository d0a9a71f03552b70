"""Result files of batches: a line is a call with the usage it reports, once a process, priced as of a batch."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import openai
import pytest
from opentelemetry.trace import StatusCode
from support.model_server import CHAT, ModelServer, Reply
from support.sdk_styles import RESPONSE

import agentprof
from agentprof import _batches, attributes
from agentprof.testing import Captured, capture

REFUSED = {"error": {"message": "secret", "type": "invalid_request_error", "code": "invalid_value"}}
EMBEDDINGS = {
    "object": "list",
    "data": [{"object": "embedding", "embedding": [0.5]}],
    "model": "text-embedding-3-small",
    "usage": {"prompt_tokens": 8, "total_tokens": 8},
}


@pytest.fixture(autouse=True)
def _no_batch_was_seen(nothing_fails_inside: None) -> None:
    """Lines that another test has read count again."""
    _batches._seen.clear()


def client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)


def line(body: Any, status: int = 200, number: int = 0) -> bytes:
    result = {
        "id": f"batch_req_{number}",
        "custom_id": f"secret-{number}",
        "response": {"status_code": status, "request_id": "req", "body": body},
        "error": None,
    }
    return json.dumps(result).encode() + b"\n"


EXPIRED = json.dumps(
    {"id": "b", "custom_id": "secret", "response": None, "error": {"code": "batch_expired", "message": "x"}}
).encode()


def content(server: ModelServer, lines: bytes, file: str = "file-out") -> bytes:
    server.replies = [Reply(lines, headers={"content-type": "application/jsonl"})]
    with client(server) as to:
        return to.files.content(file).read()


def test_lines_of_every_endpoint(server: ModelServer, captured: Captured) -> None:
    """Each with its own operation and usage; the file comes as it is, and nothing of its content is recorded."""
    completion = CHAT | {
        "object": "text_completion",
        "choices": [{"text": "secret", "finish_reason": "stop"}],
    }
    moderation = {"id": "modr-1", "model": "omni", "results": [{"flagged": False}]}
    lines = b"".join(map(line, (CHAT, RESPONSE, EMBEDDINGS, completion, moderation)))
    assert content(server, lines) == lines
    said = [dict(span.attributes or {}) for span in captured.spans]
    assert [one[attributes.OPERATION] for one in said] == [
        "chat",
        "chat",
        "embeddings",
        "text_completion",
        "moderation",
    ]
    assert said[0][attributes.REQUEST_MODEL] == CHAT["model"]
    assert said[0][attributes.FINISH_REASONS] == ("stop",)
    assert [one.get(attributes.INPUT_TOKENS) for one in said] == [
        100,
        RESPONSE["usage"]["input_tokens"],
        8,
        100,
        None,
    ]
    assert {one[attributes.SERVICE_TIER] for one in said} == {"batch"}
    assert {one[attributes.SERVER_ADDRESS] for one in said} == {"127.0.0.1"}
    for span in captured.spans:
        assert span.start_time == span.end_time
        assert "secret" not in span.to_json()
        assert attributes.FIRST_TOKEN not in (span.attributes or {})


def test_read_again(server: ModelServer, captured: Captured) -> None:
    """A file counts once; one that has grown counts its new lines; another file is another one."""
    content(server, line(CHAT))
    content(server, line(CHAT))
    assert len(captured.spans) == 1
    content(server, line(CHAT) + line(CHAT, number=1))
    assert len(captured.spans) == 2
    content(server, line(CHAT), "file-other")
    assert len(captured.spans) == 3


def test_async(server: ModelServer, captured: Captured) -> None:
    """In the same way."""

    async def run() -> bytes:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="x") as to:
            return (await to.files.content("file-out")).content

    server.replies = [Reply(line(CHAT))]
    assert asyncio.run(run()) == line(CHAT)
    assert [(span.attributes or {})[attributes.OUTPUT_TOKENS] for span in captured.spans] == [6]


def test_refused_and_expired_lines(server: ModelServer, captured: Captured) -> None:
    """A refused request is a failed call; one that never reached a model is none."""
    content(server, EXPIRED + b"\n" + line(REFUSED, 400) + EXPIRED, "file-errors")
    (span,) = captured.spans
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})[attributes.ERROR_TYPE] == "400"


@pytest.mark.parametrize(
    "other",
    [
        b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}\n',
        b'{"messages": [{"role": "user", "content": "x"}]}\n',
        b"\x89PNG\r\n",
        b"[1]",
        b"",
        b"not json",
    ],
)
def test_other_files(server: ModelServer, captured: Captured, other: bytes) -> None:
    """Requests of a batch, training data and whatever else is stored are no calls."""
    assert content(server, other) == other
    assert captured.spans == []


def test_lines_that_are_damaged(server: ModelServer, captured: Captured) -> None:
    """Cost themselves."""
    content(
        server, line(CHAT) + b'{"custom_id": "x", "respo\n\n' + line("text", number=1) + line(CHAT, number=2)
    )
    assert [(span.attributes or {}).get(attributes.OUTPUT_TOKENS) for span in captured.spans] == [6, None, 6]


def test_what_looks_after_a_batch_is_no_call(server: ModelServer, captured: Captured) -> None:
    """Nor is a file that is not there."""
    server.replies = [Reply.json({"error": {"message": "no such file"}}, 404)]
    with client(server) as to, pytest.raises(openai.NotFoundError):
        to.files.content("file-out")
    server.replies = [Reply.json({"id": "file-out", "object": "file"})]
    with client(server) as to:
        to.files.retrieve("file-out")
    assert captured.spans == []


def test_the_cost_of_a_task_that_reads_results(server: ModelServer) -> None:
    """Half the price of the same call made at once; no time of the task is theirs."""
    server.replies = [Reply.json(CHAT)]
    with capture():
        with client(server) as to, agentprof.task("at once") as at_once:
            to.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "x"}])
        with agentprof.task("batch") as batch:
            content(server, line(CHAT) + line(CHAT, number=1) + line(REFUSED, 400, number=2))
        with agentprof.task("no price") as unpriced:
            content(server, line(EMBEDDINGS), "file-embeddings")
        dear, cheap, unknown = at_once.summary(), batch.summary(), unpriced.summary()
    assert dear.cost_usd == Decimal("0.0000186")
    assert (cheap.calls, cheap.cost_usd, cheap.cost_complete) == (3, dear.cost_usd, True)
    assert (cheap.errors["call"], cheap.calls_without_attempts) == (1, 3)
    assert cheap.timeline_ns["model"] == 0
    assert sum(cheap.timeline_ns.values()) == cheap.wall_ns
    assert cheap.warnings == []
    assert (unknown.cost_usd, unknown.unpriced["unknown_model"]) == (None, 1)


def test_a_file_that_is_streamed(server: ModelServer, captured: Captured) -> None:
    """To the program is not read by us."""
    server.replies = [Reply(line(CHAT))]
    with client(server) as to, to.files.with_streaming_response.content("file-out") as response:
        assert b"".join(response.iter_bytes()) == line(CHAT)
    assert captured.spans == []
