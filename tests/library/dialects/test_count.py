"""Counts that no answer can have, in every format: they are unknown, and the rest of the answer is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentprof.dialects import Answer, dialect_of
from agentprof.model import Usage

BODIES: dict[str, tuple[str, dict[str, Any], dict[str, int | None]]] = {
    "openai": (
        "/chat/completions",
        {"usage": {"prompt_tokens": "?", "completion_tokens": 3}},
        {"output": 3},
    ),
    "openai cached": (
        "/chat/completions",
        {
            "usage": {
                "prompt_tokens": 7,
                "completion_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": "?", "audio_tokens": 2},
            }
        },
        {"input": 7, "output": 3},
    ),
    "responses": ("/responses", {"usage": {"input_tokens": 7, "output_tokens": "?"}}, {"input": 7}),
    "anthropic": (
        "/v1/messages",
        {"usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": "?"}},
        {"input": 7, "output": 3},
    ),
    "gemini": (
        ":generateContent",
        {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": "?"}},
        {"input": 7, "output": 3},
    ),
    "interactions": (
        "/interactions",
        {"usage": {"total_input_tokens": 7, "total_output_tokens": 3, "total_thought_tokens": "?"}},
        {"input": 7, "output": 3},
    ),
    "ollama": ("/api/chat", {"prompt_eval_count": "?", "eval_count": 3}, {"output": 3}),
    "cohere": ("/v2/chat", {"usage": {"tokens": {"input_tokens": 7, "output_tokens": "?"}}}, {"input": 7}),
    "bedrock": ("/converse", {"usage": {"inputTokens": 7, "outputTokens": "?"}}, {"input": 7}),
    "llama.cpp": (
        "/completion",
        {"stop": True, "tokens_evaluated": "?", "tokens_predicted": 3},
        {"output": 3},
    ),
    "sglang": ("/generate", {"meta_info": {"prompt_tokens": 7, "completion_tokens": "?"}}, {"input": 7}),
}


def read(path: str, body: dict[str, Any], value: Any) -> Answer:
    """The answer of a whole body with this value in it."""
    dialect = dialect_of(path)
    assert dialect is not None
    answer = Answer()
    dialect.read_body(json.dumps(body).replace('"?"', json.dumps(value)).encode(), answer)
    return answer


@pytest.mark.parametrize("value", [-1, 10**16, 2**64, 10**40, 1e300])
@pytest.mark.parametrize("name", BODIES)
def test_a_count_that_cannot_be_is_unknown(name: str, value: Any) -> None:
    """It is in no sum."""
    path, body, expected = BODIES[name]
    usage = read(path, body, value).usage
    assert usage is not None
    found = {field: getattr(usage, field) for field in ("input", "output", "cache_read", "reasoning")}
    assert found == dict.fromkeys(found) | expected


@pytest.mark.parametrize("name", BODIES)
def test_a_count_that_can_be_is_known(name: str) -> None:
    """The same body with a number in its place."""
    path, body, expected = BODIES[name]
    usage = read(path, body, 2).usage
    assert usage is not None
    assert usage != Usage(**expected)


@pytest.mark.parametrize("value", [-1, 0, 10**40, True, "1", 1.5])
def test_uses_of_tools_that_cannot_be(value: Any) -> None:
    """They are no uses."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "server_tool_use": {"web_search_requests": value}}
    assert read("/chat/completions", {"usage": usage}, None).server_tools == {}
    usage = {"input_tokens": 7, "output_tokens": 3, "server_tool_use": {"web_search_requests": value}}
    assert read("/v1/messages", {"usage": usage}, None).server_tools == {}
