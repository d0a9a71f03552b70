"""Observes the body of a response in place: same object, same chunks, ended exactly once.

Chunks are stamped where the bytes arrive. The observer stands in the response where its byte stream was,
below every way to read it (the SDK's stream, lines, text, bytes).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from agentprof import _guard
from agentprof._arrivals import SLOW_NS, Arrivals, Taker
from agentprof._clock import stamp_ns
from agentprof._hidden_usage import UsageFilter
from agentprof.dialects import Answer, Dialect

if TYPE_CHECKING:
    from agentprof._calls import Call


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
    arrivals, hide = self._arrivals, self._hide
    stamp, token_stamps = stamp_ns, arrivals.token_stamps
    asked = late = 0
    try:
        for chunk in self._inner:
            now = stamp()
            try:
                if late > SLOW_NS:
                    arrivals.waited(asked, late, now)
                fits = arrivals.fits
                if fits is not None and fits(chunk):
                    token_stamps.append(now)
                else:
                    arrivals.other(chunk, now)
            except Exception:
                _guard.failed("reading a chunk")
            if hide is None:
                yield chunk
            else:
                yield hide(chunk)
            asked = stamp()
            late = asked - now
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
    arrivals, hide = self._arrivals, self._hide
    stamp, token_stamps = stamp_ns, arrivals.token_stamps
    asked = late = 0
    inner = self._inner.__aiter__()
    try:
        async for chunk in inner:
            now = stamp()
            try:
                if late > SLOW_NS:
                    arrivals.waited(asked, late, now)
                fits = arrivals.fits
                if fits is not None and fits(chunk):
                    token_stamps.append(now)
                else:
                    arrivals.other(chunk, now)
            except Exception:
                _guard.failed("reading a chunk")
            yield chunk if hide is None else hide(chunk)
            asked = stamp()
            late = asked - now
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


def attach(response: Any, arrivals: Taker, call: Any) -> Any | None:
    """Put an observer where the byte stream of a response was.

    Args:
        arrivals: Takes in each piece, as a `Taker`.
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
