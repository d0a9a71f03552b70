"""Splitting server-sent events."""

import random

import pytest

from agentprof.dialects import _sse
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


@pytest.mark.parametrize("seed", range(20))
def test_long_events_are_not_looked_through_again(seed: int) -> None:
    """However they are cut and end: what is complete is found, and only a bounded part is kept at hand."""
    chance = random.Random(seed)
    texts = [b"x" * chance.choice([10, 20_000, 300_000]) + b'"' for _ in range(4)]
    ends = [chance.choice([b"\n\n", b"\r\n\r\n", b"\r\r"]) for _ in texts]
    stream = b"".join(b'data: {"t":"' + text + b"}" + end for text, end in zip(texts, ends, strict=True))
    events, found = Events(), []
    for size in iter(lambda: chance.choice([1, 2, 3, 1000, 16_384]), None):
        if not stream:
            break
        found += events.feed(stream[:size])
        stream = stream[size:]
        assert len(events.rest) < 40_000
    assert found + events.finish() == [b'{"t":"' + text + b"}" for text in texts]


def test_an_event_beyond_any_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is kept, and what comes after it is found."""
    monkeypatch.setattr(_sse, "_LIMIT", 100_000)
    events = Events()
    for _ in range(20):
        assert events.feed(b"data: " + b"x" * 50_000) == []
        assert sum(map(len, events._aside)) <= 100_000
    events.feed(b"\n\n")
    assert events.feed(b"data: 1\n\n") == [b"1"]


def test_a_last_event_without_an_empty_line() -> None:
    """What stands at the end of the body counts, though nothing closed it."""
    events = Events()
    assert events.feed(b"data: 1\n\ndata: 2") == [b"1"]
    assert events.finish() == [b"2"]
    assert not events.done
