"""`stream_usage=True`: the provider is asked for the usage of a stream, and the program does not see that it was."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import openai
import pytest
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, chunk

from agentprof import attributes
from agentprof._hidden_usage import UsageFilter
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
WITHOUT = [*STREAM[:4], DONE]
"""What a server sends that was not asked for usage."""


def client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", max_retries=2)


def chunks(to: openai.OpenAI, **more: Any) -> list[Any]:
    found: Any = to.chat.completions.create(model="m", messages=MESSAGES, stream=True, **more)
    return [seen.model_dump() for seen in found]


def test_usage_is_asked_for_and_hidden(server: ModelServer) -> None:
    """The request says so, the span has the usage, the program gets what it gets without us; retries too."""
    refused = Reply.json({}, 429, retry_after_ms="1")
    with client(server) as to:
        server.replies = [Reply.stream(WITHOUT)]
        bare = chunks(to)
        server.replies = [refused, Reply.stream(STREAM)]
        with capture(stream_usage=True) as captured:
            assert chunks(to) == bare
    plain, *asking = (sent.json for sent in server.sent)
    assert "stream_options" not in plain
    assert [sent.pop("stream_options") for sent in asking] == [{"include_usage": True}] * 2
    assert asking == [plain, plain]
    said = dict(captured.spans[0].attributes or {})
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)
    assert said[attributes.STREAM_END] == "complete"


def test_an_async_stream(server: ModelServer) -> None:
    """In the same way."""

    async def run() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="x") as to:
            stream = await to.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            return [seen.model_dump() async for seen in stream]

    server.replies = [Reply.stream(WITHOUT)]
    bare = asyncio.run(run())
    server.replies = [Reply.stream(STREAM)]
    with capture(stream_usage=True) as captured:
        assert asyncio.run(run()) == bare
    assert (captured.spans[0].attributes or {})[attributes.OUTPUT_TOKENS] == 6


@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}])
def test_the_program_has_decided(server: ModelServer, options: Any) -> None:
    """Then nothing is added and nothing is hidden; its own object stays as it was."""
    server.replies = [Reply.stream(STREAM)]
    with client(server) as to, capture(stream_usage=True):
        assert len(chunks(to, stream_options=options)) == 5
    assert server.sent[0].json["stream_options"] == options
    assert len(options) == 1


def test_other_options_of_the_program_stay(server: ModelServer) -> None:
    """Its object is not changed; what it adds beside the body wins."""
    server.replies = [Reply.stream(STREAM)]
    options: Any = {"include_obfuscation": False}
    with client(server) as to, capture(stream_usage=True):
        assert len(chunks(to, stream_options=options)) == 4
        assert len(chunks(to, extra_body={"stream_options": {"other": 1}})) == 5
    assert options == {"include_obfuscation": False}
    assert [sent.json["stream_options"] for sent in server.sent] == [
        {"include_obfuscation": False, "include_usage": True},
        {"other": 1},
    ]


def test_other_requests_are_left_alone(server: ModelServer) -> None:
    """Whole answers, and everything while the option is off."""
    with client(server) as to:
        server.replies = [Reply.json(CHAT)]
        with capture(stream_usage=True):
            to.chat.completions.create(model="m", messages=MESSAGES)
        server.replies = [Reply.stream(WITHOUT)]
        with capture():
            chunks(to)
    assert all("stream_options" not in sent.json for sent in server.sent)


def test_a_compressed_stream(server: ModelServer) -> None:
    """Its usage chunk is hidden too."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in STREAM]
    reply = Reply.stream([*pieces, packer.flush()])
    reply.headers["content-encoding"] = "gzip"
    server.replies = [reply]
    with client(server) as to, capture(stream_usage=True) as captured:
        assert len(chunks(to)) == 4
    assert (captured.spans[0].attributes or {})[attributes.OUTPUT_TOKENS] == 6


def test_raw_lines(server: ModelServer) -> None:
    """A program that reads the bytes does not see it either."""
    server.replies = [Reply.stream(STREAM)]
    with client(server) as to, capture(stream_usage=True):
        created: Any = to.chat.completions.with_streaming_response.create
        with created(model="m", messages=MESSAGES, stream=True) as response:
            assert b"".join(response.iter_bytes()) == b"".join(WITHOUT)


@pytest.mark.parametrize("size", [1, 5, 64, 10_000])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_events_cut_anywhere(size: int, line_end: bytes) -> None:
    """Whatever pieces a stream comes in, all of it but the usage chunk is passed on, byte for byte."""
    content_filter = chunk(usage=None, prompt_filter_results=[{"note": '"usage"'}])
    text_of_it = chunk({"content": '"usage": {"choices": []}'})
    kept = [content_filter, text_of_it, *WITHOUT]
    stream = b"".join([*kept[:-1], STREAM[4], kept[-1]]).replace(b"\n", line_end)
    hide = UsageFilter(None)
    passed = b"".join(hide(stream[at : at + size]) for at in range(0, len(stream), size)) + hide.finish()
    assert passed == b"".join(kept).replace(b"\n", line_end)


def test_what_is_no_stream_is_passed_on() -> None:
    """A whole body, one cut in the middle, and one that is no JSON."""
    for body in (json.dumps(CHAT).encode(), STREAM[1][:20], b'data: {"usage"\n\n', b""):
        hide = UsageFilter(None)
        assert hide(body) + hide.finish() == body
