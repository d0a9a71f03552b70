"""Rows of the catalogue of failures seen in comparable tools, each a test: streams."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from support.model_server import ModelServer, Reply
from support.pitfalls import MESSAGES, MODEL, async_client, chat
from support.recorded import only, said
from support.twin_outcomes import EVENTS

import agentprof
from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def _leave_with_block(stream: Any) -> None:
    with stream:
        next(stream)


def _close(stream: Any) -> None:
    next(stream)
    stream.close()


def _break(stream: Any) -> None:
    for _ in stream:
        break


@pytest.mark.parametrize("leave", [_leave_with_block, _close, _break, lambda stream: None])
def test_s1_a_stream_left_early_is_one_span(
    server: ModelServer, client: openai.OpenAI, captured: Captured, leave: Callable[[Any], None]
) -> None:
    """However it is left."""
    server.replies = [Reply.stream()]
    stream = chat(client, stream=True)
    leave(stream)
    del stream
    gc.collect()
    assert only(captured)[1][attributes.STREAM_END] == "abandoned"


def test_s2_a_streamed_response_is_one_span(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """`responses.create(stream=True)` with its first token and its end."""
    server.replies = [Reply.stream(EVENTS["responses"])]
    assert len(list(client.responses.create(model=MODEL, input="hi", stream=True))) == 9
    _, found = only(captured)
    assert found[attributes.STREAM_END] == "complete"
    assert found[attributes.FIRST_TOKEN] == found[attributes.FIRST_CONTENT]


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_s3_the_sdks_own_stream_managers(
    server: ModelServer, client: openai.OpenAI, captured: Captured, wire: str
) -> None:
    """Work unchanged, sync and async."""
    server.replies = [Reply.stream(EVENTS[wire])]

    def manager(to: Any) -> Any:
        if wire == "chat":
            return to.chat.completions.stream(model=MODEL, messages=MESSAGES)
        return to.responses.stream(model=MODEL, input="hi")

    with manager(client) as events:
        expected = [event.type for event in events]

    async def run() -> list[str]:
        async with async_client(server) as to, manager(to) as events:
            return [event.type async for event in events]

    assert asyncio.run(run()) == expected
    assert [said(span)[attributes.STREAM_END] for span in captured.spans] == ["complete"] * 2


def test_s5_a_task_ends_with_its_generator(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Pieces asked for in other contexts, as a web server does, are made in the task; its end is the last's."""
    server.replies = [Reply.stream()]

    @agentprof.task("answer")
    def answer() -> Iterator[str]:
        for piece in chat(client, stream=True):
            with agentprof.step("piece"):
                yield piece.id

    pieces = answer()
    while contextvars.copy_context().run(next, pieces, None) is not None:
        assert agentprof.current_task() is None
    steps, (call,), (root,) = (captured.named(name) for name in ("piece", "chat", "answer"))
    assert captured.spans[-1] is root
    assert root.context is not None
    assert len(steps) == 5
    assert all(span.parent is not None for span in (*steps, call))
    assert {span.context.trace_id for span in captured.spans if span.context} == {root.context.trace_id}
    assert {said(span)[attributes.TASK_ID] for span in captured.spans} == {said(root)[attributes.TASK_ID]}
