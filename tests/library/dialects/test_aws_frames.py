"""Streams of AWS frames, whatever the pieces they arrive in, and bytes that are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.aws_frames import chunk, exception, frame

from agentprof.dialects._aws_frames import Frames

EVENTS = [{"type": "a", "text": "x" * 300}, {"type": "b"}]
STREAM = b"".join(chunk(json.dumps(event).encode()) for event in EVENTS)


def raw(kind: str, payload: bytes) -> bytes:
    return kind.encode() + b" " + payload


def test_types_and_payloads() -> None:
    """Of each frame its event type and its payload; headers of other types than text are passed over."""
    number = bytes([4]) + b"size" + b"\x04" + (7).to_bytes(4)
    one = frame(b"{}", event_type="metadata")
    size, headers = int.from_bytes(one[:4]), int.from_bytes(one[4:8])
    with_number = (
        (size + len(number)).to_bytes(4) + (headers + len(number)).to_bytes(4) + one[8:12] + number + one[12:]
    )
    assert Frames(raw).feed(one + with_number) == [b"metadata {}", b"metadata {}"]


@given(st.integers(1, 60))
def test_any_pieces(size: int) -> None:
    """Each event once, when its frame is complete."""
    frames = Frames(raw)
    found = [event for at in range(0, len(STREAM), size) for event in frames.feed(STREAM[at : at + size])]
    assert found == Frames(raw).feed(STREAM)
    assert len(found) == len(EVENTS)
    assert frames.rest == b""
    assert frames.finish() == []


def test_an_exception() -> None:
    """Its kind, as an error event."""
    (event,) = Frames(raw).feed(exception("throttlingException"))
    assert json.loads(event) == {"type": "error", "error": {"type": "throttlingException"}}


@pytest.mark.parametrize(
    "data", [b"\0\0\0\x05\0\0\0\0abcdefgh", b"\xff" * 40, b"\0\0\0\x20\0\0\0\xff" + b"x" * 30]
)
def test_broken_frames(data: bytes) -> None:
    """Sizes that cannot be end the reading."""
    frames = Frames(raw)
    assert frames.feed(data) == []
    assert frames.rest == b""


@given(st.binary(max_size=80))
def test_no_bytes_raise(data: bytes) -> None:
    """Whatever they are."""
    frames = Frames(raw)
    frames.feed(data)
    frames.feed(frame(data, event_type="x")[:-3] + data)
    frames.finish()
