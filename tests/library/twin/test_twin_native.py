"""The SDKs of Google and Ollama, which go out through plain HTTP clients: the program and the server see the same."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from support.alike import differences
from support.model_server import ModelServer, Reply

from agentprof import _guard
from agentprof.testing import capture

_GEMINI = {
    "candidates": [{"content": {"parts": [{"text": "Hello."}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6},
    "modelVersion": "gemini-2.5-flash",
    "responseId": "r",
}
_OLLAMA = {
    "model": "m",
    "created_at": "2026-11-01T00:00:00Z",
    "message": {"role": "assistant", "content": "Hello."},
    "done": True,
    "done_reason": "stop",
    "eval_count": 2,
    "prompt_eval_count": 4,
}
_PIECES = {
    "google.genai": [f"data: {json.dumps(_GEMINI)}\r\n\r\n".encode()] * 4,
    "ollama": [json.dumps(_OLLAMA | {"done": last}).encode() + b"\n" for last in (False, False, False, True)],
}
_WHOLE = {"google.genai": _GEMINI, "ollama": _OLLAMA}
_REFUSAL = {"google.genai": {"error": {"code": 429, "message": "slow", "status": "EXHAUSTED"}}}
OUTCOMES = ("good", "refused", "no JSON", "cut", "left")


def reply(sdk: str, outcome: str, stream: bool) -> Reply:
    """What the server answers."""
    if outcome == "refused":
        return Reply.json(_REFUSAL.get(sdk, {"error": "slow"}), 429)
    if outcome == "no JSON":
        return Reply(b"<html>", headers={"content-type": "application/json"})
    if stream:
        return Reply.stream(_PIECES[sdk], framing="cut" if outcome == "cut" else "chunked")
    return Reply.json(_WHOLE[sdk])


def made(sdk: str, url: str, is_async: bool, stream: bool) -> tuple[Any, Callable[[], Any]]:
    """A client, which must be held, and the call."""
    module = import_module(sdk)
    if sdk == "ollama":
        client = (module.AsyncClient if is_async else module.Client)(host=url)
        return client, lambda: client.chat(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=stream
        )
    client = module.Client(api_key="none", http_options={"base_url": url})
    models = client.aio.models if is_async else client.models
    method = models.generate_content_stream if stream else models.generate_content
    return client, lambda: method(model="gemini-2.5-flash", contents="Hi")


def trial(server: ModelServer, sdk: str, outcome: str, is_async: bool, stream: bool) -> list[Any]:
    """What the program sees of one call: what it gets, in order, and what is raised."""
    server.replies, server.sent = [reply(sdk, outcome, stream)], []
    seen: list[Any] = []
    holder, call = made(sdk, server.url, is_async, stream)
    try:
        if is_async:
            asyncio.run(_take_async(call, outcome, stream, seen))
        else:
            _take(call(), outcome, stream, seen)
    except Exception as error:  # noqa: BLE001
        seen.append((type(error), str(error)))
    del holder
    return seen


def _take(result: Any, outcome: str, stream: bool, seen: list[Any]) -> None:
    seen.append(result if not isinstance(result, Iterator) else type(result))
    for number, chunk in enumerate(result if stream else ()):
        seen.append(chunk)
        if number and outcome == "left":
            result.close()
            return


async def _take_async(call: Callable[[], Any], outcome: str, stream: bool, seen: list[Any]) -> None:
    result = await call()
    seen.append(result if not isinstance(result, AsyncIterator) else type(result))
    if not stream:
        return
    number = 0
    async for chunk in result:
        seen.append(chunk)
        number += 1
        if number == 2 and outcome == "left":
            await result.aclose()
            return


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("sdk", ["google.genai", "ollama"])
def test_twins_see_the_same(sdk: str, outcome: str, is_async: bool, stream: bool) -> None:
    """Types, values, chunks and errors; the bytes and headers that go out, but for `traceparent`."""
    pytest.importorskip(sdk, reason="the SDK is not installed")
    failures = _guard.counts()
    with ModelServer() as server:
        bare = trial(server, sdk, outcome, is_async, stream)
        sent_bare = server.sent
        with capture() as captured:
            traced = trial(server, sdk, outcome, is_async, stream)
            gc.collect()
        sent = server.sent
    assert [one for one in differences(bare, traced) if ".date: " not in one.lower()] == []
    assert [(one.path, one.body) for one in sent] == [(one.path, one.body) for one in sent_bare]
    assert _rest(sent) == _rest(sent_bare)
    assert all("traceparent" in one.headers for one in sent)
    assert len(captured.spans) == len(sent)
    assert _guard.counts() == failures


def _rest(sent: list[Any]) -> list[list[tuple[str, str]]]:
    return [[pair for pair in one.head if pair[0].lower() != "traceparent"] for one in sent]
