"""What a fork needs: locks made anew in the child, and no fork in the middle of an import of ours.

A lock held by another thread at the moment of a fork stays locked in the child for ever. That holds for the
locks of imports too: a child that imports what our worker was just importing would hang. So a fork waits for
such an import, which happens once a process and takes some tenths of a second.
"""

from __future__ import annotations

import contextlib
import logging  # noqa: F401 (see the end)
import os
import sys
import threading
from collections.abc import Callable, Iterator

_LONGEST_WAIT_S = 5.0

_imports = threading.RLock()
_forks = 0
_ended_by_pool = 0
"""Process for whose end `at_end_of_worker` has already been asked."""


def renew_in_child(renew: Callable[[], None]) -> None:
    """Call a function in every forked child. There is no way back: for modules, once, at their import."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Hold up forks while a thread of ours imports modules."""
    with _imports:
        yield


def forks() -> int:
    """How often this process has forked."""
    return _forks


def at_end_of_worker(function: Callable[[], None]) -> None:
    """Have a function called when this process ends, if it is one of `multiprocessing`.

    Forked ones end without the functions of `atexit`.
    """
    global _ended_by_pool
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return
    if _ended_by_pool != os.getpid():
        _ended_by_pool = os.getpid()
        util.Finalize(None, function, exitpriority=-100)


def _before() -> None:
    _imports.acquire(timeout=_LONGEST_WAIT_S)


def _after_in_parent() -> None:
    global _forks
    _forks += 1
    with contextlib.suppress(RuntimeError):  # the wait was in vain
        _imports.release()


def _after_in_child() -> None:
    global _imports
    _imports = threading.RLock()


if hasattr(os, "register_at_fork"):
    # What is registered last runs first before a fork. `logging` takes its lock there, which imports need: it has
    # to be imported before this, so that it takes it after our wait.
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
