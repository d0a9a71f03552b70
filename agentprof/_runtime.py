"""What is switched on in this process: read by every patch, changed only by `instrument()` and its undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentprof._clock import anchor_ns
from agentprof._forking import renew_in_child

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from agentprof._settings import Settings

SCOPE = "agentprof"
"""Name of the instrumentation scope of our spans."""


@dataclass(slots=True)
class Runtime:
    """One instrumentation of the process."""

    settings: Settings
    tracer: Tracer
    anchor_ns: int
    """Clock anchor for spans outside any task."""


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
