"""urllib3 below requests: getting a connection, retries inside an exchange, and the body as it arrives.

Bodies are observed in place: a response that belongs to a call has its observer among its attributes, and
the methods through which all bytes come look for it there.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from agentprof import _calls, _guard
from agentprof._calls import Call
from agentprof._clock import stamp_ns
from agentprof._connecting import Stretch
from agentprof._failures import failure_kind
from agentprof._hidden_usage import UsageFilter
from agentprof._patching import Patch, patches_in

MODULES: Final[tuple[str, ...]] = (
    "urllib3.connection",
    "urllib3.connectionpool",
    "urllib3.response",
    "urllib3.util.retry",
)

_OBSERVER: Final = "_agentprof_observer"
_HANDSHAKE: Final = "_ssl_wrap_socket_and_match_hostname"


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in one of the modules; what a version of the library lacks is not."""
    found = patches_in(module, _WANTED[module.__name__])
    handshake = vars(module).get(_HANDSHAKE)  # from urllib3 2 on
    if handshake is not None:
        found.append(Patch(module, _HANDSHAKE, handshake, _handshake(handshake)))
    return found


# --- the body ------------------------------------------------------------------------------------
class _Observer:
    """Of one response; it goes when the response goes."""

    def __init__(self, call: Call, decoder: Any | None) -> None:
        self._call = call
        self._decoder = _Optional(decoder) if decoder is not None else None
        self._arrivals = call.arrivals(self._decoder)
        self._asked: int | None = None
        """When the program last wanted more."""
        self.hide = UsageFilter(None) if call.hides_usage else None
        """What of the stream does not reach the program."""
        self.reading = False
        """Whether the library is at it: it closes a broken response before it raises."""

    def took(self, response: Any, data: Any, decoded: Any) -> None:
        """Bytes came, decompressed or not."""
        try:
            if data:
                if self._decoder is not None:
                    self._decoder.needed = not decoded
                self._arrivals.chunk(data, self._asked)
            if response.closed and not _holds_more(response):
                self.over()
        except Exception:
            _guard.failed("reading a chunk")

    def asked(self) -> None:
        """The program wants more."""
        self._asked = stamp_ns()

    def over(self) -> None:
        """The body came to its end."""
        self._call.stream_over(stamp_ns())

    def failed(self, error: BaseException) -> None:
        """Reading raised."""
        self._call.stream_failed(error, stamp_ns())

    def left(self) -> None:
        """The response was closed, perhaps before the end of its body."""
        if not self.reading:
            self._call.stream_left()

    def __del__(self) -> None:
        try:
            self.left()
        except Exception:
            _guard.failed("ending a dropped stream")


def _holds_more(response: Any) -> bool:
    """Whether a response whose bytes have all come has not given out all that is in them."""
    decoder = getattr(response, "_decoder", None)
    return bool(
        getattr(decoder, "has_unconsumed_tail", False) or len(getattr(response, "_decoded_buffer", ()))
    )


