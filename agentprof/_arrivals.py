"""What arrives of the body of one answer, and when: stamped where the bytes come, decoded no more than it has to be."""

from __future__ import annotations

from typing import Any, Protocol

from agentprof._clock import stamp_ns
from agentprof.dialects import CONTENT, NOTHING, Answer, Dialect, EventReader, Frames
from agentprof.dialects._shape import Shape, shape_of
from agentprof.dialects._sse import Events

_MAX_BODY = 64 * 1024 * 1024
"""Bytes kept of a body that is read whole; a longer one is not understood."""

_LESSONS = 16
"""How often the shape of text is learnt in one stream: where it changes all the time it is of no use."""

_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of events begins where it could be something else."""

SLOW_NS = 1_000_000
"""A program that takes longer than this to ask for the next chunk is one that reads slowly."""
_AT_HAND_NS = 200_000
"""What comes within this time of being asked for was there before."""


class Taker(Protocol):
    """Takes in what arrives. The fields are for the loop around it, which calls nothing for the next piece of text."""

    fits: Shape | None
    """Tells the next piece of text from everything else; None: nothing is to be told so."""
    token_stamps: list[int]
    """One for each arrival with tokens."""

    def other(self, raw: bytes, now: int) -> None:
        """Bytes came that are not just the next piece of text."""

    def waited(self, asked: int, late: int, now: int) -> None:
        """The program took long to ask for the bytes that come next."""


class Arrivals:
    """What arrived of one body, and when. All stamps are readings of `stamp_ns()`."""

    __slots__ = (
        "_body",
        "_decoder",
        "_dialect",
        "_events",
        "_keeps",
        "_last",
        "_may_learn",
        "_read",
        "_shape",
        "_size",
        "_stream",
        "answer",
        "first_chunk",
        "first_content",
        "first_token",
        "fits",
        "held",
        "token_stamps",
    )

    def __init__(self, dialect: Dialect, answer: Answer, decoder: Any | None, stream: bool) -> None:
        """Args:
        stream: Whether the request asked for a stream.
        """
        self.answer = answer
        self.first_chunk: int | None = None
        self.first_token: int | None = None
        self.first_content: int | None = None
        self.token_stamps: list[int] = []
        """One for each arrival with tokens."""
        self.held: list[tuple[int, int]] = []
        """Of chunks that were there before the program asked for them: their stamp, and how long it had not asked."""
        self._dialect = dialect
        self._decoder = decoder
        self._stream = stream
        self._events: Frames = Events()
        self._read: EventReader | None = None
        """None: a whole body, as far as is known."""
        self._shape: Shape | None = None
        self.fits: Shape | None = None
        """None while an event is incomplete."""
        self._last: int | None = None
        """The last chunk that had to be decoded."""
        self._may_learn = _LESSONS if decoder is None else 0
        self._body: list[bytes] = []
        self._keeps = True
        """Whether the body is to be read once it is whole; bytes of a medium are not."""
        self._size = 0

    def chunk(self, raw: bytes, asked: int | None = None) -> None:
        """Take in bytes as they came from the network. Runs in the program: guarded by the caller.

        Args:
            asked: When the program asked for them, if that is known.
        """
        now = stamp_ns()
        last = self.last_chunk
        if asked is not None and last is not None and asked - last > SLOW_NS:
            self.waited(asked, asked - last, now)
        fits = self.fits
        if fits is not None and fits(raw):
            self.token_stamps.append(now)
        else:
            self.other(raw, now)

    def other(self, raw: bytes, now: int) -> None:
        """Take in bytes that are not just the next piece of text."""
        self._last = now
        self.fits = None
        self._decode(raw, now)
        if not self._events.rest:
            self.fits = self._shape

    def waited(self, asked: int, late: int, now: int) -> None:
        """The program took long to ask for a chunk: what was there then was held up by it.

        Args:
            asked: When it asked.
            late: How long that was after the chunk before.
            now: When the chunk came.
        """
        if now - asked < _AT_HAND_NS:
            self.held.append((now, late))

    @property
    def last_chunk(self) -> int | None:
        """When the last one came."""
        last = self._last
        return max(last, self.token_stamps[-1]) if last is not None and self.token_stamps else last

    def _decode(self, raw: bytes, now: int) -> None:
        data = raw if self._decoder is None else self._decompressed(raw)
        if self._read is None and self._begin(now, data):
            self._collect(data)
            return
        tokens = NOTHING
        found = self._events.feed(data)
        if self.first_chunk is None and found:
            self.first_chunk = now  # after comments that keep a connection open
        for event in found:
            carried = self._read(event)  # type: ignore[misc]
            if carried > tokens:
                tokens = carried
        if tokens:
            if self.first_token is None:
                self.first_token = now
            if tokens == CONTENT and self.first_content is None:
                self.first_content = now
            self.token_stamps.append(now)
        # Of the other events nothing but their arrival counts while their text is all that changes.
        if tokens == CONTENT and len(found) == 1 and self._may_learn and not self._events.rest:
            self._learn(data)

    def _decompressed(self, raw: bytes) -> bytes:
        try:
            return b"".join(self._decoder.decode(raw))  # type: ignore[union-attr]
        except Exception:
            return b""  # the body is damaged, as the program's own decompressor tells it

    def _learn(self, data: bytes) -> None:
        dialect = self._dialect
        self._may_learn -= 1
        self._shape = shape_of(data, dialect.text_key, dialect.type_says_all) if dialect.text_key else None

    def _begin(self, now: int, data: bytes) -> bool:
        """Note the first bytes; True if they do not begin a stream of events."""
        if self.first_chunk is None:
            start = data.lstrip()
            if not start:
                return True  # empty lines keep a connection open while the server has nothing to say
            if not start.startswith(b":"):
                self.first_chunk = now
            frames = self._dialect.frames(start) if self._stream else None
            if frames is not None:
                self._events = frames
                self._read = self._dialect.event_reader(self.answer)
            elif start[:1] not in (b"{", b"["):
                whole = self._dialect.may_be_binary or not self._stream
                if whole and not start.startswith(_EVENT_STARTS):
                    self._keeps = False
                else:
                    self._read = self._dialect.event_reader(self.answer)
        return self._read is None

    def _collect(self, data: bytes) -> None:
        self._size += len(data)
        if self._keeps and self._size <= _MAX_BODY:
            self._body.append(data)

    def complete(self) -> None:
        """The body is over: read what is left of it."""
        if self._read is not None:
            for event in self._events.finish():
                self._read(event)
        elif self._body and self._size <= _MAX_BODY:
            self._dialect.read_body(b"".join(self._body), self.answer)
            self._body.clear()

    @property
    def compressed(self) -> bool:
        """Whether what arrives has to be decompressed."""
        return self._decoder is not None

    @property
    def closing_mark(self) -> bool:
        """Whether the mark that ends a stream was seen."""
        return self._events.done

    @property
    def is_event_stream(self) -> bool:
        """Whether the body turned out to be a stream of events."""
        return self._read is not None
