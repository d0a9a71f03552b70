"""Group commit: requests that wait together are stored in one transaction, then answered together."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from agentprof.model import EnergyWindow, OutcomeFact, RawSpan, Span
from agentprof_collector.collect.meters import Meters
from agentprof_collector.errors import StoreError
from agentprof_collector.pipeline import Intake, Understood
from agentprof_collector.receive.exchange import Answer, Budget, Refused, Request, put_off
from agentprof_collector.receive.read import Contents, read

SPANS_PER_COMMIT: Final = 20_000
BYTES_PER_COMMIT: Final = 64 * 1024 * 1024
"""A group is closed when it holds so much, unpacked, so that its memory and its time stay bounded."""
_SKIPPED: Final = "spans without trace id, span id or a start that is a time cannot be kept"

Arrived = Callable[[Sequence[Span], Sequence[OutcomeFact], Sequence[EnergyWindow], int], None]
"""Told of spans, outcomes and measured energy that are stored, with their time of arrival."""

PassOn = Callable[[Request], object]
Received = Callable[[Sequence[RawSpan]], object]

_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    read: Callable[[], Contents]
    answer: Future[Answer]


class _Read(NamedTuple):
    contents: Contents
    understood: Understood
    answer: Future[Answer]


class Writer:
    """One thread that reads, prices and stores everything that is received.

    Args:
        intake: prices and stores.
        budget: bytes that may wait; a request is given back its share when it is answered.
        arrived: told of what was stored, one kind at a time, in the writer's thread.
        meters: counts.
        pass_on: gets each request that was read, before it is stored; it may refuse it.
        received: told of the spans of each request as they came, when they are stored.
        with_content: whether attributes that hold what was said are read.
        last_arrival_ns: everything that is stored arrived until then.
    """

    def __init__(
        self,
        intake: Intake,
        budget: Budget,
        arrived: Arrived,
        meters: Meters,
        *,
        pass_on: PassOn = lambda request: None,
        received: Received = lambda spans: None,
        with_content: bool = False,
        last_arrival_ns: int = 0,
    ) -> None:
        self._pass_on = pass_on
        self._received = received
        self._with_content = with_content
        self._intake = intake
        self._budget = budget
        self._arrived = arrived
        self._meters = meters
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closing = False
        # A clock that was set back must not let what comes now look as if it had been there before.
        self._last_arrival_ns = last_arrival_ns
        self.failing: str | None = None
        """Why the last commit failed; None when it did not."""
        self._thread = threading.Thread(target=self._run, name="agentprof-write", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """It takes requests and answers them."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Requests that are not yet taken up."""
        return len(self._waiting)

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request whose bytes are already counted in the budget.

        Returns:
            The answer, when what it acknowledges is durable; or `Refused`.
        """
        size_bytes = len(request.body)
        answer: Future[Answer] = Future()
        answer.add_done_callback(lambda _: self._budget.give_back(size_bytes))
        return self._queue(lambda: self._read(request), answer)

    def keep(self, contents: Contents) -> Future[Answer]:
        """Queue what came in no request; see `submit`."""
        return self._queue(lambda: contents, Future())

    def _queue(self, read: Callable[[], Contents], answer: Future[Answer]) -> Future[Answer]:
        with self._changed:
            if self._closing or not self._thread.is_alive():
                answer.set_exception(put_off("the collector is stopping"))
            else:
                self._waiting.append(_Waiting(read, answer))
                self._changed.notify()
        return answer

    def _read(self, request: Request) -> Contents:
        contents = read(request, with_content=self._with_content)
        self._pass_on(request)
        return contents

    def close(self) -> None:
        """Take no more, and answer what waits."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
            group = self._next_group()
            if group:
                self._commit(group)

    def _next_group(self) -> list[_Read]:
        """All that waits, up to a bound."""
        group: list[_Read] = []
        spans = size_bytes = 0
        while self._waiting and spans < SPANS_PER_COMMIT and size_bytes < BYTES_PER_COMMIT:
            read_next, answer = self._waiting.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                contents = read_next()
                understood = self._intake.understand(contents.spans)
            except Refused as refused:
                answer.set_exception(refused.bare())
            except Exception as error:  # noqa: BLE001 (it must not cost the others)
                _log.exception("a request could not be read")
                answer.set_exception(Refused(500, f"{type(error).__name__} while reading the request"))
            else:
                group.append(_Read(contents, understood, answer))
                spans += len(understood.spans)
                size_bytes += contents.size_bytes
        return group

    def _keep(
        self,
        spans: Sequence[Span] = (),
        outcomes: Sequence[OutcomeFact] = (),
        windows: Sequence[EnergyWindow] = (),
    ) -> None:
        """Store what is of one kind, and tell of it.

        Each kind has a time of arrival of its own and is told of at once: what is stored is added up though the next
        kind cannot be stored, and is added up after a kill though who was told of the one knew nothing of the next.
        """
        if not (spans or outcomes or windows):
            return
        self._last_arrival_ns = arrived_ns = max(time.time_ns(), self._last_arrival_ns + 1)
        self._intake.keep(spans, outcomes, arrived_ns, windows)
        self._arrived(spans, outcomes, windows, arrived_ns)

    def _commit(self, group: Sequence[_Read]) -> None:
        spans = [span for one in group for span in one.understood.spans]
        outcomes = [fact for one in group for fact in one.contents.outcomes]
        windows = [window for one in group for window in one.contents.windows]
        try:
            with self._meters.commit_seconds.time():
                self._keep(spans=spans)
                self._keep(outcomes=outcomes)
                self._keep(windows=windows)
        except StoreError as error:
            if self.failing is None:
                _log.error("nothing can be stored, senders are asked to come again: %s", error)
            self.failing = str(error)
            self._meters.failed_commits.inc()
            for one in group:
                one.answer.set_exception(put_off(str(error)))
            return
        except Exception as error:  # noqa: BLE001
            if len(group) > 1:
                # Whichever of them it was must not cost the others.
                for one in group:
                    self._commit([one])
                return
            _log.exception("a request could not be stored")
            group[0].answer.set_exception(Refused(500, f"{type(error).__name__} while storing the spans"))
            return
        if self.failing is not None:
            _log.warning("storing works again")
            self.failing = None
        self._meters.stored(spans, group_size=len(group))
        for one in group:
            self._received(one.contents.spans)
            skipped = one.contents.skipped + one.understood.skipped
            self._meters.left_out(skipped, one.contents.lost, one.contents.dropped)
            one.answer.set_result(Answer(skipped, _SKIPPED if skipped else ""))
