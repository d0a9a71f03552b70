"""Undoing leaves the process as it was: attributes, threads, hooks at exit and fork, processors, objects."""

from __future__ import annotations

import asyncio
import atexit
import functools
import gc
import inspect
import multiprocessing.util
import os
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiohttp
import httpcore  # noqa: F401
import httpx
import httpx2
import openai
import pytest
import requests
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.model_server import CHAT, ModelServer, Reply
from support.real_programs import eventually

import agentprof
from agentprof import _guard, _instrument, _recent
from agentprof._patching import Patch
from agentprof.testing import capture

BODY: dict[str, Any] = {"model": "m", "messages": []}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model endpoint that always gives the same answer."""
    with ModelServer() as running:
        running.replies = [Reply.json(CHAT)]
        yield running


def _patches() -> list[Patch]:
    with capture():
        return list(_instrument._applied)


async def _call_async(server: ModelServer) -> list[str]:
    async with openai.AsyncOpenAI(api_key="x", base_url=server.url) as client:
        ids = [(await client.chat.completions.create(**BODY)).id]
    url = f"{server.url}/chat/completions"
    async with httpx2.AsyncClient() as http:
        ids.append((await http.post(url, json=BODY)).json()["id"])
    async with aiohttp.ClientSession() as session, session.post(url, json=BODY) as response:
        ids.append((await response.json())["id"])
    return ids


def _call(server: ModelServer) -> list[str]:
    """One call through each library."""
    with openai.OpenAI(api_key="x", base_url=server.url) as client:
        ids = [client.chat.completions.create(**BODY).id]
    url = f"{server.url}/chat/completions"
    ids.append(httpx.post(url, json=BODY).json()["id"])
    ids.append(httpx2.post(url, json=BODY).json()["id"])
    ids.append(requests.post(url, json=BODY, timeout=5).json()["id"])
    return ids + asyncio.run(_call_async(server))


CALLS = 7


def _attributes(owners: list[Any]) -> list[list[tuple[str, int]]]:
    """Names and identities of all attributes, in their order."""
    return [[(name, id(value)) for name, value in _held(owner).items()] for owner in owners]


def _held(owner: Any) -> Mapping[str, Any]:
    """A cell of a closure has nothing but its contents."""
    return {"cell_contents": owner.cell_contents} if isinstance(owner, types.CellType) else vars(owner)


def test_every_attribute_is_the_one_before(server: ModelServer) -> None:
    """By identity and in the same place, for everything that is patched, also after calls."""
    owners = list({id(patch.owner): patch.owner for patch in _patches()}.values())
    before = _attributes(owners)
    with capture() as captured:
        _call(server)
        assert _attributes(owners) != before
    assert _attributes(owners) == before
    assert _instrument._applied == []
    assert len(captured.spans) == CALLS
    assert _call(server) == ["chatcmpl-1"] * CALLS
    assert len(captured.spans) == CALLS


def _on_top(inner: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(inner):

        @functools.wraps(inner)
        async def theirs(*args: Any, **kwargs: Any) -> Any:
            return await inner(*args, **kwargs)
    else:

        @functools.wraps(inner)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            return inner(*args, **kwargs)

    return theirs


def test_what_others_patched_on_top_survives(server: ModelServer) -> None:
    """For every attribute: it stays theirs, ours below passes through, and a second time counts once."""
    failures = _guard.counts()
    theirs = {}
    with capture() as first:
        patches = list(_instrument._applied)
        for patch in patches:
            theirs[patch] = _on_top(patch.replacement)
            setattr(patch.owner, patch.name, theirs[patch])
        _call(server)
    try:
        assert len(first.spans) == CALLS
        assert all(patch.current() is theirs[patch] for patch in patches)
        assert _call(server) == ["chatcmpl-1"] * CALLS
        assert len(first.spans) == CALLS
        for _ in range(2):
            with capture() as again:
                assert _call(server) == ["chatcmpl-1"] * CALLS
            assert len(again.spans) == CALLS
            assert {(span.attributes or {})["agentprof.attempts"] for span in again.spans} == {1}
        assert all(patch.current() is theirs[patch] for patch in patches)
    finally:
        for patch in patches:
            setattr(patch.owner, patch.name, patch.original)
    with capture() as afresh:
        _call(server)
    assert len(afresh.spans) == CALLS
    assert all(patch.current() is patch.original for patch in patches)
    assert _instrument._applied == []
    assert _guard.counts() == failures


def test_bound_methods_kept_by_the_program_stay_silent(server: ModelServer) -> None:
    """A method taken while instrumented works on after the undo, without spans."""
    with openai.OpenAI(api_key="x", base_url=server.url) as client:
        with capture() as captured:
            request, create = client.request, client.chat.completions.create
            create(**BODY)
        assert create(**BODY).id == "chatcmpl-1"
        assert request.__func__ is not type(client).request
        assert len(captured.spans) == 1


_FOLDER = os.path.dirname(agentprof.__file__)


def _ours() -> Counter[str]:
    """How many objects of ours there are, by class, and functions by name."""
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType):
            if one.__code__.co_filename.startswith(_FOLDER):
                found[one.__code__.co_qualname] += 1
        elif str(type(one).__module__).startswith("agentprof"):
            found[type(one).__qualname__] += 1
    return found


def test_a_hundred_times_leaves_nothing(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither threads, nor hooks at exit, fork or import, nor processors, nor objects of ours."""
    forks: list[Any] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: forks.append(hooks))
    provider = TracerProvider(shutdown_on_exit=False)
    theirs, mine = InMemorySpanExporter(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(theirs))
    client = openai.OpenAI(api_key="x", base_url=server.url)
    owners = [patch.owner for patch in _patches()]
    before = _attributes(owners)

    def once() -> None:
        agentprof.instrument(tracer_provider=provider, exporter=mine)
        with agentprof.task("t"):
            client.chat.completions.create(**BODY)
        agentprof.uninstrument()

    def state() -> dict[str, Any]:
        return {
            "threads": sorted(
                thread.name for thread in threading.enumerate() if "process_request" not in thread.name
            ),
            "at exit": atexit._ncallbacks(),
            "at fork": len(forks),
            "finalizers": len(multiprocessing.util._finalizer_registry),  # type: ignore[attr-defined]
            "finders": len(sys.meta_path),
            "processors": len(provider._active_span_processor._span_processors),
        }

    for _ in range(_recent.TASKS + 1):  # spans of the latest tasks are kept for their summaries
        once()
    # The last thread of an export ends by itself, and with it what it holds.
    assert eventually(
        lambda: None if "agentprof-export" in state()["threads"] else True, "the end of a thread"
    )
    settled, ours = state(), _ours()
    for _ in range(100):
        once()
    assert eventually(lambda: True if state() == settled else None, "the state there was")
    assert eventually(lambda: True if _ours() - ours == Counter() else None, "the end of all objects")
    assert settled["processors"] == 3  # the program's, the one that knows tasks, the one that exports
    assert _attributes(owners) == before
    for exporter in (theirs, mine):
        assert Counter(span.name for span in exporter.get_finished_spans()) == {
            "t": _recent.TASKS + 101,
            "chat m": _recent.TASKS + 101,
        }
    client.close()
