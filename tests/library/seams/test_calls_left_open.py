"""Calls that are still open when somebody looks, or that end in places nobody expects."""

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import pytest
import requests
from support.model_server import CHAT, STREAM, ModelServer, Reply

import agentprof
from agentprof import _counts, _guard, _instrument, _recent, attributes
from agentprof.seams import repeating
from agentprof.testing import Captured

MESSAGES: Any = [{"role": "user", "content": "hi"}]


def client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)


def opened(to: openai.OpenAI) -> Any:
    """A stream of which one chunk has been read."""
    stream = to.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)
    next(stream)
    return stream


def test_a_summary_inside_a_stream(server: ModelServer, captured: Captured) -> None:
    """An open call counts as open tools do: it is there, up to now, and its tokens are not known yet."""
    server.replies = [Reply.stream(STREAM)]
    with client(server) as to, agentprof.task("t") as task:
        stream = opened(to)
        inside = task.summary()
        assert len(list(stream)) > 0
        after = task.summary()
    assert (inside.calls, inside.calls_without_usage, inside.tokens["input"]) == (1, 1, None)
    assert 0 < inside.timeline_ns["model"] <= inside.wall_ns
    assert (after.calls, after.calls_without_usage, after.tokens["input"]) == (1, 0, 100)
    assert task.summary().calls == 1
    assert task._recorded.live == {}


WORKERS: dict[str, Callable[[str], Any]] = {
    "httpx": lambda url: _with_httpx(httpx, url),
    "httpx2": lambda url: _with_httpx(httpx2, url),
    "aiohttp": lambda url: _with_aiohttp(url),
    "requests": lambda url: asyncio.to_thread(requests.post, url, json=BODY),
    "an SDK that repeats": lambda url: _repeating(url),
}
BODY = {"model": "later", "messages": MESSAGES}


async def _with_httpx(library: Any, url: str) -> None:
    async with library.AsyncClient(verify=False) as to:
        await to.post(url, json=BODY)


async def _with_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as answer:
        await answer.read()


@repeating._repeats_async
async def _repeating(url: str) -> None:
    await _with_httpx(httpx, url)


@pytest.mark.parametrize("name", WORKERS)
def test_a_task_started_in_a_call_that_outlives_it(
    server: ModelServer, captured: Captured, name: str
) -> None:
    """What it sends when that call is over is a call of its own, though its context still holds the other."""
    server.replies = [Reply.json(CHAT)]
    url = f"{server.url}/chat/completions"

    async def run() -> None:
        is_over = asyncio.Event()
        started: list[asyncio.Task[None]] = []

        async def work() -> None:
            await is_over.wait()
            await WORKERS[name](url)
            await http.get(server.url)  # of the client that made the other call

        async def start(request: object) -> None:
            if not started:
                started.append(asyncio.create_task(work()))

        async with httpx2.AsyncClient(verify=False, event_hooks={"request": [start]}) as http:
            await http.post(url, json=BODY | {"model": "first"})
            is_over.set()
            await started[0]

    asyncio.run(run())
    assert [(span.name, (span.attributes or {})[attributes.ATTEMPTS]) for span in captured.spans] == [
        ("chat first", 1),
        ("chat later", 1),
    ]
    assert ["traceparent" in sent.headers for sent in server.sent] == [True, True, False]


def test_a_coroutine_closed_in_another_context(captured: Captured) -> None:
    """Its call ends there, and nothing of ours fails."""
    before = _guard.counts()
    sent: list[object] = []

    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            sent.append(request)
            await asyncio.get_running_loop().create_future()

    class UntilSent:
        """Goes on with a coroutine until its request has left, then closes it elsewhere."""

        def __init__(self, running: Any) -> None:
            self.running = running

        def __await__(self) -> Iterator[Any]:
            step = self.running.send(None)
            while not sent:
                yield step
                step = self.running.send(None)
            contextvars.Context().run(self.running.close)

    async def run() -> None:
        to = openai.AsyncOpenAI(
            base_url="http://model.test/v1", api_key="x", http_client=httpx2.AsyncClient(transport=Silent())
        )
        await UntilSent(to.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES))
        await to.close()

    asyncio.run(run())
    assert [span.name for span in captured.spans] == ["chat gpt-4o-mini"]
    assert _guard.counts() == before


class Cycle:
    """Something that only the garbage collector frees."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.itself = self


PLACES: list[Callable[[], object]] = [
    lambda: _recent.begin("collected inside", 0),
    lambda: agentprof.task("collected inside").__enter__(),
    lambda: _guard.noted("collected inside", "once"),
    lambda: _counts.counts.add(sent=0),
    lambda: agentprof.instrument(),
]


@pytest.mark.parametrize("place", range(len(PLACES)))
def test_a_stream_collected_anywhere(
    server: ModelServer, captured: Captured, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream may end while a lock of ours is held by the same thread: nothing waits for itself."""

    class Collecting:
        """A lock under which the garbage collector runs."""

        def __init__(self, lock: Any) -> None:
            self.lock = lock

        def __enter__(self) -> None:
            self.lock.acquire()
            gc.collect()

        def __exit__(self, *error: object) -> None:
            self.lock.release()

    owners: list[Any] = [_recent, _guard, _instrument]
    for owner in owners:
        monkeypatch.setattr(owner, "_lock", Collecting(owner._lock))
    counts: Any = _counts.counts
    monkeypatch.setattr(counts, "_lock", Collecting(counts._lock))
    server.replies = [Reply.stream(STREAM)]
    done: list[bool] = []

    def work() -> None:
        with client(server) as to, agentprof.task("outer"):
            cycle = Cycle(opened(to))
            gc.disable()
            del cycle
            try:
                PLACES[place]()
            finally:
                gc.enable()
        done.append(True)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert done == [True]
    call = captured.named("chat")[0]
    assert (call.attributes or {})[attributes.STREAM_END] == "abandoned"


def with_httpx(url: str) -> None:
    httpx.post(url, json={"model": "m", "messages": MESSAGES})


def with_requests(url: str) -> None:
    requests.post(url, json={"model": "m", "messages": MESSAGES}, timeout=10)


def with_aiohttp(url: str) -> None:
    async def post() -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json={"model": "m", "messages": MESSAGES}) as response,
        ):
            await response.read()

    asyncio.run(post())


def with_openai(url: str) -> None:
    with openai.OpenAI(base_url=url.removesuffix("/chat/completions"), api_key="x") as to:
        to.chat.completions.create(model="m", messages=MESSAGES)


@pytest.mark.parametrize("ask", [with_httpx, with_requests, with_aiohttp, with_openai])
def test_credentials_in_a_url(server: ModelServer, captured: Captured, ask: Callable[[str], None]) -> None:
    """User and password of an address are in no span."""
    server.replies = [Reply.json(CHAT)]
    ask(server.url.replace("://", "://user:canary@") + "/chat/completions")
    (call,) = captured.spans
    assert (call.attributes or {})[attributes.SERVER_ADDRESS] == "127.0.0.1"
    assert "canary" not in call.to_json()
    assert "user:" not in call.to_json()
