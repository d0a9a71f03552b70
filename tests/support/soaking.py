"""Many calls in one process, half of them streams that are abandoned in every way, and what is left of them.

The transport is in the process: no sockets, no waiting.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import httpx2
import openai
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import _calls

MODEL = "gpt-4o-mini"
MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
_SSE = {"content-type": "text/event-stream"}


class _Events(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that arrives event by event, and may break."""

    def __init__(self, events: Sequence[bytes], error: Exception | None = None) -> None:
        self._events, self._error = events, error

    def __iter__(self) -> Iterator[bytes]:
        yield from self._events
        if self._error is not None:
            raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            await asyncio.sleep(0)  # let the other calls interleave
            yield event
        if self._error is not None:
            raise self._error


def _answer(request: httpx2.Request) -> httpx2.Response:
    """The first part of the path says which answer to give."""
    path = request.url.path
    wire = "responses" if "responses" in path else "embeddings" if "embeddings" in path else "chat"
    if path.startswith("/retry") and request.headers["x-stainless-retry-count"] == "0":
        return httpx2.Response(429, headers={"retry-after-ms": "0.001"}, json={"error": {}})
    if path.startswith("/refused"):
        return httpx2.Response(400, json={"error": {"message": "no"}})
    if path.startswith("/broken"):
        return httpx2.Response(
            200, headers=_SSE, stream=_Events(EVENTS[wire][:3], httpx2.ReadError("broken"))
        )
    if b'"stream":true' in request.content:
        return httpx2.Response(200, headers=_SSE, stream=_Events(EVENTS[wire]))
    return httpx2.Response(200, json=WHOLE[wire])


async def _answer_async(request: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(0)
    return _answer(request)


def _sync(kind: str) -> openai.OpenAI:
    http = httpx2.Client(transport=httpx2.MockTransport(_answer))
    return openai.OpenAI(api_key="x", base_url=f"http://soak.invalid/{kind}/v1", http_client=http)


def _async(kind: str) -> openai.AsyncOpenAI:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(_answer_async))
    return openai.AsyncOpenAI(api_key="x", base_url=f"http://soak.invalid/{kind}/v1", http_client=http)


class Seen(SpanProcessor, SpanExporter):
    """Which spans are open, and how often they ended; exports nothing."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.started = self.ended = self.exported = self.ended_again = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started += 1
        self.open.add(span.get_span_context().span_id)

    def on_end(self, span: ReadableSpan) -> None:
        assert span.context is not None
        self.ended += 1
        self.open.remove(span.context.span_id)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.exported += len(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to close."""


class _Complaints(logging.Handler):
    """Counts what the SDK says of spans that are ended a second time."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        self._seen.ended_again += 1


class Sample(NamedTuple):
    """The process after some calls."""

    calls: int
    resident_kb: int
    objects: int
    """Tracked by the garbage collector."""
    ours: int
    """Of them those of classes of agentprof and OpenTelemetry."""
    open_spans: int
    reading: int
    """Streams that agentprof takes for being read."""


class Soak:
    """One process under load. Use it as a context manager: it instruments the process."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.calls = 0
        self.abandoned = 0
        self.rounds = 0
        self._complaints = _Complaints(self.seen)
        self._log = logging.getLogger("opentelemetry.sdk.trace")

    def __enter__(self) -> Soak:
        self._log.addHandler(self._complaints)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.seen)
        agentprof.instrument(tracer_provider=provider, exporter=self.seen)
        self._clients = {kind: _sync(kind) for kind in ("plain", "retry", "refused", "broken")}
        self._async_client = _async("plain")
        self._loop = asyncio.new_event_loop()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.run_until_complete(self._async_client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
        for client in self._clients.values():
            client.close()
        agentprof.uninstrument()
        self._log.removeHandler(self._complaints)

    def run(self, calls: int) -> None:
        """Make at least so many more calls, every second round of them in a task."""
        until = self.calls + calls
        while self.calls < until:
            self.rounds += 1
            if self.rounds % 2:
                with agentprof.task("round") as task:
                    self._round()
                    task.outcome("success")
            else:
                self._round()

    def sample(self) -> Sample:
        """How it stands when everything that can be let go is."""
        self._loop.run_until_complete(asyncio.sleep(0))
        agentprof.flush()
        gc.collect()
        with open("/proc/self/statm") as file:
            resident_kb = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
        tracked = gc.get_objects()
        ours = sum(str(type(one).__module__).startswith(("agentprof", "opentelemetry")) for one in tracked)
        return Sample(self.calls, resident_kb, len(tracked), ours, len(self.seen.open), len(_calls._reading))

    def _round(self) -> None:
        for way in _WHOLE:
            way(self._clients)
        for way in _ABANDONED:
            way(self._clients)
        self._loop.run_until_complete(self._round_async())
        self.calls += len(_WHOLE) + len(_WHOLE_ASYNC) + len(_ABANDONED) + len(_ABANDONED_ASYNC)
        self.abandoned += len(_ABANDONED) + len(_ABANDONED_ASYNC)

    async def _round_async(self) -> None:
        await asyncio.gather(*(way(self._async_client) for way in (*_WHOLE_ASYNC, *_ABANDONED_ASYNC)))


Clients = dict[str, openai.OpenAI]


def _chat(clients: Clients, kind: str = "plain") -> Any:
    return clients[kind].chat.completions.create(model=MODEL, messages=MESSAGES)


def _stream(clients: Clients, kind: str = "plain") -> Any:
    return clients[kind].chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)


