"""Observes the body of a response in place: same object, same chunks, ended exactly once.

Chunks are stamped where the bytes arrive. The observer stands in the response where its byte stream was,
below every way to read it (the SDK's stream, lines, text, bytes).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from agentprof import _guard
from agentprof._clock import stamp_ns
from agentprof._hidden_usage import UsageFilter
from agentprof.dialects import CONTENT, NOTHING, Answer, Dialect, EventReader, Frames
from agentprof.dialects._shape import Shape, shape_of
from agentprof.dialects._sse import Events

if TYPE_CHECKING:
    from agentprof._calls import Call

_MAX_BODY = 64 * 1024 * 1024
"""Bytes kept of a body that is read whole; a longer one is not understood."""

_LESSONS = 16
"""How often the shape of text is learnt in one stream: where it changes all the time it is of no use."""


_EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How a stream of events begins where it could be something else."""


_PACE_NS = 1_000_000
"""Chunks that follow each other faster than this keep nobody waiting."""
_AT_HAND_NS = 200_000
"""What comes within this time of being asked for was there before."""


class Arrivals:
    """What arrived of one body, and when. All stamps are readings of `stamp_ns()`."""

    __slots__ = (
        "_body",
        "_decoder",
        "_dialect",
        "_events",
        "_fits",
        "_keeps",
        "_may_learn",
        "_read",
        "_shape",
        "_size",
        "_stream",
        "answer",
        "asked",
        "first_chunk",
        "first_content",
        "first_token",
        "held",
        "last_chunk",
        "paced",
        "token_stamps",
    )

    def __init__(self, dialect: Dialect, answer: Answer, decoder: Any | None, stream: bool) -> None:
        """Args:
        stream: Whether the request asked for a stream.
        """
        self.answer = answer
        self.first_chunk: int | None = None
        self.last_chunk: int | None = None
        self.first_token: int | None = None
        self.first_content: int | None = None
        self.token_stamps: list[int] = []
        """One for each arrival with tokens."""
        self.paced = False
        """Whether chunks come so slowly that it is worth noting when they are asked for, in `asked`."""
        self.asked = 0
        self.held: list[tuple[int, int]] = []
        """Of chunks that were there before the program asked for them: their stamp, and how long it had not asked."""
        self._dialect = dialect
        self._decoder = decoder
        self._stream = stream
        self._events: Frames = Events()
        self._read: EventReader | None = None
        """None: a whole body, as far as is known."""
        self._shape: Shape | None = None
        self._fits: Shape | None = None
        """The shape while no event is incomplete."""
        self._may_learn = _LESSONS if decoder is None else 0
        self._body: list[bytes] = []
        self._keeps = True
        """Whether the body is to be read once it is whole; bytes of a medium are not."""
        self._size = 0

    def chunk(self, raw: bytes) -> None:
        """Take in bytes as they came from the network. Runs in the program: guarded by the caller."""
        now = stamp_ns()
        last = self.last_chunk
        self.last_chunk = now
        if last is not None and now - last > _PACE_NS:
            self.paced = True
            asked = self.asked
            if asked - last > _PACE_NS and now - asked < _AT_HAND_NS:
                self.held.append((now, asked - last))
        fits = self._fits
        if fits is not None and fits(raw):
            self.token_stamps.append(now)
        else:
            self._fits = None
            self._decode(raw, now)
            if not self._events.rest:
                self._fits = self._shape

    def _decode(self, raw: bytes, now: int) -> None:
        data = raw if self._decoder is None else b"".join(self._decoder.decode(raw))
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


