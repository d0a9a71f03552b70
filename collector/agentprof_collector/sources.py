"""Where the commands read from and write to: the collector that holds the database, or the file itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agentprof.model import EnergyWindow, Outcome, OutcomeFact
from agentprof_collector.collect.lockfile import is_of_this_user, read_lock
from agentprof_collector.errors import AgentprofError, StoreLocked, StoreMissing, Unreachable
from agentprof_collector.find import find_task
from agentprof_collector.recompute import record_energy, record_outcome
from agentprof_collector.reports import REPORTS, Document, ReportName
from agentprof_collector.reports.selection import Selection
from agentprof_collector.running import RunningCollector
from agentprof_collector.settings import database_path, token
from agentprof_collector.stores import Store, is_there, open_store

_STOPPING_S = 5.0
"""How long a collector that holds the database and does not answer may take to let it go."""


class Source(Protocol):
    """Answers questions about stored tasks; the same, whoever holds the database."""

    def document(self, name: ReportName, selection: Selection) -> Document:
        """A report; `task_id` may be any part of an id that no other task has.

        Raises:
            AgentprofError: it cannot be made, with what to do.
        """

    def record(self, task: str, outcome: Outcome, score: float | None) -> Document:
        """Keep an outcome, and say what was kept; raises as `document`."""

    def record_energy(self, windows: Sequence[EnergyWindow]) -> Document:
        """Keep measured energy, at most 200 windows; raises as `document`."""


class StoredTasks:
    """A database file that nobody else holds."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def document(self, name: ReportName, selection: Selection) -> Document:
        """See `Source`."""
        if selection.task_id is not None:
            selection = msgspec.structs.replace(selection, task_id=find_task(self._store, selection.task_id))
        return REPORTS[name].document(self._store, selection)

    def record(self, task: str, outcome: Outcome, score: float | None) -> Document:
        """See `Source`."""
        fact = OutcomeFact(
            task_id=find_task(self._store, task), outcome=outcome, score=score, recorded_ns=time.time_ns()
        )
        record_outcome(self._store, fact)
        kept: dict[str, Any] = msgspec.to_builtins(fact)
        return {"schema": 1, **kept}

    def record_energy(self, windows: Sequence[EnergyWindow]) -> Document:
        """See `Source`."""
        record_energy(self._store, windows)
        return {"schema": 1, "windows": len(windows)}


@contextmanager
def open_source(db: Path | None, url: str | None, *, writing: bool = False) -> Iterator[Source]:
    """The collector at an address, or the database: through the collector that holds it, or else the file.

    Args:
        db: the file; None: the default one.
        url: of a collector; None: whichever holds the file.
        writing: something will be recorded.

    Raises:
        AgentprofError: neither can be had, with what to do.
    """
    if url is not None:
        with closing(RunningCollector(url, token())) as collector:
            yield collector
        return
    path = database_path(db)
    found = _open(path, writing)
    if isinstance(found, RunningCollector):
        with closing(found):
            yield found
    else:
        with found:
            yield StoredTasks(found)


def _open(path: Path, writing: bool) -> Store | RunningCollector:
    """The file, unless it is held: who holds it has said beside it where to ask.

    A note left by a collector that was killed is of no account, since then the file is free.
    """
    if writing and not is_there(path):
        raise StoreMissing(path)
    until = time.monotonic() + _STOPPING_S
    while True:
        try:
            return open_store(path, read_only=not writing)
        except StoreLocked as locked:
            lock = read_lock(path)
            if lock is None or lock.url is None:
                raise
            if locked.pid is not None and lock.pid != locked.pid:
                raise _held_by_another(locked, lock.url) from locked
            collector = RunningCollector(lock.url, token() if is_of_this_user(path) else None)
            try:
                collector.check()
            except Unreachable as error:
                collector.close()
                if time.monotonic() > until:
                    raise AgentprofError(f"{str(locked).partition('. ')[0]}, but {error}") from error
                time.sleep(0.1)
            else:
                return collector


def _held_by_another(locked: StoreLocked, url: str) -> AgentprofError:
    return AgentprofError(
        f"{locked} A note beside it names a collector at {url}, of another process: "
        f"if it is that one, ask it with --url {url}."
    )
