"""A collector inside `agentprof run`: receives what the program sends, and shows the tasks of the run.

Spans go to the database file. Where a running collector holds it they are passed on to that one, and where
something else holds it to a file of the run, until the other is free.
"""

from __future__ import annotations

import contextlib
import http.client
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO
from urllib.parse import urlsplit

import msgspec

from agentprof import attributes
from agentprof._format import printable, short_ids
from agentprof.config import load_config
from agentprof.model import RawSpan
from agentprof.pricing import Pricer
from agentprof_collector.errors import StoreError, StoreLocked
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.receive import Batch
from agentprof_collector.receive.http import TRACES_PATH, HttpReceiver, Refused, Reply, answer, refusal
from agentprof_collector.recompute import copy_traces, recompute
from agentprof_collector.settings import database_path
from agentprof_collector.stores import Store, open_store

if TYPE_CHECKING:
    from rich.console import Console

_FORWARD_S = 10.0
_FREE_S = 2.0
"""How long the end of a run waits for a database that is held."""
_IN_FULL = 3
"""Tasks that are drawn whole; of more a table is enough."""
_STACKS = 10_000


class LockFile(msgspec.Struct):
    """What a running collector writes beside its database."""

    url: str | None = None
    pid: int | None = None


class Place(NamedTuple):
    """Where the spans of a run are kept."""

    store: Store
    path: Path | None
    """None: only here, until the end of the run."""
    collector_url: str | None = None
    held: str | None = None
    """Why they are not in the file that was asked for."""


def open_place(path: Path) -> Place:
    """The database, or what takes its place while another process holds it.

    Raises:
        StoreError: it can not be used at all.
    """
    try:
        return Place(open_store(path), path)
    except StoreLocked as locked:
        url = _collector_url(path)
        if url is not None:
            return Place(open_store(None), None, collector_url=url)
        folder = tempfile.mkdtemp(prefix="agentprof-run-")
        aside = Path(folder) / path.name
        return Place(open_store(aside), aside, held=str(locked).partition(". ")[0])


def _collector_url(path: Path) -> str | None:
    try:
        said = msgspec.json.decode(path.with_name(path.name + ".lock.json").read_bytes(), type=LockFile)
    except (OSError, msgspec.MsgspecError):
        return None
    return said.url if said.url and said.url.startswith(("http://", "https://")) else None


