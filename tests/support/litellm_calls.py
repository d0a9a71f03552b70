"""Calls through LiteLLM to several providers, each with what the server answers: by its own HTTP paths and by SDKs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Coroutine
from importlib import import_module
from typing import Any

from support import anthropic_wire as wire
from support.model_server import CHAT, STREAM, Reply

MESSAGES = [{"role": "user", "content": "Hi"}]
_USAGE = wire.USAGE | {"input_tokens": 100, "output_tokens": 6}
_USAGE |= {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
_ANTHROPIC = wire.MESSAGE | {"content": [wire.TEXT], "stop_reason": "end_turn", "usage": _USAGE}
_ANTHROPIC_EVENTS = [
    wire.event("message_start", message=_ANTHROPIC | {"content": [], "stop_reason": None, "usage": _USAGE}),
    *wire.SAYING,
    wire.event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 6}),
    wire.event("message_stop"),
]
_GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Hello."}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 6, "totalTokenCount": 106},
}
_BEDROCK = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 100, "outputTokens": 6, "totalTokens": 106},
    "metrics": {"latencyMs": 1},
}
_OLLAMA = {
    "model": "m",
    "created_at": "2026-11-01T00:00:00Z",
    "message": {"role": "assistant", "content": "Hello."},
    "done": True,
    "done_reason": "stop",
    "eval_count": 6,
    "prompt_eval_count": 100,
}
WHOLE: dict[str, Any] = {
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "bedrock": _BEDROCK,
    "ollama": _OLLAMA,
    "openai": CHAT,
}
STREAMED: dict[str, list[bytes]] = {
    "anthropic": _ANTHROPIC_EVENTS,
    "gemini": [f"data: {json.dumps(_GEMINI)}\r\n\r\n".encode()] * 3,
    "ollama": [json.dumps(_OLLAMA | {"done": last}).encode() + b"\n" for last in (False, False, True)],
    "openai": STREAM,
}
MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "bedrock": "bedrock/converse/amazon.nova-micro-v1:0",
    "ollama": "ollama_chat/llama3",
    "openai": "openai/gpt-4o-mini",
}


def library() -> Any:
    """LiteLLM, which asks nobody for its list of prices."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    module = import_module("litellm")
    module.suppress_debug_info = True
    return module


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Like `asyncio.run`; what the library keeps open for later is closed with the loop, where it makes it anew."""
    handler = import_module("litellm.llms.custom_httpx.http_handler").AsyncHTTPHandler

    async def run_and_close() -> Any:
        try:
            return await work
        finally:
            if isinstance(vars(handler).get("client"), property):
                await library().close_litellm_async_clients()

    return asyncio.run(run_and_close())


def arguments(provider: str, url: str) -> dict[str, Any]:
    """A call to this server."""
    asked = {"model": MODELS[provider], "api_base": url, "api_key": "secret-key", "messages": list(MESSAGES)}
    if provider == "gemini":  # older versions add no path of their own
        asked["api_base"] += "/models/gemini-2.5-flash"
    if provider == "bedrock":
        del asked["api_base"], asked["api_key"]
        asked |= {
            "aws_bedrock_runtime_endpoint": url,
            "aws_access_key_id": "none",
            "aws_secret_access_key": "none",
            "aws_region_name": "us-east-1",
        }
    return asked


def good(provider: str, stream: bool, framing: str = "chunked") -> Reply:
    """What the provider answers."""
    if stream:
        pieces = STREAMED[provider]
        sent = pieces[: 4 if provider == "anthropic" else 2] if framing == "cut" else pieces
        return Reply.stream(sent, framing=framing)
    return Reply.json(WHOLE[provider])
