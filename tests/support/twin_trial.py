"""One call of a twin test, sync or async, and everything the program saw of it."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import httpx
import httpx2
import openai
from support.model_server import ModelServer, Reply, Sent
from support.twin_outcomes import LONGEST_WAIT_S, Gate, Outcome
from support.twin_styles import Style

OTHER_SDKS = {
    "anthropic": ("anthropic", "Anthropic", False),
    "cerebras": ("cerebras.cloud.sdk", "Cerebras", True),
    "groq": ("groq", "Groq", True),
    "together": ("together", "Together", True),
}
"""By the client of a style: module, class, and whether it is on httpx instead of httpx2."""
KEY = "sk-test"
_VERIFY = ssl.create_default_context()


class _Left(Exception):
    """The program leaves a stream with an error of its own."""


@dataclass
class Trial:
    """What one call looked like from the program and from the server."""

    seen: list[tuple[str, Any]] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)

    def saw(self, what: str, value: Any) -> None:
        self.seen.append((what, value))


class _TimesOut(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """A transport on which nothing arrives any more after some events."""

    def __init__(self, inner: Any, events: int) -> None:
        self._inner, self._events = inner, events

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        response.stream = _Silent(response.stream, self._events)
        return response  # type: ignore[no-any-return]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        response.stream = _Silent(response.stream, self._events)
        return response  # type: ignore[no-any-return]

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Silent(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __init__(self, inner: Any, events: int) -> None:
        self._inner, self._left = inner, events

    def _after(self, data: bytes) -> bytes:
        self._left -= data.count(b"\n\n")
        return data

    def __iter__(self) -> Iterator[bytes]:
        for data in self._inner:
            yield self._after(data)
            if self._left <= 0:
                raise httpx2.ReadTimeout("nothing came")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            yield self._after(data)
            if self._left <= 0:
                raise httpx2.ReadTimeout("nothing came")

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


def run(style: Style, outcome: Outcome, is_async: bool, server: ModelServer) -> Trial:
    """Make the call, take its result, and note what happened."""
    trial, gate = Trial(), Gate()
    server.replies = outcome.replies(style.wire, gate)
    server.sent = []
    trial.arguments = style.arguments()
    try:
        if is_async:
            asyncio.run(_run_async(style, outcome, server, trial))
        else:
            _run(style, outcome, server, trial)
        if outcome.name == "timeout":  # the program may have given up before the server has read its request
            assert gate.arrived.wait(LONGEST_WAIT_S)
    finally:
        gate.through.set()
    trial.sent = server.sent
    return trial


def _options(outcome: Outcome, server: ModelServer) -> dict[str, Any]:
    timeout = httpx2.Timeout(20.0, read=outcome.read_timeout_s)
    return {"api_key": KEY, "base_url": server.url, "max_retries": outcome.retries, "timeout": timeout}


def _client(style: Style, own: Any, azure: Any, http: Any, legacy: Any, options: dict[str, Any]) -> Any:
    if style.client in OTHER_SDKS:
        module, name, on_httpx = OTHER_SDKS[style.client]
        kind = getattr(import_module(module), name if own is openai.OpenAI else f"Async{name}")
        options = options | {"base_url": options["base_url"].removesuffix("/v1")}
        if on_httpx:
            options["timeout"] = httpx.Timeout(20.0, read=options["timeout"].read)
        if style.client == "cerebras":
            options["warm_tcp_connection"] = False
        return kind(http_client=legacy(verify=_VERIFY) if on_httpx else http, **options)
    if style.client == "azure":
        deployed = {**options, "base_url": None, "azure_endpoint": options["base_url"]}
        return azure(http_client=http, api_version="2026-01-01", **deployed)
    return own(http_client=legacy(verify=_VERIFY) if style.client == "legacy" else http, **options)


def _final(events: Any) -> Any:
    """What gives the whole answer at the end of a helper's stream."""
    names = ("get_final_completion", "get_final_response", "get_final_message")
    return next(getattr(events, name) for name in names if hasattr(events, name))


# --- sync ----------------------------------------------------------------------------------------
def _interrupt(response: httpx2.Response) -> None:
    raise KeyboardInterrupt


def _run(style: Style, outcome: Outcome, server: ModelServer, trial: Trial) -> None:
    how: dict[str, Any] = {"verify": _VERIFY}
    if outcome.times_out_after is not None:
        how = {"transport": _TimesOut(httpx2.HTTPTransport(verify=_VERIFY), outcome.times_out_after)}
    if outcome.leave == "cancel" and not style.streams:
        how["event_hooks"] = {"response": [_interrupt]}
        server.replies = [Reply.json({})]
    http = openai.DefaultHttpxClient(**how)
    options = _options(outcome, server)
    with _client(style, openai.OpenAI, openai.AzureOpenAI, http, httpx.Client, options) as client:
        if style.module_level:
            _set_module(options | {"http_client": http})
        try:
            _take(style, outcome, openai if style.module_level else client, trial)
        except BaseException as error:  # noqa: BLE001
            trial.saw("raised", error)
        finally:
            if style.module_level:
                _set_module(dict.fromkeys([*options, "http_client"]) | {"max_retries": 2})


