"""Calls through requests without an SDK: what the span says, and that the program notices nothing."""

import copy
import gc
import inspect
import io
import json
import pickle
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
import urllib3
from opentelemetry.trace import StatusCode
from requests.adapters import BaseAdapter, HTTPAdapter
from requests.auth import HTTPDigestAuth
from support.http_scenarios import (
    BODY,
    PATH,
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
from support.timed_calls import EARLY
from urllib3.util.retry import Retry

import agentprof
from agentprof import attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def drive(url: str, *, stream: bool, timeout: float, take: int | None, cancel: int | None) -> Seen:
    """One request by a session."""
    seen = Seen()
    try:
        with requests.Session() as session:
            if not stream:
                response = session.post(url, json=BODY, timeout=timeout)
                seen.note(response, response.raw, response.request)
                seen.status, seen.body = response.status_code, [response.content]
                return seen
            with session.post(url, json=BODY | {"stream": True}, timeout=timeout, stream=True) as response:
                seen.note(response, response.raw, response.request)
                seen.status = response.status_code
                for line in response.iter_lines():
                    seen.body.append(line)
                    if len(seen.body) == take:
                        break
    except Exception as error:  # noqa: BLE001 (it is what is compared)
        seen.note_error(error)
    return seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios(server: ModelServer, scenario: Scenario) -> None:
    """Whatever happens to a request, the program sees the same as without us, and the span says what it was."""
    if scenario.cancel is not None:
        pytest.skip("only tasks of asyncio are cancelled")
    check(drive, server, scenario)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_first_token(recordings: Recordings) -> None:
    """The first token of real streams is where the server sent it."""
    check_first_token(drive, recordings)


def post(server: ModelServer, **more: Any) -> requests.Response:
    return requests.post(
        server.url + PATH, json=BODY | {"stream": bool(more.get("stream"))}, timeout=5, **more
    )


def test_a_plain_call(server: ModelServer, captured: Captured) -> None:
    """The span of a call without an SDK says the same as one of the SDK, and when the first byte came."""
    server.replies = [Reply.json(CHAT)]
    with agentprof.task("outer") as task:
        assert post(server).json() == CHAT
    check_plain_call(server, captured, task.id)


READS: dict[str, Callable[[requests.Response], Any]] = {
    "lines": lambda response: list(response.iter_lines()),
    "bytes": lambda response: list(response.iter_content(7)),
    "pieces": lambda response: b"".join(response.iter_content(None)),
    "content": lambda response: response.content,
    "raw": lambda response: response.raw.read(),
    "raw decoded": lambda response: response.raw.read(decode_content=True),
    "raw pieces": lambda response: b"".join(response.raw.stream(64)),
    "raw little": lambda response: list(iter(lambda: response.raw.read(5), b"")),
    "raw read1": lambda response: b"".join(iter(lambda: response.raw.read1(), b"")),
}


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("read", READS)
def test_every_way_to_read(server: ModelServer, read: str, packed: bool, framing: str) -> None:
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
    bare = READS[read](post(server, stream=True))
    with capture() as captured, post(server, stream=True) as response:
        assert READS[read](response) == bare
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert attributes.FIRST_TOKEN in said


@pytest.mark.parametrize("how", ["close", "drop", "unread"])
def test_streams_left_behind(server: ModelServer, captured: Captured, how: str) -> None:
    """Closed, dropped or never read: the span ends once, at the last chunk that was read."""
    server.replies = [Reply.stream()]
    response = post(server, stream=True)
    if how != "unread":
        lines = response.iter_lines()
        next(lines)
        del lines
    if how == "drop":
        del response
        gc.collect()
        assert len(captured.spans) == 1
    else:
        response.close()
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert said[attributes.ATTEMPT_STATUS] == ("cancelled",)


def test_requests_of_the_program_are_left_alone(server: ModelServer, captured: Captured) -> None:
    """A request object is the same afterwards, and the one its response and its error refer to."""
    server.replies = [Reply.json(CHAT), Reply.json(CHAT)]
    server.replies[1].wait_s = 0.5
    with requests.Session() as session:
        request = session.prepare_request(requests.Request("POST", server.url + PATH, json=BODY))
        headers = dict(request.headers)
        response = session.send(request)
        assert response.request is request
        with pytest.raises(requests.ReadTimeout) as caught:
            session.send(request, timeout=(5, 0.1))
        assert caught.value.request is request
    assert dict(request.headers) == headers
    assert all("traceparent" in sent.headers for sent in server.sent)
    assert pickle.loads(pickle.dumps(response)).json() == copy.copy(response).json() == CHAT
    assert [span.status.status_code for span in captured.spans] == [StatusCode.UNSET, StatusCode.ERROR]


def test_which_bodies_are_looked_at(server: ModelServer, captured: Captured) -> None:
    """Text and bytes are; what is still to be generated or read reaches the server whole and is no call."""
    server.replies = [Reply.json(CHAT)]
    text = json.dumps(BODY)
    url = server.url + PATH
    requests.post(url, data=text, timeout=5)
    requests.post(url, data=text.encode(), timeout=5)
    assert len(captured.spans) == 2
    requests.post(url, data=io.BytesIO(text.encode()), timeout=5)
    requests.post(url, data={"messages": "hi"}, timeout=5)
    requests.post(server.url + "/other", json=BODY, timeout=5)
    requests.get(url, json=BODY, timeout=5)
    assert len(captured.spans) == 2
    assert [sent.body for sent in server.sent[:3]] == [text.encode()] * 3
    assert ["traceparent" in sent.headers for sent in server.sent] == [True, True, False, False, False, False]


def test_retries_of_an_adapter(server: ModelServer, captured: Captured) -> None:
    """Retries inside urllib3 are attempts of the call, with their status and the pause after each."""
    server.replies = [Reply.json({}, 429), Reply.json({}, 503), Reply.json(CHAT)]
    retries = Retry(3, status_forcelist=[429, 503], allowed_methods=None, backoff_factor=0.05)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        session.post(server.url + PATH, json=BODY)
    span, said = only(captured)
    assert span.status.status_code is StatusCode.UNSET
    assert said[attributes.ATTEMPTS] == 3
    assert said[attributes.ATTEMPT_STATUS] == ("429", "503")
    assert said[attributes.ATTEMPT_BACKOFF][1] >= 0.1
    assert said[attributes.OUTPUT_TOKENS] == 6


def test_retries_that_are_used_up(server: ModelServer, captured: Captured) -> None:
    """The last refusal is the last failed attempt."""
    server.replies = [Reply.json({}, 429)]
    retries = Retry(1, status_forcelist=[429], allowed_methods=None, backoff_factor=0)
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        with pytest.raises(requests.exceptions.RetryError):
            session.post(server.url + PATH, json=BODY)
    _, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("429", "429"))
    assert said[attributes.ERROR_TYPE] == "RetryError"