class _Optional:
    """A decompressor that lets bytes through that are decompressed already."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.needed = True

    def decode(self, raw: bytes) -> list[bytes]:
        return [self._decoder.decompress(raw) if self.needed else raw]


def observe(response: Any, call: Call) -> None:
    """Start to observe a response whose body has not been read, if it is one of urllib3."""
    module = sys.modules.get("urllib3.response")
    if module is None or not isinstance(response, module.HTTPResponse):
        return
    encoding = response.headers.get("content-encoding", "").strip().lower()
    decoder = module._get_decoder(encoding) if encoding and encoding != "identity" else None
    vars(response)[_OBSERVER] = _Observer(call, decoder)


def _read(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        observer = vars(self).get(_OBSERVER)
        if observer is None:
            return original(self, *args, **kwargs)
        observer.reading = True
        observer.asked()
        try:
            data = original(self, *args, **kwargs)
        except BaseException as error:
            observer.failed(error)
            raise
        finally:
            observer.reading = False
        decoded = _decodes(args, kwargs)
        observer.took(self, data, self.decode_content if decoded is None else decoded)
        return data

    return read


def _read_chunked(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def read_chunked(self: Any, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        observer = vars(self).get(_OBSERVER)
        if observer is None:
            yield from original(self, *args, **kwargs)
            return
        decoded = _decodes(args, kwargs)
        observer.reading = True
        try:
            for data in original(self, *args, **kwargs):
                observer.took(self, data, decoded)
                observer.reading = False
                yield data
                observer.reading = True
        except GeneratorExit:
            observer.left()  # the library gives the connection up: nothing more can be read
            raise
        except BaseException as error:
            observer.failed(error)
            raise
        finally:
            observer.reading = False
        observer.over()

    return read_chunked


def _stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stream(self: Any, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        pieces = original(self, *args, **kwargs)
        observer = vars(self).get(_OBSERVER)
        if observer is None or observer.hide is None or not _is_readable(self, _decodes(args, kwargs)):
            yield from pieces
            return
        size = args[0] if args else kwargs.get("amt")
        with contextlib.closing(pieces):
            for piece in pieces:
                yield from _cut(observer.hide(piece), size)
            yield from _cut(observer.hide.finish(), size)

    return stream


def _is_readable(response: Any, decoded: Any) -> bool:
    """Whether the program gets the bytes of the events, and not those of a compressed body."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    return bool(encoding in ("", "identity") or (response.decode_content if decoded is None else decoded))


def _cut(data: bytes, size: Any) -> Iterator[bytes]:
    """In pieces as large as they were asked for; none if nothing is left."""
    step = size if isinstance(size, int) and size > 0 else len(data) or 1
    for at in range(0, len(data), step):
        yield data[at : at + step]


def _decodes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument `decode_content`."""
    return args[1] if len(args) > 1 else kwargs.get("decode_content")


def _close(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def close(self: Any) -> None:
        try:
            original(self)
        finally:
            observer = vars(self).get(_OBSERVER)
            if observer is not None:
                observer.left()

    return close


# --- the connection ------------------------------------------------------------------------------
def _connect(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def connect(self: Any) -> Any:
        call = _calls.current_call()
        if call is None:
            return original(self)
        stretch = Stretch(call, "tcp")
        try:
            return original(self)
        finally:
            stretch.over()

    return connect


def _handshake(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _ssl_wrap_socket_and_match_hostname(*args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is None:
            return original(*args, **kwargs)
        stretch = Stretch(call, "tls")
        try:
            return original(*args, **kwargs)
        finally:
            stretch.over()

    return _ssl_wrap_socket_and_match_hostname


def _get_conn(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _get_conn(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call() if self.block else None  # others never wait
        if call is None:
            return original(self, *args, **kwargs)
        stretch = Stretch(call, "pool")
        try:
            return original(self, *args, **kwargs)
        finally:
            stretch.over()

    return _get_conn


# --- retries -------------------------------------------------------------------------------------
def _sleep(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def sleep(self: Any, response: Any = None) -> Any:
        call = _calls.current_call()
        if call is None or call.owner is None:
            return original(self, response)
        _attempt_failed(call, response)
        result = original(self, response)
        _next_attempt(call)
        return result

    return sleep


def _attempt_failed(call: Call, response: Any) -> None:
    try:
        # Without a response this is inside the library's `except` block: that exception is what happened.
        call.attempt_failed(str(response.status) if response is not None else failure_kind(sys.exception()))
    except Exception:
        _guard.failed("a failed attempt")


def _next_attempt(call: Call) -> None:
    try:
        call.pause_over()
        call.attempt()
    except Exception:
        _guard.failed("the start of an attempt")


_WANTED: Final[dict[str, list[tuple[str, str, Callable[[Any], Any]]]]] = {
    "urllib3.connection": [("HTTPConnection", "connect", _connect), ("HTTPSConnection", "connect", _connect)],
    "urllib3.connectionpool": [("HTTPConnectionPool", "_get_conn", _get_conn)],
    "urllib3.response": [
        ("HTTPResponse", "read", _read),
        ("HTTPResponse", "read1", _read),
        ("HTTPResponse", "read_chunked", _read_chunked),
        ("HTTPResponse", "stream", _stream),
        ("HTTPResponse", "close", _close),
    ],
    "urllib3.util.retry": [("Retry", "sleep", _sleep)],
}
