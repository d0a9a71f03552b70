"""Calls of the real SDK against a real server: the program notices nothing."""

import asyncio
import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest
from support.model_server import CHAT, ModelServer, Reply
from support.openai_calls import MESSAGES, MODEL, chat, client
from support.recorded import only

import agentprof
from agentprof import _guard, attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def test_nothing_private_is_recorded(server: ModelServer, captured: Captured) -> None:
    """No header, key, prompt or answer is anywhere in the span."""
    server.replies = [Reply.json(CHAT), Reply.json({"error": {"message": "secret-error"}}, 400)]
    with client(server) as to:
        chat(to, extra_headers={"Authorization": "Bearer secret-header"})
        with pytest.raises(openai.BadRequestError):
            chat(to)
    recorded = "".join(span.to_json() for span in captured.spans)
    assert "secret" not in recorded
    assert "Hello." not in recorded


def test_same_bytes_go_out(server: ModelServer) -> None:
    """With and without instrumentation the request is equal, but for `traceparent` to a private address."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        chat(to)
        with capture() as captured:
            chat(to)
        with capture(propagate_to=()):
            chat(to)
    bare, ours, unpropagated = server.sent
    span = captured.spans[0]
    assert span.context is not None
    assert (
        ours.headers.pop("traceparent") == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-03"
    )
    for sent in (bare, ours, unpropagated):
        sent.headers.pop("x-stainless-idempotency-key", None)
        sent.headers.pop("idempotency-key", None)
    assert bare.body == ours.body == unpropagated.body
    assert bare.headers == ours.headers == unpropagated.headers


def test_only_named_hosts_get_a_traceparent(server: ModelServer) -> None:
    """`propagate_to` names the hosts, and nobody else gets the header."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        with capture(propagate_to=["models.example.com"]):
            chat(to)
        with capture(propagate_to=["127.0.0.1"]):
            chat(to)
    assert ["traceparent" in sent.headers for sent in server.sent] == [False, True]


def test_types_are_unchanged(server: ModelServer, captured: Captured) -> None:
    """Streams are the SDK's own objects, raw and streaming responses too, and a copy of one works."""
    server.replies = [Reply.stream()]
    with client(server) as to:
        stream = chat(to, stream=True)
        assert type(stream) is openai.Stream
        assert type(copy.copy(stream)) is openai.Stream
        assert len(list(stream)) == 5
        raw = to.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, stream=True)
        assert type(raw).__name__ == "LegacyAPIResponse"
        assert raw.headers["content-type"] == "text/event-stream"
        assert len(list(raw.parse())) == 5
        with to.chat.completions.with_streaming_response.create(
            model=MODEL, messages=MESSAGES, stream=True
        ) as response:
            assert sum(line.startswith("data:") for line in response.iter_lines()) == 6
            assert response.elapsed.total_seconds() > 0
    ends = [(span.attributes or {})[attributes.STREAM_END] for span in captured.spans]
    assert ends == ["complete"] * 3
    assert all((span.attributes or {})[attributes.OUTPUT_TOKENS] == 6 for span in captured.spans)


def test_a_whole_body_read_by_the_program(server: ModelServer, captured: Captured) -> None:
    """A streaming response that is no stream is understood once the program has read it."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to:
        with to.chat.completions.with_streaming_response.create(model=MODEL, messages=MESSAGES) as response:
            assert response.parse().id == "chatcmpl-1"
        assert (
            to.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES).parse().usage
            is not None
        )
    for span in captured.spans:
        assert (span.attributes or {})[attributes.OUTPUT_TOKENS] == 6
        assert attributes.STREAM_END not in (span.attributes or {})
    assert len(captured.spans) == 2


def test_a_failing_dialect_is_not_noticed(
    server: ModelServer, captured: Captured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error inside us is counted and logged once; the program gets its answer, and the span its end."""
    from agentprof.dialects import openai_chat

    def broken(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(openai_chat, "_read_body", broken)
    monkeypatch.setattr(openai_chat, "_note_chunk", broken)
    monkeypatch.setattr(_guard, "_counts", {})
    server.replies = [Reply.json(CHAT), Reply.json(CHAT), Reply.stream()]
    with client(server) as to:
        assert chat(to).id == chat(to).id
        assert len(list(chat(to, stream=True))) == 5
    assert len(captured.spans) == 3
    assert _guard.counts() == {"reading an answer": 2, "reading a chunk": 5}
    assert len([record for record in caplog.records if record.name == "agentprof"]) == 2
    monkeypatch.undo()


def test_calls_in_threads_hang_from_their_task(server: ModelServer, captured: Captured) -> None:
    """A call in a pool, a thread or an executor of asyncio belongs to the task that asked for it."""
    server.replies = [Reply.json(CHAT)]
    with client(server) as to, ThreadPoolExecutor(1) as pool:
        with agentprof.task("outer") as task:
            pool.submit(chat, to).result()
            thread = threading.Thread(target=chat, args=(to,))
            thread.start()
            thread.join()

            async def run() -> None:
                await asyncio.get_running_loop().run_in_executor(None, chat, to)
                await asyncio.to_thread(chat, to)

            asyncio.run(run())
        pool.submit(chat, to).result()
    *calls, root, outside = captured.spans
    assert root.context is not None
    assert len(calls) == 4
    for span in calls:
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert (span.attributes or {})[attributes.TASK_ID] == task.id
    assert outside.parent is None
    assert attributes.TASK_ID not in (outside.attributes or {})


def test_a_custom_http_client(server: ModelServer, captured: Captured) -> None:
    """A client of the user's own is observed like the SDK's."""
    server.replies = [Reply.stream()]
    with httpx2.Client() as http, client(server, http_client=http) as to:
        assert len(list(chat(to, stream=True))) == 5
    assert only(captured)[1][attributes.OUTPUT_TOKENS] == 6
