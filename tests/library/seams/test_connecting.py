"""What `connect` is made of: the TLS handshake and waiting for a free connection stand apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import httpx
import httpx2
import openai
import pytest
import requests
from requests.adapters import HTTPAdapter
from support.model_server import CHAT, ModelServer, Reply
from support.timed_calls import EARLY
from support.tls import CERTIFICATE, TlsModelServer, TunnelProxy, trusting

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
HANDSHAKE_S = 0.15
HELD_S = 0.4
"""How long the only connection is not free."""
CONNECT = attributes.PHASE + "connect"
TLS, POOL = attributes.CONNECT + "tls", attributes.CONNECT + "pool"

Post = Callable[[str, "str | None"], None]
"""Makes one call at a base URL, through a proxy if one is given."""


@pytest.fixture
def tls_server() -> Iterator[TlsModelServer]:
    """A model endpoint over TLS, whose handshake takes its time."""
    with TlsModelServer(HANDSHAKE_S) as server:
        server.replies = [Reply.json(CHAT)]
        yield server


def by(library: Any) -> Post:
    def post(url: str, proxy: str | None) -> None:
        with library.Client(verify=trusting(), proxy=proxy) as client:
            client.post(f"{url}/chat/completions", json=BODY).raise_for_status()

    return post


def by_async(library: Any) -> Post:
    async def run(url: str, proxy: str | None) -> None:
        async with library.AsyncClient(verify=trusting(), proxy=proxy) as client:
            (await client.post(f"{url}/chat/completions", json=BODY)).raise_for_status()

    return lambda url, proxy: asyncio.run(run(url, proxy))


def by_requests(url: str, proxy: str | None) -> None:
    proxies = {"https": proxy} if proxy else None
    answer = requests.post(
        f"{url}/chat/completions", json=BODY, verify=str(CERTIFICATE), proxies=proxies, timeout=9
    )
    answer.raise_for_status()


def by_aiohttp(url: str, proxy: str | None) -> None:
    async def run() -> None:
        connector = aiohttp.TCPConnector(ssl=trusting())
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(f"{url}/chat/completions", json=BODY, proxy=proxy) as response,
        ):
            response.raise_for_status()
            await response.read()

    asyncio.run(run())


def by_sdk(url: str, proxy: str | None) -> None:
    http = httpx2.Client(verify=trusting(), proxy=proxy)
    with openai.OpenAI(base_url=url, api_key="x", max_retries=0, http_client=http) as client:
        client.chat.completions.create(model="m", messages=BODY["messages"])


POSTS = [by(httpx), by(httpx2), by_async(httpx), by_async(httpx2), by_requests, by_aiohttp, by_sdk]
NAMES = ["httpx", "httpx2", "httpx async", "httpx2 async", "requests", "aiohttp", "openai"]


def said_by(captured: Captured) -> Mapping[str, Any]:
    assert len(captured.spans) == 1
    return captured.spans[0].attributes or {}


@pytest.mark.parametrize("post", POSTS, ids=NAMES)
def test_a_handshake(tls_server: TlsModelServer, captured: Captured, post: Post) -> None:
    """It is a part of `connect`, beside TCP; nobody waited for a connection."""
    post(tls_server.url, None)
    said = said_by(captured)
    assert HANDSHAKE_S <= said[TLS] <= said[CONNECT]
    assert said.get(POOL, 0) <= said[CONNECT] - said[TLS]


@pytest.mark.parametrize("post", POSTS, ids=NAMES)
def test_a_handshake_through_a_proxy(tls_server: TlsModelServer, captured: Captured, post: Post) -> None:
    """In a tunnel it counts too, in `connect` and apart."""
    with TunnelProxy() as proxy:
        post(tls_server.url, proxy.url)
    said = said_by(captured)
    assert HANDSHAKE_S <= said[TLS] <= said[CONNECT]


@pytest.mark.parametrize("post", POSTS, ids=NAMES)
def test_without_tls(server: ModelServer, captured: Captured, post: Post) -> None:
    """There is no handshake."""
    server.replies = [Reply.json(CHAT)]
    post(server.url, None)
    said = said_by(captured)
    assert said[CONNECT] > 0
    assert TLS not in said


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_kept_connection(tls_server: TlsModelServer, captured: Captured, library: Any) -> None:
    """Needs neither."""
    with library.Client(verify=trusting()) as client:
        for _ in range(2):
            client.post(f"{tls_server.url}/chat/completions", json=BODY)
    new, kept = (span.attributes or {} for span in captured.spans)
    assert TLS in new
    assert not {CONNECT, TLS, POOL} & kept.keys()


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_waiting_for_a_free_connection(server: ModelServer, captured: Captured, library: Any) -> None:
    """Is the whole of `connect` where a connection becomes free that is there already."""
    server.replies = [Reply.json(CHAT)]
    with library.Client(limits=library.Limits(max_connections=1), timeout=5) as client:
        client.post(f"{server.url}/chat/completions", json=BODY)
        with ThreadPoolExecutor(1) as pool, client.stream("GET", server.url):
            waiting = pool.submit(client.post, f"{server.url}/chat/completions", json=BODY)
            with pytest.raises(TimeoutError):
                waiting.result(HELD_S)
    first, waited = (span.attributes or {} for span in captured.spans)
    assert POOL not in first
    assert HELD_S - EARLY <= waited[POOL] <= waited[CONNECT]  # type: ignore[operator]


def test_waiting_with_requests(server: ModelServer, captured: Captured) -> None:
    """In a pool that blocks."""
    server.replies = [Reply.json(CHAT)]
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(pool_maxsize=1, pool_block=True))
        with ThreadPoolExecutor(1) as pool, session.get(server.url, stream=True):
            waiting = pool.submit(session.post, f"{server.url}/chat/completions", json=BODY)
            with pytest.raises(TimeoutError):
                waiting.result(HELD_S)
    said = said_by(captured)
    assert HELD_S - EARLY <= said[POOL] <= said[CONNECT]


def test_waiting_with_aiohttp(server: ModelServer, captured: Captured) -> None:
    """For a connector with one connection."""
    server.replies = [Reply.json(CHAT)]
    server.replies[0].wait_s = HELD_S

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:

            async def call() -> None:
                async with session.post(f"{server.url}/chat/completions", json=BODY) as response:
                    await response.read()

            await asyncio.gather(call(), call())

    asyncio.run(main())
    said = sorted((dict(span.attributes or {}) for span in captured.spans), key=lambda one: str(POOL in one))
    assert POOL not in said[0]
    assert HELD_S <= said[1][POOL] <= said[1][CONNECT]
