"""Keeps a failure of the profiler out of the program: logs each kind once, counts all of them."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import traceback

from agentprof._forking import renew_in_child

logger = logging.getLogger("agentprof")

# Reentrant: garbage collection may end a stream, and so need this, anywhere.
_lock = threading.RLock()
_counts: dict[str, int] = {}


def failed(kind: str) -> None:
    """Count a failure of ours that was just caught; the first of its kind is logged with where it came from.

    Call it from an `except` block. The message of the exception is not logged: it may quote what was read.

    Args:
        kind: Where it happened, in a few fixed words; never data of the program.
    """
    with _lock:
        seen = _counts.get(kind, 0)
        _counts[kind] = seen + 1
    if not seen:
        error = sys.exception()
        where = "".join(traceback.format_tb(error.__traceback__)).rstrip() if error is not None else ""
        _warn(f"agentprof failed in {kind} ({type(error).__name__}); the program is not affected\n{where}")


def noted(kind: str, message: str) -> None:
    """Count something worth telling the user once, such as spans that could not be sent."""
    with _lock:
        seen = _counts.get(kind, 0)
        _counts[kind] = seen + 1
    if not seen:
        _warn(message)


def _warn(message: str) -> None:
    with contextlib.suppress(Exception):  # filters and handlers are the program's
        logger.warning("%s", message)


def counts() -> dict[str, int]:
    """How often each kind of failure happened in this process."""
    with _lock:
        return dict(_counts)


def _begin_in_child() -> None:
    """Another thread may have held the lock when the process was forked."""
    global _lock
    _lock = threading.RLock()


renew_in_child(_begin_in_child)
