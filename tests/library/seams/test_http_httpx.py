"""Calls through httpx and httpx2 without an SDK: what the span says, and that the program notices nothing."""

import asyncio
import gc
import inspect
import json
import pickle
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import openai
import pytest
from opentelemetry.trace import StatusCode
from support.http_scenarios import BODY, PATH, check_plain_call
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.recorded import only
from support.timed_calls import EARLY

import agentprof
from agentprof import attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

LIBRARIES: dict[str, Any] = {"httpx": httpx, "httpx2": httpx2}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    """Each of the two libraries."""
    return LIBRARIES[request.param]


def test_a_plain_call(server: ModelServer, captured: Captured, library: Any) -> None:
    """The span of a call without an SDK says the same as one of the SDK, and when the first byte came."""
    server.replies = [Reply.json(CHAT)]
    with agentprof.task("outer") as task:
        library.post(server.url + PATH, json=BODY)
    check_plain_call(server, captured, task.id)


def test_a_stream_that_is_read_at_once(server: ModelServer, captured: Captured, library: Any) -> None:
    """A program that asks for a stream and reads it whole has its first token measured all the same."""
    server.replies = [Reply.stream([STREAM[0], 0.1, *STREAM[1:]])]
    response = library.post(server.url + PATH, json=BODY | {"stream": True})
    assert response.content == b"".join(STREAM)
    _, said = only(captured)
    assert said[attributes.FIRST_TOKEN] >= 0.1
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6


@pytest.mark.parametrize("read", ["iter_raw", "iter_bytes", "iter_text", "iter_lines", "read"])
def test_every_way_to_read(server: ModelServer, captured: Captured, library: Any, read: str) -> None:
    """A body is understood however it is read, compressed too."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in STREAM]
    packed = Reply.stream([*pieces, packer.flush()])
    packed.headers["content-encoding"] = "gzip"
    server.replies = [Reply.stream(), packed]
    for _ in range(2):
        with library.stream("POST", server.url + PATH, json=BODY | {"stream": True}) as response:
            for _ in getattr(response, read)():
                pass
    for span in captured.spans:
        said = span.attributes or {}
        assert said[attributes.STREAM_END] == "complete"
        assert said[attributes.OUTPUT_TOKENS] == 6
        assert attributes.FIRST_TOKEN in said
    assert len(captured.spans) == 2


@pytest.mark.parametrize("how", ["close", "drop", "unread"])
def test_streams_left_behind(server: ModelServer, captured: Captured, library: Any, how: str) -> None:
    """Closed, dropped or never read: the span ends once, at the last chunk that was read."""
    server.replies = [Reply.stream()]
    with library.Client() as client:
        request = client.build_request("POST", server.url + PATH, json=BODY | {"stream": True})
        response = client.send(request, stream=True)
        if how != "unread":
            lines = response.iter_lines()
            next(lines)
            del lines
        if how == "drop":
            del response, request
            gc.collect()
            assert len(captured.spans) == 1
        else:
            response.close()
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert said[attributes.ATTEMPT_STATUS] == ("cancelled",)


def test_requests_of_the_program_are_left_alone(
    server: ModelServer, captured: Captured, library: Any
) -> None:
    """A request object is the same afterwards, and the one its response and its error refer to."""
    server.replies = [Reply.json(CHAT), Reply([b"{"], framing="cut")]
    with library.Client() as client:
        request = client.build_request("POST", server.url + PATH, json=BODY, extensions={"mine": 1})
        headers = list(request.headers.raw)
        response = client.send(request)
        assert response.request is request
        with pytest.raises(library.RemoteProtocolError) as caught:
            client.send(request)
        assert caught.value.request is request
    assert list(request.headers.raw) == headers
    assert {key: request.extensions[key] for key in request.extensions if key != "timeout"} == {"mine": 1}
    assert all("traceparent" in sent.headers for sent in server.sent)
    assert pickle.loads(pickle.dumps(response)).content == response.content
    assert [span.status.status_code for span in captured.spans] == [StatusCode.UNSET, StatusCode.ERROR]


def test_bodies_to_be_generated_are_not_looked_at(
    server: ModelServer, captured: Captured, library: Any
) -> None:
    """A generator reaches the server whole; such a request is no call."""
    server.replies = [Reply.json(CHAT)]
    text = json.dumps(BODY).encode()
    library.post(
        server.url + PATH,
        content=(text[at : at + 9] for at in range(0, len(text), 9)),
        headers={"content-length": str(len(text))},
    )
    assert server.sent[0].body == text
    assert captured.spans == []


def test_other_requests_are_no_calls(server: ModelServer, captured: Captured, library: Any) -> None:
    """Other paths, methods and bodies make no span and carry no header of ours."""
    server.replies = [Reply.json(CHAT)]
    library.post(server.url + "/other", json=BODY)
    library.get(server.url + PATH)
    library.post(server.url + PATH, json={"answers": [1]})
    library.post(server.url + PATH, data={"messages": "hi"})
    assert captured.spans == []
    assert not any("traceparent" in sent.headers for sent in server.sent)


def test_a_redirect_to_another_host(server: ModelServer, library: Any) -> None:
    """The exchange before counts as one that failed, and a host that is not named gets no header."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + PATH
    server.replies = [Reply(b"", 307, {"location": elsewhere}), Reply.json(CHAT)]
    with capture(propagate_to=["127.0.0.1"]) as captured, library.Client(follow_redirects=True) as client:
        response = client.post(server.url + PATH, json=BODY)
    assert "traceparent" not in response.request.headers
    assert ["traceparent" in sent.headers for sent in server.sent] == [True, False]
    _, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("307",))
    assert said[attributes.OUTPUT_TOKENS] == 6


