"""An HTTP connection that cannot be held by saying nothing, and on which a refusal arrives."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_S: Final = 30.0
"""How long the head of a request may take."""
SILENCE_S: Final = 60.0
"""How long nothing may come in the middle of a body, where who reads it has no limit of its own."""
_LINGER_S: Final = 2.0
"""How long what is still being sent is read away after a refusal."""


class State(ServerState):
    """What the connections of a server share."""

    def __init__(self) -> None:
        super().__init__()
        self.malformed = 0
        """Requests that were no HTTP."""


class Connection(H11Protocol):
    """Uvicorn's connection, with an end for what it leaves open.

    A head that never ends is cut off, and a body that does not go on. A request that was refused before its
    body was read is read away for a moment: closing at once would reset the connection, and the sender would
    lose the answer while it sends.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._parting = _Parting(transport, self)
        self._lost = asyncio.Event()
        super().connection_made(cast("asyncio.Transport", self._parting))
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
            transport.abort()
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """What comes after a refusal is of no interest."""
        if self._parting.is_closing():
            return
        super().data_received(data)
        self._watch_head()
        self._watch_body()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Who has said all that it will may still wait for the answer to it."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._cancel_head()
        self._cancel_body()
        self._lost.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """To what is no HTTP; who is still answering what came before it need not."""
        if isinstance(self.server_state, State):
            self.server_state.malformed += 1
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self._parting.close()

    async def parted(self) -> None:
        """End it, as soon as the other side has read what was said to it."""
        self._parting.close()
        await self._lost.wait()

    @property
    def is_being_sent_to(self) -> bool:
        """More of a request may come, or of what is none."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def _watch_head(self) -> None:
        """Between requests uvicorn has a timer of its own, until the first byte of the next."""
        waits = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if not waits or self._parting.is_closing():
            self._cancel_head()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._parting.close)

    def _watch_body(self) -> None:
        self._cancel_body()
        if self.conn.their_state is h11.SEND_BODY and not self._parting.is_closing():
            self._body_timer = self.loop.call_later(SILENCE_S, self._parting.abort)

    def _cancel_body(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _cancel_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Parting:
    """A transport that is closed in two steps while the other side is still sending."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._parting = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._parting or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._connection.is_being_sent_to:
            self._transport.close()
            return
        self._parting = True
        try:
            self._transport.write_eof()
        except OSError:  # the other side has left
            self._transport.abort()
            return
        self._transport.resume_reading()
        # The other side ends it when it has read the answer; else this does.
        asyncio.get_running_loop().call_later(_LINGER_S, self._transport.abort)
