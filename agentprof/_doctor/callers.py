"""One call of each SDK to an endpoint on this machine, and what that answers."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import Callable
from typing import Any, Final

MODEL: Final = "doctor"
INPUT_TOKENS: Final = 100
OUTPUT_TOKENS: Final = 6
_ANSWER: Final = {
    "id": "doctor-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": MODEL,
    "system_fingerprint": None,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Well."}}],
    "usage": {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    },
}
_MESSAGE: Final = {
    "id": "doctor-1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [{"type": "text", "text": "Well."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
}
"""What Anthropic would answer."""
_OLLAMA: Final = {
    "model": MODEL,
    "created_at": "2026-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": "Well."},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": INPUT_TOKENS,
    "eval_count": OUTPUT_TOKENS,
}
_GEMINI: Final = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Well."}]}, "finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": INPUT_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    },
    "modelVersion": MODEL,
}
_COHERE: Final = {
    "id": "doctor-1",
    "finish_reason": "COMPLETE",
    "message": {"role": "assistant", "content": [{"type": "text", "text": "Well."}]},
    "usage": {"tokens": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}},
}
_BEDROCK: Final = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Well."}]}},
    "stopReason": "end_turn",
    "usage": {
        "inputTokens": INPUT_TOKENS,
        "outputTokens": OUTPUT_TOKENS,
        "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS,
    },
    "metrics": {"latencyMs": 1},
}
_ANSWERS: Final = {
    "/messages": _MESSAGE,
    "/api/chat": _OLLAMA,
    ":generateContent": _GEMINI,
    "/v2/chat": _COHERE,
    "/converse": _BEDROCK,
}
"""By the end of the path; everything else gets a chat completion."""
_BODY: Final = {"model": MODEL, "messages": [{"role": "user", "content": "How are you?"}]}


def answer_at(path: str) -> bytes:
    """What the endpoint answers to a request on a path."""
    found = next((answer for end, answer in _ANSWERS.items() if path.endswith(end)), _ANSWER)
    return json.dumps(found).encode()


def _openai(url: str) -> Callable[[], Any]:
    client = importlib.import_module("openai").OpenAI(base_url=url, api_key="none", max_retries=0)
    return lambda: client.chat.completions.create(**_BODY)


def _anthropic(url: str) -> Callable[[], Any]:
    client = importlib.import_module("anthropic").Anthropic(
        base_url=url.removesuffix("/v1"), api_key="none", max_retries=0
    )
    return lambda: client.messages.create(**_BODY, max_tokens=OUTPUT_TOKENS)


def _sibling(module: str, name: str, **options: Any) -> Callable[[str], Callable[[], Any]]:
    """An SDK on the base client of openai that adds the whole path to the address itself."""

    def caller(url: str) -> Callable[[], Any]:
        client = getattr(importlib.import_module(module), name)(
            base_url=url.removesuffix("/v1"), api_key="none", max_retries=0, **options
        )
        chat = client.chat.chat if hasattr(client.chat, "chat") else client.chat.completions.create
        return lambda: chat(**_BODY)

    return caller


def _mistralai(url: str) -> Callable[[], Any]:
    try:
        module = importlib.import_module("mistralai.client")
        client = module.Mistral(api_key="none", server_url=url.removesuffix("/v1"))
    except (ImportError, AttributeError):
        client = importlib.import_module("mistralai").Mistral(
            api_key="none", server_url=url.removesuffix("/v1")
        )
    return lambda: client.chat.complete(**_BODY)


def _openrouter(url: str) -> Callable[[], Any]:
    client = importlib.import_module("openrouter").OpenRouter(api_key="none", server_url=url)
    return lambda: client.chat.send(**_BODY)


def _ollama(url: str) -> Callable[[], Any]:
    client = importlib.import_module("ollama").Client(host=url.removesuffix("/v1"))
    return lambda: client.chat(**_BODY)


def _cohere(url: str) -> Callable[[], Any]:
    client = importlib.import_module("cohere").ClientV2("none", base_url=url.removesuffix("/v1"))
    return lambda: client.chat(**_BODY)


def _google(url: str) -> Callable[[], Any]:
    client = importlib.import_module("google.genai").Client(
        api_key="none", http_options={"base_url": url.removesuffix("/v1")}
    )
    # The whole answer has the date among the headers it keeps.
    return lambda: client.models.generate_content(model=MODEL, contents="How are you?").candidates


def _boto3(url: str) -> Callable[[], Any]:
    client = importlib.import_module("boto3").client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url.removesuffix("/v1"),
        aws_access_key_id="none",
        aws_secret_access_key="none",
    )
    asked = [{"role": "user", "content": [{"text": "How are you?"}]}]
    return lambda: client.converse(modelId=MODEL, messages=asked)["output"]


def _litellm(url: str) -> Callable[[], Any]:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it would fetch a list of prices
    completion = importlib.import_module("litellm").completion
    # The whole answer has how long it took among the fields it hides.
    return lambda: (
        completion(
            model=f"openai/{MODEL}", messages=_BODY["messages"], api_base=url, api_key="none", max_retries=0
        )
        .choices[0]
        .message.content
    )


def _httpx(name: str) -> Callable[[str], Callable[[], Any]]:
    def caller(url: str) -> Callable[[], Any]:
        client = importlib.import_module(name).Client(trust_env=False)
        return lambda: client.post(f"{url}/chat/completions", json=_BODY).json()

    return caller


def _requests(url: str) -> Callable[[], Any]:
    session = importlib.import_module("requests").Session()
    session.trust_env = False
    return lambda: session.post(f"{url}/chat/completions", json=_BODY).json()


def _aiohttp(url: str) -> Callable[[], Any]:
    aiohttp = importlib.import_module("aiohttp")

    async def call() -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/chat/completions", json=_BODY) as response,
        ):
            return await response.json()

    return lambda: asyncio.run(call())


CALLERS: Final[dict[str, Callable[[str], Callable[[], Any]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "groq": _sibling("groq", "Groq"),
    "cerebras": _sibling("cerebras.cloud.sdk", "Cerebras", warm_tcp_connection=False),
    "together": _sibling("together", "Together"),
    "fireworks": _sibling("fireworks", "Fireworks"),
    "perplexity": _sibling("perplexity", "Perplexity"),
    "sambanova": _sibling("sambanova", "SambaNova"),
    "writerai": _sibling("writerai", "Writer"),
    "mistralai": _mistralai,
    "openrouter": _openrouter,
    "ollama": _ollama,
    "cohere": _cohere,
    "google.genai": _google,
    "boto3": _boto3,
    "litellm": _litellm,
    "httpx": _httpx("httpx"),
    "httpx2": _httpx("httpx2"),
    "requests": _requests,
    "aiohttp": _aiohttp,
}
"""By package: what makes a call from the address of an endpoint."""
