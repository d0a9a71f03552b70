"""What kind of failure an exchange ended in."""

from __future__ import annotations

from typing import Final

_CANCELLED: Final = frozenset({"CancelledError", "SoftTimeLimitExceeded"})
"""Of asyncio and of the queue of tasks celery; others that stop a program are no `Exception` at all."""
_NOT_SENT: Final = frozenset(
    {
        *("ConnectTimeout", "PoolTimeout", "ConnectError"),  # httpx
        "ConnectTimeoutError",  # urllib3
        *("ConnectionTimeoutError", "ClientConnectorError"),  # aiohttp
    }
)
_CUT: Final = frozenset(
    {
        *("ReadError", "WriteError", "CloseError", "RemoteProtocolError"),  # httpx
        *("ProtocolError", "ChunkedEncodingError"),  # urllib3, requests
        *("ServerDisconnectedError", "ClientPayloadError", "ConnectionResetError"),  # aiohttp
    }
)


def failure_kind(error: BaseException | None) -> str:
    """What kind of failure of an exchange an exception of an HTTP library is.

    Told by the names of its classes: the libraries name them alike, and none need be imported.
    `connection` means that the request did not leave; after `timeout` and `cut` it may have been billed.
    """
    error = _cause(error)
    names = {kind.__name__ for kind in type(error).__mro__}
    if not names.isdisjoint(_CANCELLED):
        return "cancelled"
    if not names.isdisjoint(_NOT_SENT):
        return "connection"
    if any("Timeout" in name for name in names):
        return "timeout"
    if not (error is None or isinstance(error, Exception)):
        return "cancelled"
    return "cut" if not names.isdisjoint(_CUT) else "connection"


def _cause(error: BaseException | None) -> BaseException | None:
    """The failure in a group of them: what a group of tasks raises where one fails and the rest is cancelled."""
    while isinstance(error, BaseExceptionGroup):
        error = next((one for one in error.exceptions if isinstance(one, Exception)), error.exceptions[0])
    return error
