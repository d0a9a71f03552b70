"""Calls of SDKs that repeat attempts themselves, on every HTTP library: one span from the first attempt to the end."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import httpx2
import pytest
import requests
from opentelemetry.sdk.trace import ReadableSpan
from support.model_server import CHAT, STREAM, ModelServer, Reply
from support.recorded import said

import agentprof
from agentprof import _repeated, attributes
from agentprof.seams import repeating
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
REFUSED = Reply.json({"error": "slow"}, 429)
HALF = Reply(
    [b'{"id": "chatcmpl-1", "choices": ['], headers={"content-type": "application/json"}, framing="cut"
)
GOOD = Reply.json(CHAT)


def failed(span: ReadableSpan) -> tuple[int, Any]:
    """How many attempts there were, and how those ended that failed."""
    of_span = said(span)
    return of_span[attributes.ATTEMPTS], of_span.get(attributes.ATTEMPT_STATUS, ())


# --- an SDK --------------------------------------------------------------------------------------
class Sdk:
    """Tries up to three times, on any of the sync libraries."""

    def __init__(self, send: Callable[..., Any], pause: Callable[[], None] = lambda: None) -> None:
        self.send = send
        self.pause = pause
        self.errors: list[BaseException] = []

    @repeating._repeats
    def request(self, url: str, tries: int = 3, **how: Any) -> Any:
        """Gives the first answer that is none of 429, else the last."""
        for left in range(tries - 1, -1, -1):
            try:
                answer = self.send(url, json=BODY | how)
                if answer.status_code != 429 or not left:
                    return answer
            except (httpx.HTTPError, httpx2.HTTPError, requests.RequestException) as error:
                self.errors.append(error)
                if not left:
                    raise
            self.pause()
        raise AssertionError

    @repeating._repeats
    def again(self, url: str, tries: int = 3) -> Any:
        """The same by recursion."""
        answer = self.send(url, json=BODY)
        return answer if answer.status_code != 429 or tries == 1 else self.again(url, tries - 1)


class AsyncSdk:
    """The same on any of the async libraries."""

    def __init__(self, send: Callable[..., Any], pause: Callable[[], Any] = lambda: asyncio.sleep(0)) -> None:
        self.send = send
        self.pause = pause

    @repeating._repeats_async
    async def request(self, url: str, tries: int = 3) -> Any:
        """Gives status and bytes of the first answer that is none of 429, else of the last."""
        for left in range(tries - 1, -1, -1):
            try:
                status, body = await self.send(url)
                if status != 429 or not left:
                    return status, body
            except (httpx.HTTPError, httpx2.HTTPError, aiohttp.ClientError):
                if not left:
                    raise
            await self.pause()
        raise AssertionError


SYNC: dict[str, Any] = {"httpx": httpx.post, "httpx2": httpx2.post, "requests": requests.post}


async def _by_httpx(library: Any, url: str) -> tuple[int, bytes]:
    async with library.AsyncClient() as client:
        answer = await client.post(url, json=BODY)
        return answer.status_code, answer.content


async def _by_aiohttp(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as answer:
        return answer.status, await answer.read()


ASYNC: dict[str, Any] = {
    "httpx": lambda url: _by_httpx(httpx, url),
    "httpx2": lambda url: _by_httpx(httpx2, url),
    "aiohttp": _by_aiohttp,
}


def used(library: str, server: ModelServer, pause: Callable[[], None] = lambda: None) -> int:
    """The status that one use of an SDK on a library ends in."""
    url = f"{server.url}/chat/completions"
    if library in SYNC:
        return Sdk(SYNC[library], pause).request(url).status_code  # type: ignore[no-any-return]

    async def paused() -> None:
        pause()

    status, _ = asyncio.run(AsyncSdk(ASYNC[library.removesuffix(", async")], paused).request(url))
    return status  # type: ignore[no-any-return]


LIBRARIES = [*SYNC, *(f"{name}, async" for name in ASYNC)]


# --- attempts ------------------------------------------------------------------------------------
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_refused_attempt_and_its_pause_belong_to_the_call(
    library: str, server: ModelServer, captured: Captured
) -> None:
    """Each with its length; what is between them was measured by the program too."""
    pauses: list[float] = []

    def pause() -> None:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.02:
            pass
        pauses.append(time.perf_counter() - begun)

    server.replies = [REFUSED, REFUSED, GOOD]
    begun = time.perf_counter()
    assert used(library, server, pause) == 200
    taken = time.perf_counter() - begun
    (span,) = captured.spans
    of_span = said(span)
    assert failed(span) == (3, ("429", "429"))
    assert of_span[attributes.INPUT_TOKENS] == 100
    assert attributes.ERROR_TYPE not in of_span
    noted, lengths = of_span[attributes.ATTEMPT_BACKOFF], of_span[attributes.ATTEMPT_DURATION]
    assert all(one >= paused for one, paused in zip(noted, pauses, strict=True))
    assert all(one > 0 for one in lengths)
    length = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
    assert sum(pauses) < sum(noted) + sum(lengths) < length < taken


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_that_breaks_is_a_failed_attempt(
    library: str, server: ModelServer, captured: Captured
) -> None:
    """It does not end the call, and leaves nothing in it."""
    server.replies = [HALF, REFUSED, GOOD]
    assert used(library, server) == 200
    (span,) = captured.spans
    assert failed(span) == (3, ("cut", "429"))
    assert said(span)[attributes.OUTPUT_TOKENS] == 6
    assert attributes.ERROR_TYPE not in said(span)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_that_breaks_at_last_ends_the_call(
    library: str, server: ModelServer, captured: Captured
) -> None:
    """With the error that the program gets."""
    server.replies = [REFUSED, HALF]
    with pytest.raises(
        (httpx.HTTPError, httpx2.HTTPError, requests.RequestException, aiohttp.ClientError)
    ) as got:
        used(library, server)
    (span,) = captured.spans
    assert failed(span) == (3, ("429", "cut", "cut"))
    assert said(span)[attributes.ERROR_TYPE] == got.type.__name__


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_last_refusal_is_what_the_call_ends_in(
    library: str, server: ModelServer, captured: Captured
) -> None:
    """Its status, where the SDK gives the answer on, and its headers."""
    server.replies = [Reply.json({"error": "slow"}, 429, retry_after="3", x_request_id="req_0")]
    assert used(library, server) == 429
    (span,) = captured.spans
    of_span = said(span)
    assert failed(span) == (3, ("429", "429", "429"))
    assert of_span[attributes.ERROR_TYPE] == "429"
    assert (of_span[attributes.REQUEST_ID], of_span[attributes.RETRY_AFTER]) == ("req_0", 3.0)
    length = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
    assert sum(of_span[attributes.ATTEMPT_DURATION]) + sum(
        of_span[attributes.ATTEMPT_BACKOFF]
    ) == pytest.approx(length)


def test_what_could_not_be_sent(captured: Captured) -> None:
    """No host: each attempt failed at its connection."""
    with ModelServer() as gone:
        url = f"{gone.url}/chat/completions"
    with pytest.raises(httpx2.ConnectError):
        Sdk(httpx2.post).request(url)
    (span,) = captured.spans
    assert failed(span) == (3, ("connection",) * 3)
    assert said(span)[attributes.ERROR_TYPE] == "ConnectError"


def test_repeated_by_recursion(server: ModelServer, captured: Captured) -> None:
    """The inner uses are attempts of the outer one."""
    server.replies = [REFUSED, REFUSED, GOOD]
    assert Sdk(httpx.post).again(f"{server.url}/chat/completions").status_code == 200
    assert [failed(span) for span in captured.spans] == [(3, ("429", "429"))]


def test_attempts_in_other_threads(server: ModelServer, captured: Captured) -> None:
    """As the first versions of google-genai make them."""

    async def send(url: str) -> tuple[int, bytes]:
        answer = await asyncio.to_thread(requests.post, url, json=BODY, timeout=20)
        return answer.status_code, answer.content

    server.replies = [REFUSED, GOOD]
    asyncio.run(AsyncSdk(send).request(f"{server.url}/chat/completions"))
    assert [failed(span) for span in captured.spans] == [(2, ("429",))]


# --- what is no attempt --------------------------------------------------------------------------
def test_requests_between_attempts_are_none(server: ModelServer, captured: Captured) -> None:
    """To log in, say; nor is anything a call that is repeated and does not go to a model."""
    server.replies = [REFUSED, Reply.json({"token": "t"}), GOOD]
    login = Sdk(httpx2.post, lambda: httpx2.post(f"{server.url}/token", json={}) and None)
    assert login.request(f"{server.url}/chat/completions").status_code == 200
    assert len(server.sent) == 3
    assert [failed(span) for span in captured.spans] == [(2, ("429",))]
    server.replies = [REFUSED, GOOD]
    Sdk(httpx2.post).request(f"{server.url}/files")
    assert len(captured.spans) == 1


def test_uses_side_by_side_are_calls_of_their_own(server: ModelServer, captured: Captured) -> None:
    """Each with its own attempts."""

    async def both() -> None:
        url, sdk = f"{server.url}/chat/completions", AsyncSdk(ASYNC["httpx2"])
        await asyncio.gather(*(sdk.request(url) for _ in range(4)))

    server.replies = [REFUSED] * 4 + [GOOD]
    asyncio.run(both())
    counted = [failed(span) for span in captured.spans]
    assert len(counted) == 4
    assert sum(attempts for attempts, _ in counted) == len(server.sent) == 8


def test_what_outlives_the_use_is_none_of_its_attempts(server: ModelServer, captured: Captured) -> None:
    """A task that was begun in between holds the scope in its context."""
    url = f"{server.url}/chat/completions"

    async def late(over: asyncio.Event) -> None:
        await over.wait()
        await ASYNC["httpx2"](url)

    async def main() -> None:
        over = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []

        async def pause() -> None:
            tasks.append(asyncio.create_task(late(over)))

        await AsyncSdk(ASYNC["httpx2"], pause).request(url)
        over.set()
        await tasks[0]

    server.replies = [REFUSED, GOOD]
    asyncio.run(main())
    assert [failed(span) for span in captured.spans] == [(2, ("429",)), (1, ())]


def test_a_context_that_was_copied_keeps_nothing(server: ModelServer, captured: Captured) -> None:
    """Not the call, with all that was noted of its answer."""

    def calls() -> set[int]:
        gc.collect()
        return {id(one) for one in gc.get_objects() if isinstance(one, _repeated.RepeatedCall)}

    held: list[contextvars.Context] = []
    before = calls()
    server.replies = [REFUSED, GOOD]
    Sdk(httpx2.post, lambda: held.append(contextvars.copy_context())).request(
        f"{server.url}/chat/completions"
    )
    assert len(held) == len(captured.spans) == 1
    assert calls() <= before


# --- ends ----------------------------------------------------------------------------------------
def test_cancelled_in_a_pause(server: ModelServer, captured: Captured) -> None:
    """The attempt before has its own length, the pause what was left of it."""

    async def main() -> None:
        in_pause = asyncio.Event()

        async def pause() -> None:
            in_pause.set()
            await asyncio.Event().wait()

        url = f"{server.url}/chat/completions"
        task = asyncio.create_task(AsyncSdk(ASYNC["httpx2"], pause).request(url))
        await in_pause.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    server.replies = [REFUSED]
    asyncio.run(main())
    (span,) = captured.spans
    assert failed(span) == (1, ("429",))
    assert said(span)[attributes.ERROR_TYPE] == "CancelledError"
    assert said(span)[attributes.ATTEMPT_BACKOFF][0] > 0


def test_a_stream_is_read_after_the_use(server: ModelServer, captured: Captured) -> None:
    """The call ends with it; what is still held of an attempt that broke ends nothing."""
    with httpx2.Client() as client:

        def send(url: str, json: Any) -> Any:
            response = client.send(client.build_request("POST", url, json=json), stream=True)
            if response.headers["content-type"] == "application/json":
                response.read()
            return response

        server.replies = [HALF, REFUSED, Reply.stream(STREAM)]
        sdk = Sdk(send)
        response = sdk.request(f"{server.url}/chat/completions", stream=True)
        assert captured.spans == []
        assert len(sdk.errors) == 1
        chunks = response.iter_bytes()
        next(chunks)
        sdk.errors.clear()
        gc.collect()
        assert captured.spans == []
        for _ in chunks:
            pass
    (span,) = captured.spans
    assert failed(span) == (3, ("cut", "429"))
    assert said(span)[attributes.STREAM_END] == "complete"
    assert attributes.FIRST_TOKEN in said(span)


def test_tokens_of_attempts_that_broke_are_not_estimated(server: ModelServer) -> None:
    """Only what came of the last one counts."""
    half = Reply.stream(STREAM[:3], "cut")
    bare = Reply.stream([*STREAM[:4], STREAM[-1]])
    counted = []
    for replies in ([bare], [half, bare]):
        server.replies = list(replies)
        with capture(estimate_usage=True) as captured:
            Sdk(httpx2.post).request(f"{server.url}/chat/completions", stream=True)
        (span,) = captured.spans
        counted.append(said(span)[attributes.OUTPUT_TOKENS])
    assert counted[0] == counted[1] > 0


def test_a_task_counts_the_call_once(server: ModelServer, captured: Captured) -> None:
    """In what it has spent and in its summary, with the attempts."""
    server.replies = [REFUSED, REFUSED, GOOD]
    with agentprof.task("t") as task:
        Sdk(httpx2.post).request(f"{server.url}/chat/completions")
        spent = task.spent()
    assert (spent.calls, spent.input_tokens) == (1, 100)
    summary = task.summary()
    assert (summary.calls, summary.attempts) == (1, 3)
    assert summary.timeline_ns["failed_attempt"] > 0


def test_a_use_in_which_it_is_switched_off(server: ModelServer) -> None:
    """The call ends with the use, with the attempts seen until then."""
    server.replies = [REFUSED, GOOD]
    with capture() as captured:
        sdk = Sdk(httpx2.post)

        def stop() -> None:
            agentprof.uninstrument()

        sdk.pause = stop
        assert sdk.request(f"{server.url}/chat/completions").status_code == 200
    assert [failed(span) for span in captured.spans] == [(1, ("429",))]