class _Observed:
    """Stands where the byte stream of a response was. Whatever else is asked of it, the original answers."""

    def __init__(self, inner: Any, arrivals: Arrivals, call: Call) -> None:
        self._inner = inner
        self._arrivals = arrivals
        self._call = call
        self._hide: UsageFilter | None = None
        """What of the stream does not reach the program."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def _exhausted(self) -> None:
        self._call.stream_over(stamp_ns())

    def __del__(self) -> None:
        try:
            self._call.stream_left()
        except Exception:
            _guard.failed("ending a dropped stream")


def _iterate(self: Any) -> Iterator[bytes]:
    arrivals = self._arrivals
    take, hide = arrivals.chunk, self._hide
    try:
        for chunk in self._inner:
            try:
                take(chunk)
            except Exception:
                _guard.failed("reading a chunk")
            if hide is None:
                yield chunk
            else:
                yield hide(chunk)
            if arrivals.paced:
                arrivals.asked = stamp_ns()
        if hide is not None:
            yield hide.finish()
    except GeneratorExit:
        raise  # the reader stopped; `close` follows
    except BaseException as error:
        self._call.stream_failed(error, stamp_ns())
        raise
    self._exhausted()


def _close(self: Any) -> None:
    try:
        self._inner.close()
    finally:
        self._call.stream_left()


async def _aiterate(self: Any) -> AsyncIterator[bytes]:
    arrivals = self._arrivals
    take, hide = arrivals.chunk, self._hide
    inner = self._inner.__aiter__()
    try:
        async for chunk in inner:
            try:
                take(chunk)
            except Exception:
                _guard.failed("reading a chunk")
            yield chunk if hide is None else hide(chunk)
            if arrivals.paced:
                arrivals.asked = stamp_ns()
        if hide is not None:
            yield hide.finish()
    except GeneratorExit:
        raise
    except BaseException as error:
        self._call.stream_failed(error, stamp_ns())
        raise
    finally:
        if hasattr(inner, "aclose"):
            await inner.aclose()
    self._exhausted()


async def _aclose(self: Any) -> None:
    try:
        await self._inner.aclose()
    finally:
        self._call.stream_left()


_classes: dict[type, type] = {}


def _class_for(stream: Any) -> type | None:
    """A class of observers that the HTTP library takes for one of its own byte streams."""
    kind = type(stream)
    found = _classes.get(kind)
    if found is None:
        bases = tuple(base for base in kind.__mro__ if base.__name__ in ("SyncByteStream", "AsyncByteStream"))
        if not bases:
            return None
        body: dict[str, Any] = {}
        if any(base.__name__ == "SyncByteStream" for base in bases):
            body |= {"__iter__": _iterate, "close": _close}
        if any(base.__name__ == "AsyncByteStream" for base in bases):
            body |= {"__aiter__": _aiterate, "aclose": _aclose}
        found = _classes[kind] = type("ObservedStream", (_Observed, *bases), body)
    return found


def observe(response: Any, call: Call, dialect: Dialect, answer: Answer, stream: bool) -> Arrivals | None:
    """Start to observe a response of httpx or httpx2 whose body has not been read.

    Args:
        stream: Whether the request asked for a stream.

    Returns:
        What will arrive, or None if the response cannot be observed.
    """
    arrivals = Arrivals(dialect, answer, decoder_for(response), stream)
    observed = attach(response, arrivals, call)
    if observed is None:
        return None
    if call.hides_usage:
        observed._hide = UsageFilter(decoder_for(response))
        if arrivals.compressed:
            response._decoder = _decoders_of(response)["identity"]()
    return arrivals


def attach(response: Any, arrivals: Any, call: Any) -> Any | None:
    """Put an observer where the byte stream of a response was.

    Args:
        arrivals: Takes in each piece, by `chunk`.
        call: Is told how it ended, by `stream_over`, `stream_left` or `stream_failed`.

    Returns:
        The observer; None: the response cannot be observed.
    """
    holder, name = _place_of_stream(response)
    inner = getattr(holder, name)
    kind = _class_for(inner)
    if kind is None:
        return None
    observed = kind(inner, arrivals, call)
    setattr(holder, name, observed)
    return observed


def _place_of_stream(response: Any) -> tuple[Any, str]:
    """Where the byte stream is held: inside the one that measures time, so that the program sees that one."""
    bound = response.stream
    if type(bound).__name__ in ("BoundSyncStream", "BoundAsyncStream") and "_stream" in vars(bound):
        return bound, "_stream"
    return response, "stream"


def decoder_for(response: Any) -> Any | None:
    """A decompressor of our own for a compressed body, of the kinds the HTTP library knows."""
    encoding = response.headers.get("content-encoding")
    if not encoding or encoding.lower() == "identity":
        return None
    return _Decoder(_decoders_of(response)[encoding.strip().lower()]())


def _decoders_of(response: Any) -> Any:
    library = type(response).__module__.partition(".")[0]
    return vars(sys.modules[f"{library}._decoders"])["SUPPORTED_DECODERS"]


class _Decoder:
    """One decoder of httpx or httpx2: it gives bytes in the one, pieces in the other."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    def decode(self, raw: bytes) -> list[bytes]:
        decoded = self._decoder.decode(raw)
        return [decoded] if isinstance(decoded, bytes) else list(decoded)