def _response_stream(clients: Clients) -> Any:
    return clients["plain"].responses.create(model=MODEL, input="hi", stream=True)


# --- calls that come to their end ----------------------------------------------------------------
def _raw(clients: Clients) -> None:
    clients["plain"].chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES).parse()


def _refused(clients: Clients) -> None:
    with suppress(openai.BadRequestError):
        _chat(clients, "refused")


def _opened(clients: Clients) -> None:
    create = clients["plain"].chat.completions.with_streaming_response.create
    with create(model=MODEL, messages=MESSAGES) as response:
        response.read()


_WHOLE: list[Callable[[Clients], Any]] = [
    _chat,
    lambda clients: clients["plain"].responses.create(model=MODEL, input="hi"),
    lambda clients: clients["plain"].embeddings.create(model=MODEL, input="hi"),
    lambda clients: _chat(clients, "retry"),
    lambda clients: list(_stream(clients)),
    _raw,
    _refused,
    _opened,
    lambda clients: list(_response_stream(clients)),
]


async def _chat_async(client: openai.AsyncOpenAI) -> None:
    await client.chat.completions.create(model=MODEL, messages=MESSAGES)


async def _stream_async(client: openai.AsyncOpenAI) -> None:
    async for _ in await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
        pass


_WHOLE_ASYNC: list[Callable[[openai.AsyncOpenAI], Any]] = [_chat_async, _stream_async]


# --- streams that are abandoned ------------------------------------------------------------------
def _break(clients: Clients) -> None:
    for _ in _stream(clients):
        break


def _close(clients: Clients) -> None:
    stream = _stream(clients)
    next(stream)
    stream.close()


def _leave(clients: Clients) -> None:
    with _response_stream(clients) as stream:
        next(stream)


def _raise(clients: Clients) -> None:
    with suppress(LookupError):
        for _ in _stream(clients):
            raise LookupError


def _forget_in_a_cycle(clients: Clients) -> None:
    stream = _response_stream(clients)
    next(stream)
    stream.itself = stream


def _leave_the_manager(clients: Clients) -> None:
    with clients["plain"].chat.completions.stream(model=MODEL, messages=MESSAGES) as events:
        next(iter(events))


def _be_broken_off(clients: Clients) -> None:
    with suppress(openai.APIConnectionError):
        list(_stream(clients, "broken"))


_ABANDONED: list[Callable[[Clients], Any]] = [
    _break,
    _close,
    _leave,
    _leave_the_manager,
    _raise,
    _stream,  # and nobody reads it
    _forget_in_a_cycle,
    _be_broken_off,
]


async def _break_async(client: openai.AsyncOpenAI) -> None:
    async for _ in await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
        break


async def _close_async(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(model=MODEL, input="hi", stream=True)
    await anext(stream)
    await stream.close()


async def _cancel(client: openai.AsyncOpenAI) -> None:
    task = asyncio.create_task(_stream_async(client))
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


_ABANDONED_ASYNC: list[Callable[[openai.AsyncOpenAI], Any]] = [_break_async, _close_async, _cancel]
