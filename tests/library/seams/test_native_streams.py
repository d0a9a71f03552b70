"""Streams that are no server-sent events, over each HTTP library: times, how they ended, what the program gets."""

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
from support.model_server import ModelServer, Reply
from support.timed_calls import EARLY

from agentprof import attributes as a
from agentprof.testing import Captured


def line(**fields: Any) -> bytes:
    """A line of a stream of Ollama."""
    return json.dumps({"model": "m", "done": False} | fields).encode() + b"\n"


OLLAMA = [
    line(message={"role": "assistant", "content": ""}),
    line(message={"content": "", "thinking": "hm"}),
    line(message={"content": "Hel"}),
    line(message={"content": "lo."}),
    line(
        message={"content": ""},
        done=True,
        done_reason="stop",
        load_duration=1000,
        prompt_eval_count=4,
        prompt_eval_duration=2000,
        eval_count=2,
        eval_duration=3000,
    ),
]


def item(text: str, thought: bool = False, **fields: Any) -> dict[str, Any]:
    """An item of a stream of Gemini."""
    part = {"text": text, "thought": thought}
    return {"candidates": [{"content": {"parts": [part]}, **fields}], "modelVersion": "gemini-2.5-flash"}


_ITEMS = [item("hm", thought=True), item("Hel"), item("lo."), item("", finishReason="STOP")]
_ITEMS[-1]["usageMetadata"] = {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6}
GEMINI = [
    b"[",
    *[json.dumps(one, indent=1).encode() + b"," for one in _ITEMS[:-1]],
    json.dumps(_ITEMS[-1]).encode(),
]
GEMINI.append(b"]")

STREAMS: dict[str, tuple[str, dict[str, Any], list[bytes]]] = {
    "ollama": ("/api/chat", {"model": "m", "messages": []}, OLLAMA),
    "gemini": ("/v1beta/models/gemini-2.5-flash:streamGenerateContent", {"contents": []}, GEMINI),
}
Drive = Callable[[str, bytes, int | None], bytes]


def _collected(chunks: Iterator[bytes], take: int | None) -> bytes:
    got = b""
    for number, chunk in enumerate(chunks, 1):
        got += chunk
        if number == take:
            break
    return got


def _with_httpx(url: str, body: bytes, take: int | None) -> bytes:
    with httpx.Client() as client, client.stream("POST", url, content=body) as answer:
        return _collected(answer.iter_raw(), take)


def _with_httpx2(url: str, body: bytes, take: int | None) -> bytes:
    with httpx2.Client() as client, client.stream("POST", url, content=body) as answer:
        return _collected(answer.iter_raw(), take)


def _with_requests(url: str, body: bytes, take: int | None) -> bytes:
    with requests.post(url, data=body, stream=True, timeout=5) as answer:
        return _collected(answer.iter_content(None), take)


def _with_aiohttp(url: str, body: bytes, take: int | None) -> bytes:
    async def go() -> bytes:
        got = b""
        # In small letters, as some SDKs give it.
        async with aiohttp.ClientSession() as session, session.request("post", url, data=body) as answer:
            number = 0
            async for chunk in answer.content.iter_any():
                got += chunk
                number += 1
                if number == take:
                    break
        return got

    return asyncio.run(go())


DRIVES: dict[str, Drive] = {
    "httpx": _with_httpx,
    "httpx2": _with_httpx2,
    "requests": _with_requests,
    "aiohttp": _with_aiohttp,
}


@pytest.mark.parametrize("library", DRIVES)
@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_read_to_its_end(server: ModelServer, captured: Captured, api: str, library: str) -> None:
    """The bytes are the program's; the span has when the first token and the first content came."""
    path, body, pieces = STREAMS[api]
    paused = [part for piece in pieces for part in (piece, EARLY)]
    server.replies = [Reply(paused, framing="chunked")]
    got = DRIVES[library](server.url + path, json.dumps(body).encode(), None)
    assert got == b"".join(pieces)
    assert server.sent[0].json == body
    (span,) = captured.spans
    said: Any = span.attributes
    assert (said[a.INPUT_TOKENS], said[a.OUTPUT_TOKENS]) == (4, 2)
    assert said[a.STREAM_END] == "complete"
    assert said[a.FINISH_REASONS] == (("stop",) if api == "ollama" else ("STOP",))
    assert said[a.REQUEST_STREAM] is True
    assert 0 < said[a.TIME_TO_FIRST_CHUNK] < said[a.FIRST_TOKEN] < said[a.FIRST_CONTENT]
    assert said[a.FIRST_CONTENT] - said[a.FIRST_TOKEN] > 0.01
    if api == "ollama":
        times = {name: said[a.PHASE + name] for name in ("queue", "prefill", "generation")}
        assert times == {"queue": 1e-6, "prefill": 2e-6, "generation": 3e-6}
        assert said[a.PROVIDER] == "ollama"
        assert said[a.PHASE_FIELD + "queue"] == "load_duration"
    else:
        assert said[a.REQUEST_MODEL] == "gemini-2.5-flash"


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests"])
@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_that_is_left(server: ModelServer, captured: Captured, api: str, library: str) -> None:
    """Says so, and has no usage that was not reported."""
    path, body, pieces = STREAMS[api]
    gate = threading.Event()

    def told() -> Iterator[bytes]:
        yield b"".join(pieces[:4])
        gate.wait(30)

    server.replies = [Reply(told(), framing="chunked")]
    DRIVES[library](server.url + path, json.dumps(body).encode(), 1)
    gate.set()
    gc.collect()
    (span,) = captured.spans
    said: Any = span.attributes
    assert said[a.STREAM_END] == "abandoned"
    assert a.INPUT_TOKENS not in said
    assert said[a.FIRST_CONTENT] > 0


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_that_ends_early(server: ModelServer, captured: Captured, api: str) -> None:
    """Without its last part it is cut short, whatever the connection says."""
    path, body, pieces = STREAMS[api]
    server.replies = [Reply(pieces[:4], framing="chunked")]
    DRIVES["httpx2"](server.url + path, json.dumps(body).encode(), None)
    (span,) = captured.spans
    assert (span.attributes or {})[a.STREAM_END] == "truncated"


def test_a_whole_answer_has_no_first_token(server: ModelServer, captured: Captured) -> None:
    """One object that was not asked for as a stream is no stream of one line."""
    server.replies = [Reply(OLLAMA[-1], headers={"content-type": "application/json"})]
    body = {"model": "m", "messages": [], "stream": False}
    httpx2.post(f"{server.url}/api/chat", json=body)
    (span,) = captured.spans
    said: Any = span.attributes
    assert a.FIRST_TOKEN not in said
    assert a.STREAM_END not in said
    assert (said[a.INPUT_TOKENS], said[a.OUTPUT_TOKENS]) == (4, 2)
