"""Removes what is older than asked for, now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from agentprof_collector.errors import StoreError

EVERY_S: Final = 600.0

_log = logging.getLogger(__name__)


class Retention:
    """One thread that forgets old tasks: at once, then every ten minutes.

    Args:
        forget: forgets what ended before a moment, and gives how many spans went.
        keep_ns: tasks that ended longer ago are forgotten.
        forgotten: told how many spans went.
    """

    def __init__(
        self, forget: Callable[[int], int], keep_ns: int, forgotten: Callable[[int], object]
    ) -> None:
        self._forget = forget
        self._keep_ns = keep_ns
        self._forgotten = forgotten
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentprof-retention", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                spans = self._forget(time.time_ns() - self._keep_ns)
            except StoreError as error:
                _log.error("old tasks cannot be removed now: %s", error)
            except Exception:  # noqa: BLE001 (it may work the next time)
                _log.exception("old tasks cannot be removed now")
            else:
                if spans:
                    _log.info("%d spans of old tasks were removed", spans)
                self._forgotten(spans)
            if self._closing.wait(EVERY_S):
                return
