"""What is switched on in this process: read by every patch, changed only by `instrument()` and its undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace

from agentprof._clock import anchor_ns
from agentprof._forking import renew_in_child

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider

    from agentprof._settings import Settings

SCOPE = "agentprof"
"""Name of the instrumentation scope of our spans."""


@dataclass(slots=True)
class Runtime:
    """One instrumentation of the process."""

    settings: Settings
    own_tracer: Tracer
    """Of the provider that was there, or made, when this began."""
    anchor_ns: int
    """Clock anchor for spans outside any task."""
    join: Callable[[TracerProvider], Tracer | None] | None = None
    """While spans go to a provider of our own: goes over to the one that the application has set."""

    @property
    def tracer(self) -> Tracer:
        """What makes spans now."""
        join = self.join
        if join is not None:
            # Asked each time: the application may set its provider at any time, and in any way.
            present = trace.get_tracer_provider()
            if not isinstance(present, trace.ProxyTracerProvider):
                self.join = None
                self.own_tracer = join(present) or self.own_tracer
        return self.own_tracer


_active: Runtime | None = None


def active() -> Runtime | None:
    """The present instrumentation, or None: patches that could not be undone then pass everything through."""
    return _active


def activate(runtime: Runtime | None) -> Runtime | None:
    """Make it the present one; returns the one before."""
    global _active
    before, _active = _active, runtime
    return before


def _begin_in_child() -> None:
    """A forked process notes the time anew: the wall clock may have been set since its parent did."""
    if _active is not None:
        _active.anchor_ns = anchor_ns()


renew_in_child(_begin_in_child)