def test_a_login_in_two_steps(server: ModelServer, captured: Captured, library: Any) -> None:
    """The refusal that asks for a login is a failed attempt of the same call."""
    challenge = {"www-authenticate": 'Digest realm="r", nonce="n", algorithm=MD5, qop="auth"'}
    server.replies = [Reply(b'{"error": {"code": "who"}}', 401, challenge), Reply.json(CHAT)]
    library.post(server.url + PATH, json=BODY, auth=library.DigestAuth("me", "secret"))
    span, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("401",))
    assert span.status.status_code is StatusCode.UNSET
    assert said[attributes.OUTPUT_TOKENS] == 6


def test_a_hook_that_raises(server: ModelServer, captured: Captured, library: Any) -> None:
    """A program that raises for refusals has one failed call with the class of its error."""
    server.replies = [Reply.json({}, 503)]
    hooks = {"response": [lambda response: response.raise_for_status()]}
    with library.Client(event_hooks=hooks) as client, pytest.raises(library.HTTPStatusError):
        client.post(server.url + PATH, json=BODY)
    _, said = only(captured)
    assert said[attributes.ERROR_TYPE] == "HTTPStatusError"
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (1, ("503",))


def test_connections(server: ModelServer, captured: Captured, library: Any) -> None:
    """A new connection has its time, one that is kept has none, and waiting for a free one counts."""
    server.replies = [Reply.json(CHAT)]
    with library.Client(limits=library.Limits(max_connections=1), timeout=5) as client:
        client.post(server.url + PATH, json=BODY)
        client.post(server.url + PATH, json=BODY)
        with ThreadPoolExecutor(1) as pool, client.stream("GET", server.url):
            waiting = pool.submit(client.post, server.url + PATH, json=BODY)
            with pytest.raises(TimeoutError):
                waiting.result(0.4)
    new, kept, waited = (span.attributes or {} for span in captured.spans)
    connect = attributes.PHASE + "connect"
    assert 0 < new[connect] < 2  # type: ignore[operator]
    assert connect not in kept
    assert waited[connect] >= 0.4 - EARLY  # type: ignore[operator]


