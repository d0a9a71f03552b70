"""Whatever fails inside agentprof: the program gets what it gets without us, values and exceptions."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import multiprocessing
import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import pytest
import requests
import urllib3
from opentelemetry import context as otel_context
from support.model_server import CHAT, STREAM, ModelServer, Reply

import agentprof
from agentprof import _arrivals, _calls, _connecting, _guard, attributes
from agentprof.seams import _mcp
from agentprof.testing import capture

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
REFUSED = Reply.json({"error": {"message": "slow"}}, 429, retry_after_ms="1")

Use = Callable[[str, bool], Any]
"""Posts to a URL, perhaps for a stream, and gives status and body, or what was raised."""


@pytest.fixture(autouse=True)
def _on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failures made here are not counted for other tests, and nobody waits long."""
    monkeypatch.setattr(_guard, "_counts", {})
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.001)


def of_httpx(library: Any) -> Use:
    """A client of httpx or httpx2."""

    def use(url: str, stream: bool) -> Any:
        body = BODY | {"stream": stream}
        with library.Client(verify=False) as client, client.stream("POST", url, json=body) as answer:
            return answer.status_code, answer.read()

    return use


def of_httpx_async(library: Any) -> Use:
    """The async one."""

    async def run(url: str, stream: bool) -> Any:
        async with library.AsyncClient(verify=False) as client:
            answer = await client.post(url, json=BODY | {"stream": stream})
            return answer.status_code, answer.content

    return lambda url, stream: asyncio.run(run(url, stream))


def of_requests(url: str, stream: bool) -> Any:
    """A session that tries a refusal once more."""
    retry = urllib3.Retry(1, status_forcelist=[429], allowed_methods=None, backoff_factor=0.001)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        answer = session.post(url, json=BODY | {"stream": stream}, stream=stream)
        return answer.status_code, b"".join(answer.iter_content(None))


def of_aiohttp(url: str, stream: bool) -> Any:
    """A session."""

    async def run() -> Any:
        async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as answer:
            return answer.status, await answer.read()

    return asyncio.run(run())


def of_openai(url: str, stream: bool) -> Any:
    """An SDK that tries once more."""
    base_url, http = url.removesuffix("/chat/completions"), openai.DefaultHttpxClient(verify=False)
    with openai.OpenAI(base_url=base_url, api_key="x", max_retries=1, http_client=http) as client:
        found: Any = client.chat.completions.create(**BODY, stream=stream)
        return [piece.model_dump() for piece in found] if stream else found.model_dump()


USES: dict[str, Use] = {
    "httpx": of_httpx(httpx),
    "httpx2": of_httpx(httpx2),
    "httpx async": of_httpx_async(httpx),
    "httpx2 async": of_httpx_async(httpx2),
    "requests": of_requests,
    "aiohttp": of_aiohttp,
    "openai": of_openai,
}
REPLIES: dict[str, list[Reply]] = {
    "whole": [Reply.json(CHAT)],
    "stream": [Reply.stream(STREAM)],
    "repeated": [REFUSED, Reply.json(CHAT)],
    "refused": [REFUSED],
    "cut": [Reply([b'{"id": '], headers={"content-type": "application/json"}, framing="cut")],
    "nobody": [],
}
OURS = (
    "__init__",
    "leave",
    "attempt",
    "attempt_failed",
    "pause_over",
    "exchange",
    "repeated",
    "connected",
    "headers_arrived",
    "arrivals",
    "answered",
    "answered_open",
    "returned",
    "failed",
    "_finish",
)
"""What of a call may raise."""


def outcome(use: Use, url: str, stream: bool) -> str:
    """What the program sees; in a context of its own, in which a call of ours may stay open."""

    def run() -> str:
        try:
            return repr(use(url, stream))
        except Exception as error:  # noqa: BLE001
            chain, raised = [], error
            while raised is not None:
                chain.append(type(raised).__qualname__)
                raised = raised.__cause__
            return " from ".join(chain)

    return contextvars.copy_context().run(run)


@pytest.mark.parametrize("name", USES)
def test_whatever_of_a_call_fails(monkeypatch: pytest.MonkeyPatch, server: ModelServer, name: str) -> None:
    """Answers, streams, refusals, retries, broken connections and none at all."""
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/chat/completions"
        for what, replies in REPLIES.items():
            url = server.url + "/chat/completions" if replies else nobody
            server.replies = list(replies)
            bare = outcome(USES[name], url, what == "stream")
            for method in OURS:
                server.replies = list(replies)
                with monkeypatch.context() as patching, capture():
                    patching.setattr(_calls.Call, method, _broken)
                    assert (method, what, outcome(USES[name], url, what == "stream")) == (method, what, bare)
    assert _guard.counts()


