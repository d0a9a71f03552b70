"""Many threads with many asyncio tasks each, all at work in agentprof tasks of their own at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
from opentelemetry.sdk.trace import ReadableSpan
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import attributes
from agentprof.testing import Captured, capture

EVERY = 7
"""Spans of one worker: its task, one inside it, a tool, and four calls."""


class _Events(httpx2.AsyncByteStream):
    async def __aiter__(self) -> Any:
        for event in EVENTS["chat"]:
            await asyncio.sleep(0)
            yield event


async def _answer(request: httpx2.Request) -> httpx2.Response:
    """The model asked for is the model that answers; others may run meanwhile."""
    await asyncio.sleep(0)
    if b'"stream":true' in request.content:
        stream = _Events()
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)
    return _answer_sync(request)


def _answer_sync(request: httpx2.Request) -> httpx2.Response:
    model = request.headers["x-model"]
    return httpx2.Response(200, json=WHOLE["chat"] | {"model": model, "id": f"chatcmpl-{model}"})


def _ask(client: Any, name: str, **more: Any) -> Any:
    return client.chat.completions.create(model=name, messages=[], extra_headers={"x-model": name}, **more)


@agentprof.tool
async def look(to: openai.AsyncOpenAI, name: str) -> None:
    """A tool that asks the model."""
    await asyncio.sleep(0)
    await _ask(to, name)


async def _work(to: openai.AsyncOpenAI, plain: openai.OpenAI, name: str) -> None:
    with agentprof.task(name, id=name) as task:
        await _ask(to, name)
        await look(to, name)
        async with agentprof.task("inner", id=f"{name}-inner"):
            async for _ in await _ask(to, name, stream=True):
                held = agentprof.current_task()
                assert held is not None
                assert held.id == f"{name}-inner"
        await asyncio.to_thread(_ask, plain, name)
        assert agentprof.current_task() is task


async def _loop(thread: int, tasks: int, plain: openai.OpenAI, together: threading.Barrier) -> None:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(_answer))
    async with openai.AsyncOpenAI(api_key="x", base_url="http://crowd.invalid/v1", http_client=http) as to:
        together.wait(60)
        await asyncio.gather(*(_work(to, plain, f"{thread}-{number}") for number in range(tasks)))


def gather(threads: int, tasks: int) -> Captured:
    """Run them all; gives the spans they made."""
    together = threading.Barrier(threads)
    http = httpx2.Client(transport=httpx2.MockTransport(_answer_sync))
    with (
        capture() as captured,
        openai.OpenAI(api_key="x", base_url="http://crowd.invalid/v1", http_client=http) as plain,
        ThreadPoolExecutor(threads) as pool,
    ):
        done = [pool.submit(asyncio.run, _loop(thread, tasks, plain, together)) for thread in range(threads)]
        for one in done:
            one.result()
    return captured


def faults(captured: Captured, threads: int, tasks: int) -> list[str]:
    """What was lost, and what ended up in a task or below a parent that is not its own."""
    spans = {span.context.span_id: span for span in captured.spans if span.context is not None}
    found = []
    if len(captured.spans) != len(spans) or len(spans) != threads * tasks * EVERY:
        found.append(f"{len(captured.spans)} spans, {len(spans)} different, of {threads * tasks * EVERY}")
    counted: Counter[str] = Counter()
    for span in captured.spans:
        said: dict[str, Any] = dict(span.attributes or {})
        task_id = said[attributes.TASK_ID]
        counted[task_id] += 1
        owner = task_id.removesuffix("-inner")
        parent = spans.get(span.parent.span_id) if span.parent is not None else None
        above = _task_of(parent)
        if said.get(attributes.OPERATION) == "chat":
            if said[attributes.REQUEST_MODEL] != owner or above != task_id:
                found.append(f"{span.name} is in {task_id}, below {above}")
        elif attributes.TASK_NAME in said:
            if above != (owner if task_id != owner else None):
                found.append(f"task {task_id} is below {above}")
        elif above != task_id:
            found.append(f"{span.name} of {task_id} is below {above}")
    for thread in range(threads):
        for number in range(tasks):
            name = f"{thread}-{number}"
            if (counted[name], counted[f"{name}-inner"]) != (EVERY - 2, 2):
                found.append(f"{name} has {counted[name]} and {counted[f'{name}-inner']} spans")
    return found


def _task_of(span: ReadableSpan | None) -> Any:
    return None if span is None else (span.attributes or {})[attributes.TASK_ID]
