"""`stream_usage=True` without an SDK: the request asks for the usage, unseen by the program."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, Sent

from agentprof import attributes
from agentprof._hidden_usage import bytes_with_usage
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Say hello, ö."}],
    "stream": True,
}
WITHOUT = [*STREAM[:4], DONE]
LONG = [*[STREAM[1]] * 40, *WITHOUT[1:]]

Read = Callable[..., list[bytes]]
"""Posts a body and gives what the program reads, in pieces."""


def by_httpx(url: str, body: Any, headers: Any = None) -> list[bytes]:
    return _lines_of(httpx, url, body, headers)


def by_httpx2(url: str, body: Any, headers: Any = None) -> list[bytes]:
    return _lines_of(httpx2, url, body, headers)


def _lines_of(library: Any, url: str, body: Any, headers: Any) -> list[bytes]:
    asked = json.loads(body)
    with library.Client() as client:
        request = client.build_request("POST", url, content=body, headers=headers)
        length = request.headers["content-length"]
        response = client.send(request, stream=True)
        assert response.request is request
        assert request.headers["content-length"] == length == str(len(body))
        assert json.loads(request.content) == asked
        assert type(response.stream).__name__ == "BoundSyncStream"
        return [line.encode() for line in response.iter_lines()]


def by_async_httpx(url: str, body: Any, headers: Any = None) -> list[bytes]:
    async def run() -> list[bytes]:
        async with (
            httpx.AsyncClient() as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            assert type(response.stream).__name__ == "BoundAsyncStream"
            return [line.encode() async for line in response.aiter_lines()]

    return asyncio.run(run())


def by_requests(url: str, body: Any, headers: Any = None) -> list[bytes]:
    with requests.post(url, data=body, headers=headers, stream=True) as response:
        assert json.loads(response.request.body or b"") == json.loads(body)
        return list(response.iter_lines())


def by_aiohttp(url: str, body: Any, headers: Any = None) -> list[bytes]:
    async def run() -> list[bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers) as response,
        ):
            return [line.rstrip(b"\n") async for line in response.content]

    return asyncio.run(run())


READERS = (by_httpx, by_httpx2, by_async_httpx, by_requests, by_aiohttp)


def serialised(body: Any = BODY) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def compressed(pieces: list[bytes]) -> Reply:
    packer = zlib.compressobj(wbits=31)
    packed = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    reply = Reply.stream([*packed, packer.flush()])
    reply.headers["content-encoding"] = "gzip"
    return reply


def framed(framing: str) -> Callable[[list[bytes]], Reply]:
    return lambda pieces: Reply.stream(pieces, framing=framing)


def url_of(server: ModelServer) -> str:
    return f"{server.url}/chat/completions"


def asked_for(sent: Sent) -> Any:
    """The body that arrived, whole and of the length its header says."""
    assert int(sent.headers["content-length"]) == len(sent.body)
    return sent.json


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("reply", [framed("chunked"), framed("close"), compressed])
def test_usage_is_asked_for_and_hidden(server: ModelServer, read: Read, reply: Callable[..., Reply]) -> None:
    """The request says so, the span has the usage, the program reads what it reads without us."""
    server.replies = [reply(WITHOUT)]
    bare = read(url_of(server), serialised())
    server.replies = [reply(STREAM)]
    with capture(stream_usage=True) as captured:
        assert read(url_of(server), serialised()) == bare
    plain, asking = map(asked_for, server.sent)
    assert asking.pop("stream_options") == {"include_usage": True}
    assert asking == plain == BODY
    said = dict(captured.spans[0].attributes or {})
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)
    assert said[attributes.STREAM_END] == "complete"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}])
def test_the_program_has_decided(server: ModelServer, read: Read, options: Any) -> None:
    """Then its bytes go out as they are and nothing is hidden."""
    body = serialised(BODY | {"stream_options": options})
    server.replies = [Reply.stream(STREAM)]
    with capture(stream_usage=True):
        assert b"".join(read(url_of(server), body)) == b"".join(STREAM).replace(b"\n", b"")
    assert server.sent[0].body == body


@pytest.mark.parametrize("read", READERS)
def test_a_body_that_is_signed(server: ModelServer, read: Read) -> None:
    """Is not changed."""
    server.replies = [Reply.stream(STREAM)]
    with capture(stream_usage=True):
        for header in ("X-Amz-Content-Sha256", "Content-Digest", "signature"):
            read(url_of(server), serialised(), {header: "x"})
    assert [sent.body for sent in server.sent] == [serialised()] * 3


@pytest.mark.parametrize("read", READERS)
def test_other_requests_are_left_alone(server: ModelServer, read: Read) -> None:
    """Whole answers, streams of another API, and everything while the option is off."""
    whole = serialised({key: value for key, value in BODY.items() if key != "stream"})
    server.replies = [Reply.json(CHAT)]
    with capture(stream_usage=True):
        read(url_of(server), whole)
    responses = serialised({"model": "m", "input": "Hi", "stream": True})
    server.replies = [Reply.stream([b'data: {"type":"response.created"}\n\n'])]
    with capture(stream_usage=True):
        read(f"{server.url}/responses", responses)
    server.replies = [Reply.stream(STREAM)]
    with capture():
        read(url_of(server), serialised())
    assert [sent.body for sent in server.sent] == [whole, responses, serialised()]


@pytest.mark.parametrize("size", [1, 7, 512, None])
@pytest.mark.parametrize("reply", [framed("chunked"), framed("close"), compressed])
def test_pieces_of_requests(server: ModelServer, size: int | None, reply: Callable[..., Reply]) -> None:
    """No piece is larger than asked for or empty, whole and in pieces."""
    server.replies = [reply([*LONG[:-1], STREAM[4], DONE])]
    with (
        capture(stream_usage=True),
        requests.post(url_of(server), data=serialised(), stream=True) as response,
    ):
        pieces = list(response.iter_content(size))
    assert b"".join(pieces) == b"".join(LONG)
    assert all(pieces)
    assert all(len(piece) <= size for piece in pieces) if size else True


def test_whole_bodies_read_at_once(server: ModelServer) -> None:
    """`content`, `text` and `json=`, sync and async."""
    server.replies = [Reply.stream(STREAM)]
    expected = b"".join(WITHOUT)

    async def run() -> bytes:
        async with aiohttp.ClientSession() as session, session.post(url_of(server), json=BODY) as response:
            return await response.read()

    with capture(stream_usage=True) as captured:
        assert httpx.post(url_of(server), json=BODY).content == expected
        assert httpx2.post(url_of(server), json=BODY).content == expected
        assert requests.post(url_of(server), json=BODY, timeout=9).content == expected
        assert asyncio.run(run()) == expected
    assert [(span.attributes or {})[attributes.OUTPUT_TOKENS] for span in captured.spans] == [6] * 4


@pytest.mark.parametrize("read", READERS)
def test_a_redirected_stream(server: ModelServer, read: Read) -> None:
    """Each exchange asks; the chunk is hidden once."""
    redirect = Reply(b"", 307, {"location": f"{server.url}/elsewhere/chat/completions"})
    server.replies = [redirect, Reply.stream(STREAM)]
    with capture(stream_usage=True):
        if read is by_requests or read is by_aiohttp:
            assert b'"usage"' not in b"".join(read(url_of(server), serialised()))
        else:
            library = httpx2 if read is by_httpx2 else httpx
            with library.Client(follow_redirects=True) as client:
                assert b'"usage"' not in client.post(url_of(server), content=serialised()).content
    assert [asked_for(sent)["stream_options"] for sent in server.sent] == [{"include_usage": True}] * 2


def test_a_body_of_requests_that_is_read_raw(server: ModelServer) -> None:
    """Bytes that are still compressed are given out as they came."""
    reply = compressed(STREAM)
    server.replies = [reply]
    with (
        capture(stream_usage=True),
        requests.post(url_of(server), data=serialised(), stream=True) as response,
    ):
        raw = b"".join(response.raw.stream(64, decode_content=False))
    assert zlib.decompress(raw, 31) == b"".join(STREAM)


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (b'{"a": 1.50,"b":"\\u00f6"}', {"include_usage": True}),
        (b'{"stream_options": {"x": [1]}}', {"x": [1], "include_usage": True}),
        (b'{"stream_options": null}', {"include_usage": True}),
    ],
)
def test_what_is_written_anew(body: bytes, options: Any) -> None:
    """Only `stream_options`; other values keep their spelling."""
    found = bytes_with_usage(body)
    assert found is not None
    assert json.loads(found) == json.loads(body) | {"stream_options": options}
    assert (b"1.50" in found) == (b"1.50" in body)
    assert (b"\\u00f6" in found) == (b"\\u00f6" in body)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"x", b'{"stream_options": 3}', b'{"stream_options": {"include_usage": 0}}']
)
def test_what_is_not(body: bytes) -> None:
    """No JSON object, or the program has decided."""
    assert bytes_with_usage(body) is None
