"""How long it took to get a connection, and for what: measured by the seams of HTTP libraries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agentprof import _guard
from agentprof._clock import stamp_ns

if TYPE_CHECKING:
    from agentprof._calls import Call


class Connecting:
    """Times of one attempt in ns, by part: `pool` (waiting for a free connection), `tcp` (DNS and TCP), `tls`."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: dict[str, int] = {}

    def add(self, part: str, ns: int) -> None:
        """Add to a part."""
        self.parts[part] = self.parts.get(part, 0) + ns

    @property
    def ns(self) -> int:
        """All of it."""
        return sum(self.parts.values())


class Stretch:
    """A stretch of getting a connection; what its parts have measured themselves is not in it again."""

    __slots__ = ("_began", "_call", "_known", "_part")

    def __init__(self, call: Call, part: str) -> None:
        self._call, self._part = call, part
        self._known = call.connecting.ns if call.connecting is not None else 0
        self._began = stamp_ns()

    def over(self) -> None:
        """It ends now. Never raises: the program gets what the HTTP library gives, or raises."""
        took = stamp_ns() - self._began
        try:
            inside = (self._call.connecting.ns if self._call.connecting is not None else 0) - self._known
            self._call.connected(self._part, max(took - inside, 0))
        except Exception:
            _guard.failed("the time to get a connection")


def measured_async(part: str, call_of: Callable[[Any], Call | None]) -> Callable[[Any], Any]:
    """What replaces an async method, measured as a part of getting a connection.

    Args:
        call_of: The call that an object of the method's class connects for, if it does for one.
    """

    def replaced(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def measured(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = call_of(self)
            if call is None:
                return await original(self, *args, **kwargs)
            stretch = Stretch(call, part)
            try:
                return await original(self, *args, **kwargs)
            finally:
                stretch.over()

        return measured

    return replaced
