"""Streams from which the usage chunk is taken: whatever goes wrong, the program gets what it gets without us."""

from __future__ import annotations

import zlib
from typing import Any

import openai
import pytest
from support.model_server import STREAM, ModelServer, Reply

from agentprof import _guard, attributes
from agentprof._hidden_usage import UsageFilter
from agentprof.testing import capture

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]


def test_a_compressed_stream_that_is_broken(server: ModelServer) -> None:
    """The program gets what could be decompressed, and then the error it gets without us."""
    packer = zlib.compressobj(wbits=31)
    reply = Reply.stream([packer.compress(STREAM[1]) + packer.flush(zlib.Z_SYNC_FLUSH), b"\xff" * 40])
    reply.headers["content-encoding"] = "gzip"
    server.replies = [reply]

    def outcome() -> tuple[list[Any], str]:
        seen: list[Any] = []
        try:
            for piece in to.chat.completions.create(model="m", messages=MESSAGES, stream=True):
                seen.append(piece.model_dump())
        except openai.APIError as error:
            return seen, f"{error!r} from {error.__cause__!r}"
        return seen, ""

    with openai.OpenAI(base_url=server.url, api_key="x") as to:
        bare = outcome()
        with capture(stream_usage=True) as captured:
            assert outcome() == bare
    assert len(bare[0]) == 1
    assert "from DecodingError(" in bare[1]
    assert (captured.spans[0].attributes or {})[attributes.STREAM_END] == "error"


@pytest.mark.parametrize("size", [4096, 10_000_000])
def test_events_nested_too_deep_to_be_read(size: int) -> None:
    """They are passed on whole, at the end of a stream too, and are no failure of ours."""
    before = _guard.counts()
    deep = b'data: {"choices":[],"usage":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    stream = STREAM[1] + deep + b"\n\n" + STREAM[2] + deep
    hide = UsageFilter(None)
    passed = b"".join(hide(stream[at : at + size]) for at in range(0, len(stream), size)) + hide.finish()
    assert passed == stream
    assert _guard.counts() == before


@pytest.mark.parametrize("size", [100, 16_384, 10_000_000])
def test_long_events_are_passed_on_as_they_come(size: int) -> None:
    """Only what may still be a usage chunk waits; one that comes after an image is hidden all the same."""
    image = b'data: {"choices":[],"usage":{"x":"' + b"A" * 1_000_000 + b'"}}\n\n'
    stream, kept = STREAM[0] + image + STREAM[4] + STREAM[1], STREAM[0] + image + STREAM[1]
    hide, passed, most = UsageFilter(None), b"", 0
    for at in range(0, len(stream), size):
        passed += hide(stream[at : at + size])
        most = max(most, len(hide._rest))
    assert passed + hide.finish() == kept
    assert most <= 64 * 1024


def test_a_failure_of_ours_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited for its end is passed on with the rest; from then on so is the usage chunk."""
    failures = _guard.counts().get("hiding the usage of a stream", 0)
    hide = UsageFilter(None)
    passed = hide(STREAM[0] + STREAM[1][:20])
    monkeypatch.setattr("agentprof._hidden_usage._is_usage", lambda event: 1 / 0)
    passed += hide(STREAM[1][20:])
    monkeypatch.undo()
    assert passed + hide(STREAM[4]) == STREAM[0] + STREAM[1] + STREAM[4]
    assert _guard.counts()["hiding the usage of a stream"] == failures + 1
