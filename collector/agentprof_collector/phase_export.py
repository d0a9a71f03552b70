"""Sends phase spans to a trace store over OTLP/HTTP, off the way of whoever offers tasks."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from agentprof._format import printable
from agentprof._otlp import Endpoint
from agentprof._otlp_http import Sender
from agentprof.model import Span
from agentprof_collector.closing import Closing
from agentprof_collector.phase_spans import CallPhases, as_request, phase_spans

QUEUE: Final = 200_000
"""Spans of offered tasks that may wait; a task that does not fit any more is dropped and counted."""
SETTLE_S: Final = 6.0
"""How long a complete task waits before it is drawn: what served its calls may send its spans 5 s later, the delay
of the SDKs' batches, and what a trace store has it cannot replace."""
REMEMBERED: Final = 100_000
"""Calls whose phases are known to be sent, the latest ones."""
_AT_ONCE: Final = 2_000
"""Phase spans in one request, and spans of tasks that are drawn in one go."""
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0

_log = logging.getLogger(__name__)


def traces_url(url: str) -> str:
    """Where spans go: the address as given if it has a path, else with the path of OTLP.

    Raises:
        ValueError: not an address of an HTTP server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected an address like http://localhost:4318 for phase spans, not {url!r}")
    return url if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"


class _Offer(NamedTuple):
    due_s: float
    """By the monotonic clock."""
    spans: Sequence[Span]


class PhaseExporter(Closing):
    """A bounded queue of tasks and a thread that draws and sends their phases, a little after they are offered.

    Phases of a call that were sent are not sent again unless they have changed; after a restart they may be.
    While the receiver cannot be reached tasks wait, as far as there is room.
    """

    def __init__(self, url: str, *, settle_s: float = SETTLE_S, timeout_s: float = 10.0) -> None:
        """Args:
            url: of an OTLP/HTTP receiver, with or without its path.
            settle_s: how long a task waits for more evidence, from its first offer.
            timeout_s: how long one step of a request may take.

        Raises:
            ValueError: not an address of an HTTP server.
        """
        self.url = traces_url(url)
        self.sent = 0
        """Phase spans that were taken."""
        self.refused = 0
        """Phase spans that the receiver will never take."""
        self.dropped = 0
        """Tasks whose phases were not, or not all, sent: no room, no time at the end, or an error of ours."""
        self.retries = 0
        self._sender = Sender(Endpoint(url=self.url, timeout_s=timeout_s, compression="gzip"))
        self._settle_s = settle_s
        self._waiting: dict[str, _Offer] = {}
        self._spans = 0
        self._in_hand = 0
        self._known: dict[bytes, bytes] = {}
        self._until: float | None = None
        self._said = ""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="agentprof-phases", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Tasks that are offered and not sent yet."""
        with self._changed:
            return len(self._waiting) + self._in_hand

    def offer(self, task_id: str, spans: Sequence[Span]) -> bool:
        """Queue a task that is complete, or has changed since; never waits.

        An offer takes the place of an earlier one of the same task that still waits.

        Returns:
            False if there was no room, which is counted.
        """
        with self._changed:
            former = self._waiting.get(task_id)
            grown = len(spans) - (len(former.spans) if former is not None else 0)
            if self._until is not None or self._spans + grown > QUEUE:
                self.dropped += 1
                return False
            due_s = former.due_s if former is not None else time.monotonic() + self._settle_s
            self._waiting[task_id] = _Offer(due_s, spans)
            self._spans += grown
            self._changed.notify_all()
            return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything offered is sent or given up; False if that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._in_hand, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what is left, for so long at most, and take no more."""
        with self._changed:
            if self._until is None:
                self._until = time.monotonic() + timeout_s
            self._changed.notify_all()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._sender.abort()
            self._thread.join()

    def _work(self) -> None:
        while tasks := self._take():
            if not self._send_all(self._new(tasks)):
                self.dropped += len(tasks)
            with self._changed:
                self._in_hand = 0
                self._changed.notify_all()
        self._sender.close()

    def _take(self) -> dict[str, Sequence[Span]]:
        """The tasks to draw next; none when the exporter is closed and nothing is left."""
        with self._changed:
            while (wait_s := self._wait_s()) is None or wait_s > 0:
                self._changed.wait(wait_s)
            tasks: dict[str, Sequence[Span]] = {}
            spans = 0
            while self._waiting and spans < _AT_ONCE and self._wait_s() == 0:
                task_id = next(iter(self._waiting))
                tasks[task_id] = self._waiting.pop(task_id).spans
                spans += len(tasks[task_id])
                self._spans -= len(tasks[task_id])
            self._in_hand = len(tasks)
            return tasks

    def _wait_s(self) -> float | None:
        """Until the first task is due, which is now when there is little room or time; None: until one comes."""
        if self._until is not None:
            return 0
        if not self._waiting:
            return None
        if self._spans > QUEUE // 2:
            return 0
        # A later offer of a task keeps its place: the first is due first.
        return max(0, next(iter(self._waiting.values())).due_s - time.monotonic())

    def _new(self, tasks: dict[str, Sequence[Span]]) -> list[CallPhases]:
        """What is not known to be sent; a call of several tasks once."""
        found: dict[bytes, CallPhases] = {}
        for task_id, spans in tasks.items():
            try:
                found.update((call.key, call) for call in phase_spans(task_id, spans))
            except Exception as error:  # noqa: BLE001 (one task must not cost the others their phases)
                self.dropped += 1
                self._say(
                    f"phases of task {printable(task_id)} are left out ({type(error).__name__}: {error})"
                )
        return [
            call._replace(is_later=call.key in self._known)
            for call in found.values()
            if self._known.get(call.key) != _digest(call)
        ]

    def _send_all(self, calls: Sequence[CallPhases]) -> bool:
        """False if the time at the end was too short."""
        part: list[CallPhases] = []
        spans = 0
        for call in calls:
            part.append(call)
            spans += len(call.spans)
            if spans >= _AT_ONCE:
                if not self._send(part, spans):
                    return False
                part, spans = [], 0
        return not part or self._send(part, spans)

    def _send(self, calls: Sequence[CallPhases], spans: int) -> bool:
        """Until the receiver has answered for good; False if the exporter was closed before."""
        request = as_request(calls)
        pause_s = _FIRST_PAUSE_S
        while True:
            answer = self._sender.send(request)
            if answer.kind == "taken":
                rejected = min(answer.rejected_spans, spans)
                self.sent += spans - rejected
                self.refused += rejected
                self._remember(calls)
                self._said = ""
                return True
            self._say(f"{self.url} does not take phase spans ({answer.reason})")
            if answer.kind == "refused":
                self.refused += spans
                self._remember(calls)
                return True
            if not self._pause(max(pause_s, answer.retry_after_s)):
                return False
            self.retries += 1
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _pause(self, seconds: float) -> bool:
        """Wait before another try; False if there is no time for one any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._until is not None, seconds)
            if self._until is None:
                return True
        # Closing: one more try a pause, while there is time.
        left = self._until - time.monotonic()
        if left <= _FIRST_PAUSE_S:
            return False
        time.sleep(_FIRST_PAUSE_S)
        return True

    def _remember(self, calls: Sequence[CallPhases]) -> None:
        for call in calls:
            self._known.pop(call.key, None)
            self._known[call.key] = _digest(call)
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def _say(self, message: str) -> None:
        """Log a trouble once, until another comes."""
        if message != self._said:
            self._said = message
            _log.warning("%s", message)


def _digest(call: CallPhases) -> bytes:
    made = hashlib.blake2b(digest_size=8)
    for span in call.spans:
        made.update(span.SerializeToString(deterministic=True))
    return made.digest()
