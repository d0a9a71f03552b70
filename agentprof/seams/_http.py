"""What the seams of HTTP libraries share: which request is a call, and how its exchanges end."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, MutableMapping
from typing import Any, Final

from opentelemetry import context as otel_context

from agentprof import _baggage, _calls, _context, _guard, _kept_back, _repeated, _runtime
from agentprof._calls import Call
from agentprof._context import Attachment
from agentprof._failures import failure_kind
from agentprof._hidden_usage import bytes_with_usage
from agentprof._providers import provider_of
from agentprof.dialects import Asked, Dialect, Told, dialect_of
from agentprof.seams._clients import PORTS

_OF_THESE_BYTES: Final = (
    "content-digest",
    "content-encoding",
    "content-md5",
    "digest",
    "signature",
    "x-amz-content-sha256",
    "x-amz-date",
)
"""Headers that hold for the body as it is: a signature, a hash, how it is packed."""


def is_inside_a_call() -> bool:
    """Whether a call is being made here; the context of what was started in one may hold it after its end."""
    call = _calls.current_call()
    return call is not None and call.is_open


def wanted(method: str, path: str) -> Dialect | None:
    """The dialect of a request that may be a call of its own.

    Args:
        method: As the program gives it, perhaps in small letters.
    """
    return dialect_of(path) if method.upper() == "POST" else None


def hush(host: str) -> Attachment | None:
    """For a request that is no call as far as can be told, but goes to a host of models: nothing of ours is sent.

    The program's own instrumentation would send the task on that the baggage names, and perhaps our span.

    Returns:
        What is to be detached after the request; None: nothing is to be hidden.
    """
    if provider_of(host) is None:
        return None
    context = otel_context.get_current()
    is_named, may_know = _context.is_named(context), _may_know(host)
    if not is_named and (may_know or not _kept_back.is_ours(context)):
        return None
    hushed = _context.hushed(context) if is_named else context
    return Attachment(hushed if may_know else _kept_back.keeping_back(hushed))


def _may_know(host: str) -> bool:
    """Whether our spans may be named to a host."""
    runtime = _runtime.active()
    return runtime is not None and runtime.settings.propagates_to(host)


def keep_from(call: Call, headers: MutableMapping[str, str], host: str) -> None:
    """Take a `traceparent` that names the call out of headers that go to a host that may not know it."""
    said = headers.get("traceparent")
    if said is not None and not _may_know(host) and f"{call._span.get_span_context().span_id:016x}" in said:
        del headers["traceparent"]


def without_us(headers: MutableMapping[str, str], host: str) -> None:
    """Take out of headers that another instrumentation has written the task, and a span that the host may not know."""
    if not _may_know(host):
        _kept_back.take_out(headers)
    said = headers.get("baggage")
    if said is None or not _baggage.is_written(said):
        return
    rest = _baggage.rewritten(said)
    if rest:
        headers["baggage"] = rest
    else:
        del headers["baggage"]


def begin(
    owner: Any, dialect: Dialect, asked: Asked | Told, scheme: str, host: str, port: int | None, body: Any
) -> Call | None:
    """Start a call that `owner`, a client of an HTTP library, makes; it is open in the context until it ends.

    Args:
        port: As the URL says it.
        body: The serialised request; anything but bytes is not looked at.
    """
    runtime = _runtime.active()
    if runtime is None:
        return None
    if isinstance(asked, Told) and asked.dialect is not None:
        dialect = asked.dialect
    call = _repeated.call_maker()(
        runtime,
        dialect,
        asked.model,
        asked.stream is True,
        host,
        port or PORTS.get(scheme),
        provider_of(host) or dialect.provider,
    )
    call.owner = owner
    call.body = body
    return call


def call_of(owner: Any) -> Call | None:
    """The open call if this client makes it: an exchange of another one, to log in say, is none of its own."""
    call = _calls.current_call()
    return call if call is not None and call.owner is owner and call.is_open else None


def traceparent(call: Call, host: str) -> str | None:
    """Note that an exchange begins; gives the `traceparent` it should carry to this host, if any."""
    value = call.exchange()
    # A redirect may have led away from the host of the call.
    return value if value and _may_know(host) else None


def asking(call: Call, body: Any, headers: Container[str]) -> bytes | None:
    """The body that asks for the usage of its stream; None: it goes out as it is.

    Args:
        headers: Of the request, whatever the case of their names.
    """
    if not call.asks_for_usage or type(body) is not bytes or any(name in headers for name in _OF_THESE_BYTES):
        return None
    found = bytes_with_usage(body)
    if found is not None:
        call.hides_usage = True
    return found


def pairs_of(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers of a library that gives texts, as they came."""
    return [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]


def failed(
    call: Call, error: BaseException, status_of: Callable[[BaseException], str] = failure_kind
) -> None:
    """The library's method raised.

    Args:
        status_of: Tells what kind of failure it was, where that is not the error itself.
    """
    try:
        call.leave()
        try:
            status = status_of(error)
        except Exception:
            _guard.failed("what kind of failure it was")
            status = failure_kind(error)
        call.failed(error, status)
    except Exception:
        _guard.failed("a failed call")


def returned(call: Call) -> None:
    """The library's method returned."""
    try:
        call.leave()
        call.returned()
    except Exception:
        _guard.failed("the end of a call")