def _set_module(options: dict[str, Any]) -> None:
    for name, value in options.items():
        setattr(openai, name, value)
    openai._reset_client()  # type: ignore[attr-defined]


def _take(style: Style, outcome: Outcome, client: Any, trial: Trial) -> None:
    result = style.call(client, **trial.arguments)
    trial.saw("result", result)
    match style.take:
        case "value":
            _copies(result, trial)
        case "raw":
            trial.saw("parsed", result.parse())
            trial.saw("retries", result.retries_taken)
            _copies(result, trial)
        case "opened":
            with result as response:
                trial.saw("opened", response)
                trial.saw("text", response.text())
                trial.saw("parsed", response.parse())
        case "lines":
            with result as response:
                trial.saw("opened", response)
                _read(response.iter_lines(), response, outcome, trial)
        case "manager":
            with result as events:
                _read(events, events, outcome, trial)
                if outcome.leave is None:
                    trial.saw("final", _final(events)())
        case _:
            stream = result.parse() if style.take == "raw stream" else result
            _copies(stream, trial)
            _read(stream, stream, outcome, trial)
            trial.saw("response", stream.response)


def _read(items: Any, closing: Any, outcome: Outcome, trial: Trial) -> None:
    for number, item in enumerate(items):
        trial.saw(f"item {number}", item)
        if number == 1 and outcome.leave is not None:
            if outcome.leave in ("break", "drop"):
                break
            if outcome.leave == "raise":
                raise _Left
            if outcome.leave == "cancel":
                raise KeyboardInterrupt
            closing.close()


# --- async ---------------------------------------------------------------------------------------
async def _run_async(style: Style, outcome: Outcome, server: ModelServer, trial: Trial) -> None:
    how: dict[str, Any] = {"verify": _VERIFY}
    if outcome.times_out_after is not None:
        how = {"transport": _TimesOut(httpx2.AsyncHTTPTransport(verify=_VERIFY), outcome.times_out_after)}
    http, options = openai.DefaultAsyncHttpxClient(**how), _options(outcome, server)
    opened = _client(style, openai.AsyncOpenAI, openai.AsyncAzureOpenAI, http, httpx.AsyncClient, options)
    async with opened as client:
        task = asyncio.create_task(_take_async(style, outcome, client, trial))
        if outcome.leave == "cancel" and not style.streams:
            loop, (reply,) = asyncio.get_running_loop(), server.replies
            server.replies = [Reply(b"", before=_then(loop, task, reply.before))]
        try:
            await task
        except BaseException as error:  # noqa: BLE001
            trial.saw("raised", error)


def _then(loop: Any, task: asyncio.Task[None], wait: Any) -> Callable[[], None]:
    def before() -> None:
        loop.call_soon_threadsafe(task.cancel)
        wait()

    return before


async def _take_async(style: Style, outcome: Outcome, client: Any, trial: Trial) -> None:
    result = style.call(client, **trial.arguments)
    trial.saw("called", result)
    if style.take not in ("opened", "lines", "manager"):
        result = await result
        trial.saw("result", result)
    match style.take:
        case "value":
            _copies(result, trial)
        case "raw":
            trial.saw("parsed", await _parsed(result))
            trial.saw("retries", result.retries_taken)
            _copies(result, trial)
        case "opened":
            async with result as response:
                trial.saw("opened", response)
                trial.saw("text", await response.text())
                trial.saw("parsed", await response.parse())
        case "lines":
            async with result as response:
                trial.saw("opened", response)
                await _read_async(response.iter_lines(), response, outcome, trial)
        case "manager":
            async with result as events:
                await _read_async(events, events, outcome, trial)
                if outcome.leave is None:
                    trial.saw("final", await _final(events)())
        case _:
            stream = await _parsed(result) if style.take == "raw stream" else result
            _copies(stream, trial)
            await _read_async(stream, stream, outcome, trial)
            trial.saw("response", stream.response)


async def _parsed(raw: Any) -> Any:
    """Some SDKs parse at once, others when asked for."""
    parsed = raw.parse()
    return await parsed if inspect.isawaitable(parsed) else parsed


async def _read_async(items: Any, closing: Any, outcome: Outcome, trial: Trial) -> None:
    number = 0
    async for item in items:
        trial.saw(f"item {number}", item)
        if number == 1 and outcome.leave is not None:
            if outcome.leave in ("break", "drop"):
                break
            if outcome.leave == "raise":
                raise _Left
            if outcome.leave == "cancel":
                current = asyncio.current_task()
                assert current is not None
                current.cancel()
            else:
                await closing.close()
        number += 1


# --- copies --------------------------------------------------------------------------------------
def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _copies(value: Any, trial: Trial) -> None:
    """Note what copying and pickling give: a copy, or the error that says why not."""
    for copied in (copy.copy, copy.deepcopy, _pickled):
        try:
            trial.saw(copied.__name__, copied(value))
        except Exception as error:  # noqa: BLE001
            trial.saw(copied.__name__, (type(error), str(error)))
