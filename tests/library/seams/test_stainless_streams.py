"""Streams of the real SDK: what the span says of them, however the program reads them."""

import asyncio
import gc
import zlib
from collections.abc import Callable
from typing import Any

import openai
import pytest
from opentelemetry.trace import StatusCode
from support.model_server import ROLE, STREAM, ModelServer, Reply
from support.openai_calls import MESSAGES, MODEL, async_client, chat, client
from support.recorded import only
from support.timed_calls import EARLY

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


def test_first_token_is_not_the_role(server: ModelServer, captured: Captured) -> None:
    """Headers and a role come late, content later: the clock starts at the call, and the role is no token."""
    server.replies = [Reply.stream([ROLE, 2 * EARLY, *STREAM[1:]], wait_s=0.1)]
    with client(server) as to:
        assert [c.choices[0].delta.content for c in chat(to, stream=True) if c.choices] == [
            "",
            "Hel",
            "lo.",
            None,
        ]
    _, said = only(captured)
    assert said[attributes.TIME_TO_FIRST_CHUNK] >= 0.09
    assert said[attributes.FIRST_TOKEN] - said[attributes.TIME_TO_FIRST_CHUNK] >= EARLY
    assert said[attributes.FIRST_CONTENT] == said[attributes.FIRST_TOKEN]
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.PHASE_SOURCE + "generation"] == "observed"
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)


def test_the_sdks_own_stream_manager(server: ModelServer, captured: Captured) -> None:
    """`chat.completions.stream()` works unchanged, sync and async."""
    server.replies = [Reply.stream()]

    async def run() -> str | None:
        async with (
            async_client(server) as to,
            to.chat.completions.stream(model=MODEL, messages=MESSAGES) as events,
        ):
            return (await events.get_final_completion()).choices[0].message.content

    with client(server) as to, to.chat.completions.stream(model=MODEL, messages=MESSAGES) as events:
        assert events.get_final_completion().choices[0].message.content == "Hello."
    assert asyncio.run(run()) == "Hello."
    assert [(span.attributes or {})[attributes.STREAM_END] for span in captured.spans] == ["complete"] * 2


def _leave_with_block(stream: Any) -> None:
    with stream:
        next(stream)
        next(stream)


def _close(stream: Any) -> None:
    next(stream)
    next(stream)
    stream.close()


def _break(stream: Any) -> None:
    for seen, _ in enumerate(stream):
        if seen == 1:
            break


@pytest.mark.parametrize("leave", [_leave_with_block, _close, _break])
def test_a_stream_left_early(server: ModelServer, captured: Captured, leave: Callable[[Any], None]) -> None:
    """However a stream is left, it gives one span that ends with the last chunk that came."""
    server.replies = [Reply.stream([*STREAM[:2], 0.5, *STREAM[2:]])]
    with client(server) as to:
        stream = chat(to, stream=True)
        leave(stream)
        del stream
        gc.collect()
    span, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert attributes.FIRST_TOKEN in said
    assert span.start_time is not None
    assert span.end_time is not None
    assert (span.end_time - span.start_time) / 1e9 == pytest.approx(
        said[attributes.FIRST_TOKEN] + said[attributes.PHASE + "client"], abs=1e-6
    )
    assert said[attributes.PHASE + "client"] < 2


def test_a_stream_nobody_reads(server: ModelServer, captured: Captured) -> None:
    """A stream that is dropped before its first chunk gives one span, and a failed attempt."""
    server.replies = [Reply.stream([0.3, *STREAM])]
    with client(server) as to:
        stream = chat(to, stream=True)
        assert captured.spans == []
        del stream
        gc.collect()
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "abandoned"
    assert said[attributes.ATTEMPT_STATUS] == ("cancelled",)


def test_a_broken_stream(server: ModelServer, captured: Captured) -> None:
    """A connection that breaks in mid-stream is an error with the exception's class."""
    server.replies = [Reply.stream(STREAM[:3], framing="cut")]
    with client(server) as to, pytest.raises(openai.APIConnectionError):
        list(chat(to, stream=True))
    span, said = only(captured)
    assert span.status.status_code is StatusCode.ERROR
    assert said[attributes.ERROR_TYPE] == "RemoteProtocolError"
    assert said[attributes.STREAM_END] == "error"


def test_cancelled_while_iterating(server: ModelServer, captured: Captured) -> None:
    """An asyncio task cancelled in mid-stream is recorded as cancelled, and the exception goes on."""
    server.replies = [Reply.stream([*STREAM[:2], 5.0])]

    async def run() -> None:
        async with async_client(server) as to:
            reading = asyncio.Event()

            async def read() -> None:
                async for _ in await to.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True):
                    reading.set()

            task = asyncio.create_task(read())
            await reading.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    span, said = only(captured)
    assert said[attributes.STREAM_END] == "cancelled"
    assert said[attributes.ERROR_TYPE] == "CancelledError"
    assert span.status.status_code is StatusCode.ERROR


def test_compressed_streams_are_read(server: ModelServer, captured: Captured) -> None:
    """Tokens are seen in a gzip body too."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in STREAM]
    reply = Reply.stream([*pieces, packer.flush()])
    reply.headers["content-encoding"] = "gzip"
    server.replies = [reply]
    with client(server) as to:
        assert len(list(chat(to, stream=True))) == 5
    _, said = only(captured)
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert attributes.FIRST_TOKEN in said


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_split_anywhere(server: ModelServer, captured: Captured, size: int) -> None:
    """Events are found whatever pieces they come in, with CRLF line ends and comments between."""
    body = b": ping\r\n\r\n" + b"".join(STREAM).replace(b"\n", b"\r\n")
    server.replies = [Reply.stream([body[at : at + size] for at in range(0, len(body), size)])]
    with client(server) as to:
        assert len(list(chat(to, stream=True))) == 5
    _, said = only(captured)
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6
    assert said[attributes.FINISH_REASONS] == ("stop",)
