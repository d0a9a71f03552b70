"""Splitting server-sent events."""

import random

import pytest

from agentprof.dialects._sse import Events

STREAM = (
    b": a comment\n\n"
    b'event: first\ndata: {"a": 1}\n\n'
    b'data:{"b": 2}\r\n\r\n'
    b'id: 7\ndata: {"c":\ndata: 3}\n\n'
    b"retry: 10\n\n"
    b"data: \xc3\xa9\r\r"
    b"data: [DONE]\n\n"
)
DATA = [b'{"a": 1}', b'{"b": 2}', b'{"c":\n3}', "é".encode()]


@pytest.mark.parametrize("seed", range(50))
def test_pieces_do_not_matter(seed: int) -> None:
    """However the bytes are cut, the same events come out, and the closing mark is seen."""
    chance = random.Random(seed)
    events, found, rest = Events(), [], STREAM
    while rest:
        size = chance.randint(1, 1 + seed)
        found += events.feed(rest[:size])
        rest = rest[size:]
    assert found + events.finish() == DATA
    assert events.done


def test_a_last_event_without_an_empty_line() -> None:
    """What stands at the end of the body counts, though nothing closed it."""
    events = Events()
    assert events.feed(b"data: 1\n\ndata: 2") == [b"1"]
    assert events.finish() == [b"2"]
    assert not events.done
