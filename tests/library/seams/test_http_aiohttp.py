"""Calls through aiohttp without an SDK: what the span says, and that the program notices nothing."""

import asyncio
import copy
import gc
import inspect
import json
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import openai
import pytest
from support.http_scenarios import (
    BODY,
    PATH,
    PATIENCE_S,
    SCENARIOS,
    Scenario,
    Seen,
    check,
    check_first_token,
    check_plain_call,
)
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.recorded import only
from support.recordings import Recordings

import agentprof
from agentprof import attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


async def run(
    seen: Seen, came: asyncio.Event, url: str, stream: bool, timeout: float, take: int | None, cancel: int
) -> None:
    """One request by a session."""
    patience = aiohttp.ClientTimeout(total=timeout)
    async with aiohttp.ClientSession(timeout=patience) as session:
        body = BODY | {"stream": True} if stream else BODY
        if not stream:
            came.set()
        async with session.post(url, json=body) as response:
            seen.note(response, response.content)
            seen.status = response.status
            if not stream:
                seen.body = [await response.read()]
                return
            async for line in response.content:
                seen.body.append(line)
                if len(seen.body) == cancel:
                    came.set()
                if len(seen.body) == take:
                    break


async def main(seen: Seen, cancel: int | None, **options: Any) -> None:
    """That request, cancelled if asked for."""
    came = asyncio.Event()
    task = asyncio.create_task(run(seen, came, cancel=-1 if cancel is None else cancel, **options))
    if cancel is not None:
        await came.wait()
        await asyncio.sleep(0.05 if cancel else PATIENCE_S)  # into the wait for what follows
        task.cancel()
    try:
        await task
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
        seen.note_error(error)


def drive(url: str, **options: Any) -> Seen:
    """One request in a loop of its own."""
    seen = Seen()
    asyncio.run(main(seen, url=url, **options))
    return seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios(server: ModelServer, scenario: Scenario) -> None:
    """Whatever happens to a request, the program sees the same as without us, and the span says what it was."""
    check(drive, server, scenario)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_first_token(recordings: Recordings) -> None:
    """The first token of real streams is where the server sent it."""
    check_first_token(drive, recordings)


def in_session(use: Callable[[aiohttp.ClientSession], Awaitable[Any]], **options: Any) -> Any:
    """What something made with a session gives."""

    async def main() -> Any:
        async with aiohttp.ClientSession(**options) as session:
            return await use(session)

    return asyncio.run(main())


def test_a_plain_call(server: ModelServer, captured: Captured) -> None:
    """The span of a call without an SDK says the same as one of the SDK, and when the first byte came."""
    server.replies = [Reply.json(CHAT)]

    async def use(session: aiohttp.ClientSession) -> Any:
        with agentprof.task("outer") as task:
            async with session.post(server.url + PATH, json=BODY) as response:
                assert await response.json() == CHAT
        return task

    task = in_session(use)
    check_plain_call(server, captured, task.id)


async def _all(things: AsyncIterable[bytes]) -> bytes:
    return b"".join([thing async for thing in things])


READS: dict[str, Callable[[aiohttp.ClientResponse], Awaitable[Any]]] = {
    "lines": lambda response: _all(response.content),
    "any": lambda response: _all(response.content.iter_any()),
    "sized": lambda response: _all(response.content.iter_chunked(7)),
    "read": lambda response: response.read(),
    "text": lambda response: response.text(),
    "content": lambda response: response.content.read(),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("read", READS)
def test_every_way_to_read(server: ModelServer, read: str, framing: str, packed: bool) -> None:
    """A body is understood however it is read, framed and compressed, and comes to the program unchanged."""
    packer = zlib.compressobj(wbits=31)
    pieces: list[bytes] = STREAM
    if packed:
        pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in STREAM]
        pieces.append(packer.flush())
    reply = Reply.stream(b"".join(pieces) if framing == "length" else pieces, framing=framing)
    if packed:
        reply.headers["content-encoding"] = "gzip"
    server.replies = [reply]

    async def use(session: aiohttp.ClientSession) -> Any:
        async with session.post(server.url + PATH, json=BODY | {"stream": True}) as response:
            return await READS[read](response)

    bare = in_session(use)
    with capture() as captured:
        assert in_session(use) == bare
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert attributes.FIRST_TOKEN in said


@pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")  # the library's word on a drop
@pytest.mark.parametrize("how", ["close", "release", "drop"])
def test_streams_left_behind(server: ModelServer, captured: Captured, how: str) -> None:
    """Closed, released or dropped before its end: the span ends once, at the last chunk that came."""
    server.replies = [Reply.stream([*STREAM[:3], 0.5, *STREAM[3:]])]

    async def use(session: aiohttp.ClientSession) -> None:
        response = await session.post(server.url + PATH, json=BODY | {"stream": True})
        for _ in range(6):
            await response.content.readline()
        if how == "drop":
            return  # the library holds it until the session is closed
        if how == "close":
            response.close()
        else:
            response.release()
        assert len(captured.spans) == 1

    in_session(use)
    gc.collect()
    span, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert attributes.FIRST_TOKEN in said
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time < 400_000_000


def test_which_bodies_are_looked_at(server: ModelServer, captured: Captured) -> None:
    """Objects, text and bytes are; what is still to be generated reaches the server whole and is no call."""
    server.replies = [Reply.json(CHAT)]
    text = json.dumps(BODY)

    async def pieces() -> AsyncIterator[bytes]:
        yield text.encode()

    async def use(session: aiohttp.ClientSession) -> None:
        # A length spares the test server from reading chunks.
        length = {"content-length": str(len(text))}
        for options in (
            {"json": BODY},
            {"data": text},
            {"data": text.encode()},
            {"data": pieces(), "headers": length},
            {"json": {"answers": []}},
            {"data": {"messages": "hi"}},
        ):
            async with session.post(server.url + PATH, **options) as response:
                await response.read()
        async with session.post(server.url + "/other", json=BODY) as response:
            await response.read()
        async with session.get(server.url + PATH) as response:
            await response.read()

    given = copy.deepcopy(BODY)
    in_session(use)
    assert given == BODY
    assert len(captured.spans) == 3
    assert server.sent[3].body == text.encode()
    assert ["traceparent" in sent.headers for sent in server.sent] == [True] * 3 + [False] * 5


def test_a_base_url(server: ModelServer, captured: Captured) -> None:
    """The path is that of the whole URL."""
    server.replies = [Reply.json(CHAT)]

    async def use(session: aiohttp.ClientSession) -> None:
        async with session.post("chat/completions", json=BODY) as response:
            await response.read()

    in_session(use, base_url=server.url + "/")
    assert only(captured)[1][attributes.SERVER_ADDRESS] == "127.0.0.1"


def test_a_session_that_raises(server: ModelServer, captured: Captured) -> None:
    """Refusals that the session turns into errors are one failed call with the class of the error."""
    server.replies = [Reply.json({}, 503)]

    async def use(session: aiohttp.ClientSession) -> None:
        await session.post(server.url + PATH, json=BODY)

    with pytest.raises(aiohttp.ClientResponseError):
        in_session(use, raise_for_status=True)
    _, said = only(captured)
    assert said[attributes.ERROR_TYPE] == "ClientResponseError"
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (1, ("503",))


def test_nobody_there(captured: Captured) -> None:
    """A refused connection is a failed attempt of that kind: the request did not leave."""

    async def use(session: aiohttp.ClientSession) -> None:
        await session.post("http://127.0.0.1:9/v1" + PATH, json=BODY)

    with pytest.raises(aiohttp.ClientConnectorError):
        in_session(use)
    assert only(captured)[1][attributes.ATTEMPT_STATUS] == ("connection",)