def test_nobody_there(captured: Captured) -> None:
    """A refused connection is a failed attempt of that kind: the request did not leave."""
    with pytest.raises(requests.ConnectionError):
        requests.post("http://127.0.0.1:9/v1" + PATH, json=BODY, timeout=5)
    _, said = only(captured)
    assert said[attributes.ATTEMPT_STATUS] == ("connection",)


def test_a_redirect_to_another_host(server: ModelServer) -> None:
    """The exchange before counts as one that failed, and a host that is not named gets no header."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + PATH
    server.replies = [Reply(b"", 307, {"location": elsewhere}), Reply.json(CHAT)]
    with capture(propagate_to=["127.0.0.1"]) as captured:
        response = post(server)
    assert [was.status_code for was in response.history] == [307]
    assert "traceparent" not in response.request.headers
    assert ["traceparent" in sent.headers for sent in server.sent] == [True, False]
    _, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("307",))
    assert said[attributes.OUTPUT_TOKENS] == 6


def test_a_login_in_two_steps(server: ModelServer, captured: Captured) -> None:
    """The refusal that asks for a login is a failed attempt of the same call."""
    challenge = {"www-authenticate": 'Digest realm="r", nonce="n", algorithm=MD5, qop="auth"'}
    server.replies = [Reply(b'{"error": {"code": "who"}}', 401, challenge), Reply.json(CHAT)]
    assert post(server, auth=HTTPDigestAuth("me", "secret")).json() == CHAT
    span, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.ATTEMPT_STATUS]) == (2, ("401",))
    assert span.status.status_code is StatusCode.UNSET


def test_connections(server: ModelServer, captured: Captured) -> None:
    """A new connection has its time, one that is kept has none, and waiting for a free one counts."""
    server.replies = [Reply.json(CHAT)]
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(pool_maxsize=1, pool_block=True))
        session.post(server.url + PATH, json=BODY)
        session.post(server.url + PATH, json=BODY)
        with ThreadPoolExecutor(1) as pool, session.get(server.url, stream=True):
            waiting = pool.submit(session.post, server.url + PATH, json=BODY)
            with pytest.raises(TimeoutError):
                waiting.result(0.4)
    new, kept, waited = (span.attributes or {} for span in captured.spans)
    connect = attributes.PHASE + "connect"
    assert 0 < new[connect] < 2  # type: ignore[operator]
    assert kept[connect] < waited[connect]  # type: ignore[operator]
    assert waited[connect] >= 0.4 - EARLY  # type: ignore[operator]


def test_an_adapter_of_the_program(captured: Captured) -> None:
    """An answer that does not come through the library's own adapter is read once it is there."""

    class Canned(BaseAdapter):
        def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
            response = requests.Response()
            response.status_code = 200
            response.request = request
            response.raw = io.BytesIO(json.dumps(CHAT).encode())
            return response

        def close(self) -> None:
            pass

    with requests.Session() as session:
        session.mount("http://", Canned())
        assert session.post("http://127.0.0.1:9/v1" + PATH, json=BODY).json() == CHAT
    _, said = only(captured)
    assert (said[attributes.ATTEMPTS], said[attributes.OUTPUT_TOKENS]) == (1, 6)