def test_waiting_for_a_connection_in_a_loop(server: ModelServer, captured: Captured, library: Any) -> None:
    """The same of the async client."""
    server.replies = [Reply.json(CHAT, 200)]
    server.replies[0].wait_s = 0.2

    async def main() -> None:
        limits = library.Limits(max_connections=1)
        async with library.AsyncClient(limits=limits, timeout=5) as client:
            await asyncio.gather(*(client.post(server.url + PATH, json=BODY) for _ in range(2)))

    asyncio.run(main())
    waits = sorted((span.attributes or {})[attributes.PHASE + "connect"] for span in captured.spans)
    assert 0 < waits[0] < waits[1]
    assert waits[1] >= 0.2


def test_a_transport_without_a_network(captured: Captured, library: Any) -> None:
    """An answer that is whole from the start is read at once."""
    transport = library.MockTransport(lambda request: library.Response(200, json=CHAT))
    with library.Client(transport=transport) as client:
        assert client.post("http://127.0.0.1:9/v1" + PATH, json=BODY).json() == CHAT
    assert only(captured)[1][attributes.OUTPUT_TOKENS] == 6


def test_nothing_private_is_recorded(server: ModelServer, captured: Captured, library: Any) -> None:
    """No header, key, query, prompt, answer or error text is in a span."""
    server.replies = [Reply.json(CHAT), Reply.json({"error": {"message": "secret-error"}}, 400)]
    url = server.url.replace("//", "//secret-user:secret-password@") + PATH + "?api-key=secret-query"
    for _ in range(2):
        library.post(url, json=BODY, headers={"authorization": "Bearer secret-key"})
    recorded = "".join(span.to_json() for span in captured.spans)
    assert len(captured.spans) == 2
    assert "secret" not in recorded
    assert "Hello." not in recorded


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_the_sdk_is_one_call(server: ModelServer, captured: Captured, stream: bool) -> None:
    """Below an SDK this seam makes no call, sync or async, streamed or not."""
    server.replies = [Reply.stream() if stream else Reply.json(CHAT)]
    options: dict[str, Any] = {"api_key": "none", "base_url": server.url, "max_retries": 0}
    asked: dict[str, Any] = {"model": "gpt-4o-mini", "messages": BODY["messages"], "stream": stream}

    async def main() -> None:
        async with openai.AsyncOpenAI(**options) as client:
            answer = await client.chat.completions.create(**asked)
            if stream:
                assert len([chunk async for chunk in answer]) == 5

    with openai.OpenAI(**options) as client:
        answer = client.chat.completions.create(**asked)
        if stream:
            assert len(list(answer)) == 5
    asyncio.run(main())
    assert len(captured.spans) == len(server.sent) == 2
    for span in captured.spans:
        said = span.attributes or {}
        assert said[attributes.OUTPUT_TOKENS] == 6
        assert said[attributes.ATTEMPTS] == 1
        assert said[attributes.PHASE_SOURCE + "connect"] == "observed"
        assert attributes.FIRST_BYTE not in said


def test_original_functions_are_back_and_keep_their_kind(library: Any) -> None:
    """Patched functions look like the originals, and undoing restores each by identity."""
    names = [
        (owner, name) for owner in ("Client", "AsyncClient") for name in ("send", "_send_single_request")
    ]
    before = {(owner, name): vars(getattr(library, owner))[name] for owner, name in names}
    for _ in range(3):
        with capture():
            for (owner, name), original in before.items():
                patched = vars(getattr(library, owner))[name]
                assert patched is not original
                assert inspect.isfunction(patched)
                assert inspect.iscoroutinefunction(patched) == inspect.iscoroutinefunction(original)
                assert inspect.signature(patched) == inspect.signature(original)
                assert patched.__qualname__ == original.__qualname__
        assert all(
            vars(getattr(library, owner))[name] is original for (owner, name), original in before.items()
        )


def test_a_function_patched_on_top_stays(server: ModelServer, library: Any) -> None:
    """What somebody else put over our patch is left there and passes through without spans."""
    server.replies = [Reply.json(CHAT)]
    original = library.Client.send
    with capture() as captured:
        ours = library.Client.send

        def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ours(self, *args, **kwargs)

        library.Client.send = theirs
    try:
        assert library.Client.send is theirs
        assert library.post(server.url + PATH, json=BODY).json() == CHAT
        assert captured.spans == []
    finally:
        library.Client.send = original
