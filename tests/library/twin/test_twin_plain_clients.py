"""SDKs on plain HTTP clients that repeat failed attempts: program and server see the same, and one call is one span."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pickle
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from support.alike import differences
from support.model_server import ModelServer, Sent
from support.repeating_styles import SDKS
from support.twin_outcomes import LONGEST_WAIT_S, Gate
from support.twin_plain_clients import OUTCOMES, WAYS, Outcome, Way

from agentprof import _guard, _instrument, attributes
from agentprof._patching import Patch
from agentprof.testing import capture

COMBINATIONS = [
    (way, outcome)
    for way in WAYS
    for outcome in OUTCOMES
    if way.stream in outcome.kinds and not (outcome.leave == "cancel" and way.name == "raw" and way.stream)
]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One model endpoint for all trials, where it is always the same second: errors quote all headers.

    Nobody waits a second after a broken connection, as cohere does.
    """
    with pytest.MonkeyPatch.context() as patching, ModelServer() as running:
        patching.setattr(
            BaseHTTPRequestHandler, "date_time_string", lambda self: "Sun, 01 Nov 2026 00:00:00 GMT"
        )
        if find_spec("cohere") is not None:
            patching.setattr("cohere.core.http_client.INITIAL_RETRY_DELAY_SECONDS", 0.001)
        yield running


# --- a trial -------------------------------------------------------------------------------------
def trial(way: Way, outcome: Outcome, server: ModelServer) -> tuple[list[Any], list[Sent]]:
    """What the program sees of one call, in order, and what arrives at the server."""
    module, gate, seen = import_module(way.sdk), Gate(), []
    server.replies, server.sent = outcome.replies(way, gate), []
    try:
        if way.is_async:
            asyncio.run(_take_async(way, outcome, module, server, seen))
        else:
            _take(way, outcome, way.client(module, _base(server), outcome.retries, outcome.timeout_s), seen)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
        seen.append(error)
    finally:
        if outcome.name == "timeout":  # the program may have given up before its request was read
            assert gate.arrived.wait(LONGEST_WAIT_S)
        gate.through.set()
    return seen, server.sent


def _base(server: ModelServer) -> str:
    return server.url.removesuffix("/v1")


def _take(way: Way, outcome: Outcome, client: Any, seen: list[Any]) -> None:
    result = way.call(client, outcome.retries)
    with contextlib.ExitStack() as stack:
        if way.name == "raw" and way.stream:
            result = stack.enter_context(result)
        if way.name == "raw":
            seen.append((type(result), sorted(result.headers)))
            result = result.data
        if not way.stream:
            seen.append(result)
            return
        seen.append(type(result))
        for number, item in enumerate(result):
            seen.append(item)
            if outcome.leave == "break":
                break
            if outcome.leave == "close" and number == 0:
                (result if hasattr(result, "close") else result.response).close()


async def _take_async(way: Way, outcome: Outcome, module: Any, server: ModelServer, seen: list[Any]) -> None:
    client = way.client(module, _base(server), outcome.retries, outcome.timeout_s)
    result = way.call(client, outcome.retries)
    seen.append(type(result))
    if asyncio.iscoroutine(result):
        result = await result
    async with contextlib.AsyncExitStack() as stack:
        if way.name == "raw" and way.stream:
            result = await stack.enter_async_context(result)
        if way.name == "raw":
            seen.append((type(result), sorted(result.headers)))
            result = result.data
        if not way.stream:
            seen.append(result)
            return
        seen.append(type(result))
        number = 0
        async for item in result:
            seen.append(item)
            if outcome.leave == "break":
                break
            if outcome.leave == "close" and number == 0:
                await (result.aclose() if hasattr(result, "aclose") else result.response.aclose())
            number += 1


# --- what must hold ------------------------------------------------------------------------------
def _name(combination: tuple[Way, Outcome]) -> str:
    return "-".join(map(str, (combination[0], combination[1].name)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("combination", COMBINATIONS, ids=_name)
def test_twins_see_the_same(combination: tuple[Way, Outcome], server: ModelServer) -> None:
    """Types, values, chunks, exceptions with their chains, bytes sent; one span, with every request an attempt."""
    way, outcome = combination
    pytest.importorskip(way.sdk, reason="the SDK is not installed")
    failures = _guard.counts()
    bare, sent_bare = trial(way, outcome, server)
    with capture() as captured:
        traced, sent = trial(way, outcome, server)
        differing = list(differences(bare, traced))
        traced.clear()  # a stream that was left may be held by what was seen
        gc.collect()
    assert differing == []
    assert [(one.path, one.body) for one in sent] == [(one.path, one.body) for one in sent_bare]
    assert _rest(sent) == _rest(sent_bare)
    assert all("traceparent" in one.headers for one in sent)
    (span,) = captured.spans
    assert (span.attributes or {})[attributes.ATTEMPTS] == len(sent)
    assert _guard.counts() == failures


def _rest(sent: list[Sent]) -> list[list[tuple[str, str]]]:
    return [[pair for pair in one.head if pair[0].lower() != "traceparent"] for one in sent]


def _module(patch: Patch) -> str:
    return str(getattr(patch.owner, "__module__", ""))


@pytest.mark.parametrize("name", ["google-genai", "mistralai", "cohere"])
def test_undoing_leaves_no_trace(name: str) -> None:
    """What is patched can be pickled meanwhile, and is afterwards what it was before, in its place."""
    if SDKS[name].module() is None:
        pytest.skip("the SDK is not installed")
    home = "google.genai" if name == "google-genai" else name
    with capture():
        patched = [one for one in _instrument._applied if _module(one).startswith(f"{home}.")]
        for one in patched:
            assert pickle.loads(pickle.dumps(one.replacement)) is one.replacement
    assert patched
    assert all(vars(one.owner)[one.name] is one.original for one in patched)