def test_a_redirect_to_another_host(server: ModelServer) -> None:
    """The exchange before counts as one that failed, and a host that is not named gets no header."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + PATH
    server.replies = [Reply(b"", 307, {"location": elsewhere}), Reply.json(CHAT)]

    async def use(session: aiohttp.ClientSession) -> None:
        async with session.post(server.url + PATH, json=BODY) as response:
            assert [was.status for was in response.history] == [307]
            await response.read()

    with capture(propagate_to=["127.0.0.1"]) as captured:
        in_session(use)
    assert ["traceparent" in sent.headers for sent in server.sent] == [True, False]
    _, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("repeated",))
    assert said[attributes.OUTPUT_TOKENS] == 6


def test_waiting_for_a_connection(server: ModelServer, captured: Captured) -> None:
    """The time until one is free counts."""
    server.replies = [Reply.json(CHAT)]
    server.replies[0].wait_s = 0.2

    async def main() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:

            async def call() -> None:
                async with session.post(server.url + PATH, json=BODY) as response:
                    await response.read()

            await asyncio.gather(call(), call())

    asyncio.run(main())
    waits = sorted((span.attributes or {})[attributes.PHASE + "connect"] for span in captured.spans)
    assert 0 < waits[0] < waits[1]
    assert waits[1] >= 0.2


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_the_sdk_is_one_call(server: ModelServer, captured: Captured, stream: bool) -> None:
    """The SDK over its aiohttp transport makes one span a call, with the time to connect."""
    server.replies = [Reply.stream() if stream else Reply.json(CHAT)]

    async def main() -> None:
        async with openai.AsyncOpenAI(
            api_key="none", base_url=server.url, max_retries=0, http_client=openai.DefaultAioHttpClient()
        ) as client:
            answer: Any = await client.chat.completions.create(
                model="gpt-4o-mini",
                messages=BODY["messages"],  # type: ignore[arg-type]
                stream=stream,
            )
            if stream:
                assert len([chunk async for chunk in answer]) == 5

    asyncio.run(main())
    _, said = only(captured)
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert said[attributes.ATTEMPTS] == 1
    assert said[attributes.PHASE_SOURCE + "connect"] == "observed"
    assert attributes.FIRST_BYTE not in said


def test_nothing_private_is_recorded(server: ModelServer, captured: Captured) -> None:
    """No header, key, query, prompt, answer or error text is in a span."""
    server.replies = [Reply.json(CHAT), Reply.json({"error": {"message": "secret-error"}}, 400)]

    async def use(session: aiohttp.ClientSession) -> None:
        url = server.url.replace("//", "//secret-user:secret-password@") + PATH + "?api-key=secret-query"
        for _ in range(2):
            async with session.post(url, json=BODY, headers={"x-key": "secret-key"}) as response:
                await response.read()

    in_session(use)
    recorded = "".join(span.to_json() for span in captured.spans)
    assert len(captured.spans) == 2
    assert "secret" not in recorded
    assert "Hello." not in recorded


PATCHED: list[tuple[Any, str]] = [
    (aiohttp.ClientSession, "_request"),
    (aiohttp.ClientResponse, "close"),
    (aiohttp.ClientResponse, "release"),
    (aiohttp.BaseConnector, "connect"),
]


def test_original_functions_are_back_and_keep_their_kind() -> None:
    """Patched functions look like the originals, and undoing restores each by identity."""
    before = [vars(owner)[name] for owner, name in PATCHED]
    for _ in range(3):
        with capture():
            for (owner, name), original in zip(PATCHED, before, strict=True):
                patched = vars(owner)[name]
                assert patched is not original
                assert inspect.isfunction(patched)
                assert inspect.iscoroutinefunction(patched) == inspect.iscoroutinefunction(original)
                assert inspect.signature(patched) == inspect.signature(original)
                assert patched.__qualname__ == original.__qualname__
        assert all(vars(owner)[name] is was for (owner, name), was in zip(PATCHED, before, strict=True))
