"""How many spans of this process went which way."""

from __future__ import annotations

import threading
from typing import NamedTuple

from agentprof._forking import renew_in_child


class Stats(NamedTuple):
    """Spans of this process that we export, by what became of them, and failures of agentprof itself.

    A span is in one of `waiting`, `sent`, `spooled`, `dropped` and `refused`. Counting begins with the
    process, and anew in a forked child.
    """

    waiting: int
    """In memory: queued, or being sent."""
    sent: int
    """Taken by the receiver."""
    spooled: int
    """Written to disk because no receiver took them in time; delivered later, or read by `agentprof ingest`."""
    dropped: int
    """Lost: the queue was full, or at the end of the program neither receiver nor disk took them."""
    refused: int
    """Lost: the receiver answered that it does not want them."""
    delivered: int
    """Sent from the disk by this process; they may be of earlier or other processes."""
    discarded: int
    """Lost from the disk: the spool was full, or the receiver did not want them."""
    failures: dict[str, int]
    """Failures of agentprof itself, and whatever else was logged once, by kind."""


class Counts:
    """Adds up from any thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again from 0; also in a forked child, where another thread may have held the lock."""
        # Reentrant: garbage collection may end a stream, and so need this, anywhere.
        self._lock = threading.RLock()
        self.sent = self.spooled = self.dropped = self.refused = self.delivered = self.discarded = 0

    def add(
        self,
        *,
        sent: int = 0,
        spooled: int = 0,
        dropped: int = 0,
        refused: int = 0,
        delivered: int = 0,
        discarded: int = 0,
    ) -> None:
        """Count spans."""
        with self._lock:
            self.sent += sent
            self.spooled += spooled
            self.dropped += dropped
            self.refused += refused
            self.delivered += delivered
            self.discarded += discarded


counts = Counts()

renew_in_child(counts.reset)
