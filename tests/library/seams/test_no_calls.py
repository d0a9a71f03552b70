"""Requests to hosts of models that docs/supported.md says are no calls."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.model_server import ModelServer, Reply

import agentprof
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

RERANKING = {"query": "which?", "documents": ["this", "that"]}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a conversation": ("/v1/conversations", {"model": "m", "inputs": "Hi"}),
    "a conversation of an agent, streamed": (
        "/v1/conversations",
        {"agent_id": "a", "inputs": "Hi", "stream": True},
    ),
    "one that goes on": ("/v1/conversations/conv_1", {"inputs": "Hi"}),
    "one that begins anew": ("/v1/conversations/conv_1/restart", {"inputs": "Hi", "from_entry_id": "e"}),
    "reranking": ("/v2/rerank", {"model": "rerank-v3.5"} | RERANKING),
    "reranking, invoked": ("/model/cohere.rerank-v3-5:0/invoke", {"api_version": 2} | RERANKING),
    "reranking by an agent's runtime": ("/rerank", {"queries": [], "sources": []}),
    "an image": ("/model/amazon.titan-image-generator-v2:0/invoke", {"taskType": "TEXT_IMAGE"}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_they_have_no_span(name: str, captured: Captured) -> None:
    """Nor a count in the task; what goes out and comes back is the program's."""
    path, body = REQUESTS[name]
    with ModelServer() as server:
        server.replies = [Reply.json({"usage": {"prompt_tokens": 7, "completion_tokens": 1}})]
        with agentprof.task("t") as task:
            answer = httpx.post(server.url.removesuffix("/v1") + path, json=body)
        (sent,) = server.sent
    assert sent.json == body
    assert "traceparent" not in sent.headers
    assert "baggage" not in sent.headers
    assert answer.json()["usage"]["prompt_tokens"] == 7
    assert [span.name for span in captured.spans] == ["t"]
    assert task.summary().calls == 0