class EmbeddedCollector:
    """Receives from the moment it is made until `finish`; see `agentprof._run.collect` for what a run needs.

    Args:
        db: the database file; None: the default one.
        task_id: the task of the run.

    Raises:
        StoreError: the database cannot be used.
        ConfigError: agentprof.yaml cannot be read.
    """

    def __init__(self, db: Path | None, task_id: str) -> None:
        self._wanted = database_path(db)
        self._named = db
        self._task_id = task_id
        pricer = Pricer(load_config(None))
        self._place = open_place(self._wanted)
        self._pipeline = Pipeline(self._place.store, pricer)
        # The store is for one thread at a time.
        self._lock = threading.Lock()
        self.stacks: list[Sequence[str]] = []
        """Functions on the stack of calls that belong to no declared task."""
        self.troubles: list[str] = []
        self._others: set[str] = set()
        self._own_spans = 0
        self.calls_of_run = 0
        """Model calls that belong to no declared task."""
        self._traces: set[str] = set()
        self._receiver = HttpReceiver({TRACES_PATH: self._receive})
        # The price table takes some tenths of a second to load: while the program starts.
        threading.Thread(target=lambda: pricer.table_version, name="agentprof-prices", daemon=True).start()

    @property
    def endpoint(self) -> str:
        """Where the program sends its spans."""
        return self._receiver.url + TRACES_PATH

    def _receive(self, content_type: str, encoding: str, body: bytes) -> Reply:
        reply = answer(content_type, encoding, body, self._accept)
        if reply.status == 200 and self._place.collector_url is not None:
            return _forward(self._place.collector_url, content_type, encoding, body)
        return reply

    def _accept(self, batch: Batch) -> None:
        with self._lock:
            self._pipeline.accept(batch.spans)
            self._traces.update(span.trace_id for span in batch.spans)
            for span in batch.spans:
                self._look_at(span)

    def _look_at(self, span: RawSpan) -> None:
        task_id = span.attributes.get(attributes.TASK_ID)
        if task_id != self._task_id:
            self._others.add(str(task_id))
            return
        self._own_spans += 1
        if attributes.OPERATION in span.attributes and attributes.TOOL_NAME not in span.attributes:
            self.calls_of_run += 1
            stack = span.attributes.get(attributes.RUN_STACK)
            if len(self.stacks) < _STACKS:
                self.stacks.append(stack if isinstance(stack, (list, tuple)) else ())

    def finish(self, run: bytes) -> list[dict[str, Any]]:
        """Stop receiving and add up.

        Args:
            run: the request with the span of the run; kept where the run has something of its own or is
                the only task.

        Returns:
            The summaries of the tasks of the run in their JSON form, in the order they started.
        """
        self._receiver.close()
        if self._own_spans or not self._others:
            reply = self._receive("application/x-protobuf", "", run)
            if reply.status != 200:
                self.troubles.append(_of_collector(self._place.collector_url))
        with self._lock:
            ids = recompute(self._place.store, self._traces)
            found = [summary for task_id in ids if (summary := self._place.store.task(task_id)) is not None]
        found.sort(key=lambda summary: (summary.start_ns, summary.task_id))
        return [summary.to_dict() for summary in found]

    def draw(self, tasks: Sequence[dict[str, Any]], file: TextIO) -> None:
        """Draw the tasks: each whole if they are few, else as a table."""
        from rich.console import Console

        from agentprof_collector import terminal
        from agentprof_collector.reports import REPORTS
        from agentprof_collector.reports.selection import Selection

        console = Console(file=file, highlight=False)
        if len(tasks) <= _IN_FULL:
            for at, task in enumerate(tasks):
                if at:
                    console.print()
                terminal.draw("task", task, console)
        if len(tasks) > 1:
            if len(tasks) <= _IN_FULL:
                console.print()
            ids = tuple(task["task_id"] for task in tasks)
            selection = Selection(ids=ids, limit=terminal.DEFAULT_ROWS)
            terminal.draw("tasks", REPORTS["tasks"].document(self._place.store, selection), console)
        self._say_next(tasks, console)

    def _say_next(self, tasks: Sequence[dict[str, Any]], console: Console) -> None:
        if self._place.collector_url is not None:
            console.print(f"more: {self._place.collector_url}", style="dim", markup=False)
        elif len(tasks) > 1:
            where = f" --db {printable(str(self._named))}" if self._named is not None else ""
            example = printable(short_ids([task["task_id"] for task in tasks])[0])
            console.print(f"one of them: agentprof report{where} {example}", style="dim", markup=False)

    def close(self) -> None:
        """Release the database; move what was kept aside to where it belongs."""
        self._receiver.close()
        if self._place.held is None:
            self._place.store.close()
            return
        try:
            kept = self._move(time.monotonic() + _FREE_S)
        finally:
            self._place.store.close()
        if kept is None and self._place.path is not None:
            _remove(self._place.path)
        else:
            self.troubles.append(
                f"{self._place.held}; the spans of this run are kept apart: "
                f"agentprof report --db {self._place.path}"
            )

    def _move(self, until: float) -> str | None:
        """Copy the spans to the database that was held; why not, if not."""
        while True:
            try:
                with open_store(self._wanted) as store:
                    copy_traces(self._place.store, store, self._traces)
                    return None
            except StoreError as error:
                if not isinstance(error, StoreLocked) or time.monotonic() > until:
                    return str(error)
            time.sleep(0.05)


def _forward(url: str, content_type: str, encoding: str, body: bytes) -> Reply:
    """The answer of a running collector to a request."""
    target = urlsplit(url)
    kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
    connection = kind(target.netloc, timeout=_FORWARD_S)
    headers = {"content-type": content_type} | ({"content-encoding": encoding} if encoding else {})
    try:
        connection.request("POST", target.path.rstrip("/") + TRACES_PATH, body, headers)
        response = connection.getresponse()
        said = response.read()
        passed_on: Iterable[str] = ("content-type", "retry-after")
        return Reply(
            response.status,
            {name: value for name in passed_on if (value := response.getheader(name)) is not None},
            said,
        )
    except (OSError, http.client.HTTPException):
        return refusal(Refused(503, _of_collector(url), retry_after="1"), content_type)
    finally:
        connection.close()


def _of_collector(url: str | None) -> str:
    return f"the collector at {url} did not take the spans"


def _remove(path: Path) -> None:
    for file in [*path.parent.glob("*"), path.parent]:
        with contextlib.suppress(OSError):
            file.rmdir() if file.is_dir() else file.unlink()