def test_nothing_private_is_recorded(server: ModelServer, captured: Captured) -> None:
    """No header, key, query, prompt, answer or error text is in a span."""
    server.replies = [Reply.json(CHAT), Reply.json({"error": {"message": "secret-error"}}, 400)]
    url = server.url.replace("//", "//secret-user:secret-password@") + PATH + "?api-key=secret-query"
    for _ in range(2):
        requests.post(url, json=BODY, headers={"x-key": "secret-key"}, timeout=5)
    recorded = "".join(span.to_json() for span in captured.spans)
    assert len(captured.spans) == 2
    assert "secret" not in recorded
    assert "Hello." not in recorded


PATCHED: list[tuple[Any, str]] = [
    (requests.Session, "send"),
    (HTTPAdapter, "send"),
    (urllib3.response.HTTPResponse, "read"),
    (urllib3.response.HTTPResponse, "read1"),
    (urllib3.response.HTTPResponse, "read_chunked"),
    (urllib3.response.HTTPResponse, "close"),
    (urllib3.connection.HTTPConnection, "connect"),
    (urllib3.connection.HTTPSConnection, "connect"),
    (urllib3.connectionpool.HTTPConnectionPool, "_get_conn"),
    (Retry, "sleep"),
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
                assert inspect.isgeneratorfunction(patched) == inspect.isgeneratorfunction(original)
                assert inspect.signature(patched) == inspect.signature(original)
                assert patched.__qualname__ == original.__qualname__
        assert all(vars(owner)[name] is was for (owner, name), was in zip(PATCHED, before, strict=True))
