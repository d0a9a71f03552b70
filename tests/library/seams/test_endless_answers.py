"""Answers that say far too much of themselves: a span keeps what counts, in a size that can be kept and sent."""

import json
from typing import Any

import httpx2
import pytest
from support.model_server import CHAT, ModelServer, Reply

import agentprof
from agentprof import attributes as a
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

LONG = "w " * 100_000
MANY = 50_000
CHARS, ENTRIES, ATTRIBUTES = 1024, 128, 128


def chat(**fields: Any) -> dict[str, Any]:
    return CHAT | fields


def choice(finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": finish}


def tool(id: str, name: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


OPENAI = "/v1/chat/completions"
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "id": (OPENAI, chat(id=LONG)),
    "model": (OPENAI, chat(model=LONG)),
    "service tier": (OPENAI, chat(service_tier=LONG)),
    "finish reason": (OPENAI, chat(choices=[choice(LONG)])),
    "choices": (OPENAI, chat(choices=[choice() | {"index": place} for place in range(MANY)])),
    "tool": (OPENAI, chat(choices=[choice(tool_calls=[tool(LONG, LONG)])])),
    "tools": (OPENAI, chat(choices=[choice(tool_calls=[tool(str(n), f"t{n}") for n in range(MANY)])])),
    "tools at the provider": (
        OPENAI,
        chat(usage=CHAT["usage"] | {"server_tool_use": {f"kind{n}{LONG[:100]}": 1 for n in range(MANY)}}),
    ),
    "a tool at the provider": (OPENAI, chat(usage=CHAT["usage"] | {"server_tool_use": {LONG: 1}})),
    "error": (OPENAI, chat(error={"type": LONG, "code": LONG, "message": LONG})),
    "times": (OPENAI, chat(timings={LONG: 1, "prompt_ms": LONG}, metrics={LONG: 1, "queue_time_ms": LONG})),
    "messages": (
        "/v1/messages",
        {
            "type": "message",
            "id": LONG,
            "model": LONG,
            "content": [{"type": "tool_use", "id": LONG, "name": LONG, "input": {}}],
            "stop_reason": LONG,
            "usage": {
                "input_tokens": 1,
                "output_tokens": 1,
                "service_tier": LONG,
                "server_tool_use": {LONG: 1},
            },
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "id": LONG,
            "model": LONG,
            "status": LONG,
            "service_tier": LONG,
            "output": [{"type": LONG}, {"type": "function_call", "name": LONG, "call_id": LONG}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    ),
    "Gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        {
            "responseId": LONG,
            "modelVersion": LONG,
            "candidates": [{"finishReason": LONG, "content": {"parts": [{"functionCall": {"name": LONG}}]}}],
        },
    ),
    "Ollama": (
        "/api/chat",
        {
            "model": LONG,
            "done": True,
            "done_reason": LONG,
            "message": {"tool_calls": [{"function": {"name": LONG}}]},
        },
    ),
    "Cohere": (
        "/v2/chat",
        {
            "id": LONG,
            "finish_reason": LONG,
            "message": {"tool_calls": [tool(LONG, LONG)]},
            "usage": {"tokens": {"input_tokens": 1, "output_tokens": 1}},
        },
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_span_has_a_bounded_size(name: str, server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    """No text, list or number of attributes grows with the answer, and none pushes out what the call is known by."""
    path, answer = ANSWERS[name]
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    asked |= {"input": "hi", "contents": [{}]}
    body = json.dumps(answer).encode()
    server.replies = [Reply(body, headers={"content-type": "application/json"})]
    with capture() as captured, agentprof.task("t") as task:
        got = httpx2.post(f"{server.url}{path}", json=asked, timeout=60)
    (span,) = (span for span in captured.spans if a.OPERATION in (span.attributes or {}))
    said = dict(span.attributes or {})
    assert got.content == body
    assert len(said) <= ATTRIBUTES
    assert (said[a.TASK_ID], said[a.ATTEMPTS]) == (task.id, 1)
    assert said[a.SERVER_ADDRESS] == "127.0.0.1"
    for key, value in said.items():
        assert len(key) <= CHARS + len(a.SERVER_TOOLS), key
        assert not isinstance(value, str) or len(value) <= CHARS, key
        if isinstance(value, tuple):
            assert len(value) <= ENTRIES, key
            assert all(not isinstance(entry, str) or len(entry) <= CHARS for entry in value), key
    assert caplog.records == []