@pytest.mark.parametrize("part", ["say_answer", "say_times", "say_reported_times", "say_headers", "set_on"])
@pytest.mark.parametrize("name", USES)
def test_what_a_call_says_fails(
    monkeypatch: pytest.MonkeyPatch, server: ModelServer, name: str, part: str
) -> None:
    """Its span ends all the same, with what is known from its beginning."""
    monkeypatch.setattr(_calls, part, _broken)
    for what in ("whole", "stream", "repeated", "refused"):
        server.replies = list(REPLIES[what])
        with capture() as captured:
            outcome(USES[name], server.url + "/chat/completions", what == "stream")
        for span in captured.spans:
            assert (span.attributes or {})[attributes.REQUEST_MODEL] == "m"
            assert (span.end_time or 0) >= (span.start_time or 0) > 0
        assert captured.spans


def _broken(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError


def test_what_measures_connecting(monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> None:
    """The parts of a connection may be added up wrongly."""
    server.replies = [Reply.json(CHAT)]
    monkeypatch.setattr(_connecting.Connecting, "ns", property(_broken))
    with capture():
        for use in USES.values():
            assert "ZeroDivisionError" not in outcome(use, server.url + "/chat/completions", False)


@pytest.mark.parametrize("name", USES)
def test_the_end_of_a_body_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, server: ModelServer, name: str
) -> None:
    """The call is over all the same."""
    monkeypatch.setattr(_arrivals.Arrivals, "complete", _broken)
    server.replies = [Reply.stream(STREAM)]
    with capture() as captured:
        outcome(USES[name], server.url + "/chat/completions", True)
    assert len(captured.spans) == 1


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("damage", ["cut", "bent", "no gzip"])
def test_damaged_bodies(server: ModelServer, name: str, damage: str) -> None:
    """The program is told as without us, and nothing of it is a failure of ours."""
    packed = gzip.compress(b"".join(piece for piece in STREAM if isinstance(piece, bytes)))
    sent = {"cut": packed[:-12], "bent": packed[:40] + b"bent" + packed[44:], "no gzip": b"data: {}"}[damage]
    reply = Reply([sent], headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    server.replies = [reply]
    bare = outcome(USES[name], server.url + "/chat/completions", True)
    server.replies = [reply]
    with capture() as captured:
        assert outcome(USES[name], server.url + "/chat/completions", True) == bare
    assert _guard.counts() == {}
    assert len(captured.spans) == 1


class _Unspeakable(requests.ConnectionError):
    """Cannot be looked at."""

    @property
    def reason(self) -> Any:
        raise ZeroDivisionError

    status = reason

    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["requests", "aiohttp"])
def test_errors_that_cannot_be_looked_at(server: ModelServer, name: str) -> None:
    """The program gets the error that its own parts raise, and the call has ended with it."""
    thrown = _Unspeakable()

    class Adapter(requests.adapters.HTTPAdapter):
        def send(self, *args: Any, **kwargs: Any) -> Any:
            raise thrown

    class Session(requests.Session):
        def get_adapter(self, *args: Any, **kwargs: Any) -> Any:
            return Adapter()

    async def run() -> None:
        async def fail(*args: Any) -> None:
            raise thrown

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(fail)
        async with aiohttp.ClientSession(trace_configs=[trace]) as session:
            await session.post(server.url + "/chat/completions", json=BODY)

    def post() -> None:
        Session().post(server.url + "/chat/completions", json=BODY)

    with capture() as captured, pytest.raises(_Unspeakable) as raised:
        asyncio.run(run()) if name == "aiohttp" else post()
    assert raised.value is thrown
    assert [(span.attributes or {})[attributes.ERROR_TYPE] for span in captured.spans] == ["_Unspeakable"]


class _Opaque:
    """Work that says nothing of itself."""

    def __init__(self, done: list[int]) -> None:
        self._done = done

    def __call__(self) -> None:
        self._done.append(1)


type.__setattr__(_Opaque, "__module__", property(_broken))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_work_that_cannot_be_looked_at() -> None:
    """Threads and processes start with it all the same."""
    done: list[int] = []
    with capture(), agentprof.task("t"):
        thread = threading.Thread(target=_Opaque(done), name="opaque")
        thread.start()
        thread.join()
        process = multiprocessing.get_context("fork").Process(target=_Opaque(done))
        process.start()
        process.join()
    assert done == [1]
    assert process.exitcode == 0


def test_a_session_of_mcp_that_cannot_be_looked_at() -> None:
    """Its tool is called, and no context of ours stays behind."""

    class Odd:
        @property
        def _write_stream(self) -> Any:
            raise ZeroDivisionError

    async def original(self: Any, *args: Any, **kwargs: Any) -> Any:
        return "called"

    async def run() -> None:
        before = otel_context.get_current()
        assert await _mcp._call_tool(original)(Odd(), "add", {}) == "called"
        assert otel_context.get_current() is before

    with capture() as captured:
        asyncio.run(run())
    assert captured.spans == []
    assert _guard.counts() == {"a call of an MCP tool": 1}
