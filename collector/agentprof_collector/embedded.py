"""A collector inside `agentprof run`: receives what the program sends, and shows the tasks of the run.

It is the collector that `agentprof collect` runs, on ports the system chooses, for as long as the program
runs. Where another process holds the database the spans are kept in a file of the run, passed on to that
process if it is a collector, and moved when the database is free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agentprof import attributes
from agentprof._format import printable, short_ids
from agentprof.config import load_config
from agentprof.model import RawSpan, Span
from agentprof.pricing import Pricer
from agentprof.summary import TaskSummary
from agentprof_collector.collect.collector import Collector, Hooks, Options
from agentprof_collector.place import answers, forward, move, open_place, remove
from agentprof_collector.receive.exchange import Refused, Request
from agentprof_collector.settings import database_path

if TYPE_CHECKING:
    from rich.console import Console

_IN_FULL = 3
"""Tasks that are drawn whole; of more a table is enough."""
_STACKS = 10_000


class EmbeddedCollector:
    """Receives from the moment it is made until `finish`; see `agentprof._run.command` for what a run needs.

    Args:
        db: the database file; None: the default one.
        task_id: the task of the run.
        finished: told of each task of the run as soon as it is complete, in another thread.

    Raises:
        StoreError: the database cannot be used.
        ConfigError: agentprof.yaml cannot be read.
    """

    def __init__(
        self, db: Path | None, task_id: str, finished: Callable[[TaskSummary], object] = lambda summary: None
    ) -> None:
        self._wanted = database_path(db)
        self._named = db
        self._task_id = task_id
        self._finished = finished
        pricer = Pricer(load_config(None))
        self.stacks: list[Sequence[str]] = []
        """Functions on the stack of calls that belong to no declared task."""
        self.troubles: list[str] = []
        self.calls_of_run = 0
        """Model calls that belong to no declared task."""
        self._own_spans = 0
        self._others: set[str] = set()
        self._traces: set[str] = set()
        self._tasks: set[str] = set()
        self._complete: set[str] = set()
        self._untaken: str | None = None
        """Why the holder did not take what it was given."""
        self._guard = threading.Lock()
        self._place = open_place(self._wanted)
        hooks = Hooks(pass_on=self._pass_on, received=self._received, added_up=self._added_up)
        database = self._place.path if self._place.held is None else None
        try:
            self._collector = Collector(self._place.store, database, pricer, Options(), hooks)
        except BaseException:
            self._place.store.close()
            raise
        self._collector.start()

    @property
    def endpoint(self) -> str:
        """Where the program sends its spans."""
        return f"{self._collector.otlp_http_url}/v1/traces"

    @property
    def url(self) -> str:
        """Of the page that shows the tasks: of the collector that keeps them, as long as it runs."""
        holder = self._place.holder
        return self._collector.url if holder is None or holder.url is None else holder.url

    def _pass_on(self, request: Request) -> None:
        """What the holder of the database does not take is kept here, and moved at the end."""
        if self._place.holder is not None and (why := forward(self._place.holder, request)) is not None:
            self._untaken = why

    def _received(self, spans: Sequence[RawSpan]) -> None:
        with self._guard:
            self._traces.update(span.trace_id for span in spans)
        for span in spans:
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

    def _added_up(self, summary: TaskSummary, spans: Sequence[Span]) -> None:
        with self._guard:
            if self._traces.isdisjoint(summary.trace_ids):
                return  # left over from a process that was killed
        self._tasks.add(summary.task_id)
        if summary.complete and summary.task_id not in self._complete:
            self._complete.add(summary.task_id)
            self._finished(summary)

    def finish(self, run: bytes) -> list[dict[str, Any]]:
        """Stop receiving and add up.

        Args:
            run: the request with the span of the run; kept where the run has something of its own or is
                the only task.

        Returns:
            The summaries of the tasks of the run in their JSON form, in the order they started.
        """
        if self._own_spans or not self._others:
            try:
                self._collector.submit(Request("traces", "protobuf", "", run)).result()
            except Refused as refused:
                self.troubles.append(f"the span of the run is not kept: {refused}")
        self._collector.stop()
        kept = (self._place.store.task(task_id) for task_id in self._tasks)
        found = sorted(
            (summary for summary in kept if summary is not None),
            key=lambda summary: (summary.start_ns, summary.task_id),
        )
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
        holder = self._place.holder
        if holder is not None:
            if holder.url is not None and self._untaken is None and answers(holder.url):
                console.print(f"more: {holder.url}", style="dim", markup=False)
        elif len(tasks) > 1:
            where = f" --db {printable(str(self._named))}" if self._named is not None else ""
            example = printable(short_ids([task["task_id"] for task in tasks])[0])
            console.print(f"one of them: agentprof report{where} {example}", style="dim", markup=False)

    def close(self) -> None:
        """Release the database; move what was kept aside to where it belongs."""
        self._collector.stop()
        place = self._place
        if place.held is None:
            place.store.close()
            return
        try:
            is_elsewhere = place.holder is not None and self._untaken is None
            trouble = None if is_elsewhere else move(place.store, self._traces, self._wanted)
        finally:
            place.store.close()
        if trouble is None:
            remove(place.path)
            return
        why = place.held
        if place.holder is not None:
            why = f"the collector at {place.holder.url} did not take the spans ({self._untaken})"
        self.troubles.append(
            f"{why}; the spans of this run are kept apart: agentprof report --db {place.path}"
        )
