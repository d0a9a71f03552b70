"""The command: starts the program and waits, then says what it cost."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import msgspec

from agentprof import _names
from agentprof._asked import new_key
from agentprof._run import facts, findings, process
from agentprof._run.arguments import Arguments, parse
from agentprof._run.follow import Follower
from agentprof._run.names import name_of
from agentprof._run.notes import Notes
from agentprof._run.process import Ended
from agentprof._run.settings import VARIABLE, RunSettings, awaited
from agentprof._run.span import run_span
from agentprof.summary import TaskSummary

_USAGE = 2
_INSTALL = "for summaries: pip install 'agentprof-otel[collector]', or in a clone: pip install '.[collector]'"


class Collector(Protocol):
    """What receives the spans of a run and adds them up, where that is installed."""

    stacks: list[Sequence[str]]
    """Functions on the stack of calls that belong to no declared task."""
    calls_of_run: int
    """Model calls that belong to no declared task."""
    troubles: list[str]
    """What went wrong, for the user."""

    @property
    def endpoint(self) -> str:
        """Where the program sends its spans."""

    @property
    def url(self) -> str:
        """Of the page that shows the tasks while the program runs."""

    def finish(self, run: bytes) -> list[dict[str, Any]]:
        """Take the span of the run and give the summaries of its tasks."""

    def draw(self, tasks: Sequence[dict[str, Any]], file: TextIO) -> None:
        """Draw summaries for a person."""

    def close(self) -> None:
        """Release everything."""


Collect = Callable[[Path | None, str, Callable[[TaskSummary], object]], Collector]
"""Makes a collector from the database that was asked for, the id of the run's task, and who is told of tasks
that are finished."""


def main(arguments: Sequence[str], collect: Collect | None) -> int:
    """Run a program and show its summaries.

    Args:
        arguments: after `agentprof run`.
        collect: makes the collector; None where its packages are not installed.

    Returns:
        The exit code of the program; 127 or 126 if it could not be started; 2 for wrong usage.
    """
    files = process.inherited_files()
    try:
        asked = parse(arguments)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else _USAGE
    if collect is None and (asked.summary is not None or asked.db is not None):
        _say(_INSTALL)
        return _USAGE
    with tempfile.TemporaryDirectory(prefix="agentprof-run-", ignore_cleanup_errors=True) as folder:
        task_id = uuid.uuid4().hex
        follower = Follower(sys.stderr, tasks=asked.follow, quiet=asked.quiet)
        collector = collect(asked.db, task_id, follower.finished) if collect is not None else None
        with _closed(collector):
            return _run(asked, task_id, Path(folder), collector, follower, files)


def _run(
    asked: Arguments,
    task_id: str,
    folder: Path,
    collector: Collector | None,
    follower: Follower,
    files: Sequence[int],
) -> int:
    command = process.as_started(asked.command)
    settings = RunSettings(
        task_id=task_id,
        name=_names.text(name_of(command), _names.NAME_CHARS) or "program",
        traceparent=facts.new_traceparent(),
        key=new_key().secret.hex(),
        notes=str(folder),
        endpoint=collector.endpoint if collector is not None else None,
        labels=_names.labels(asked.labels),
        marks=asked.marks,
        resource=facts.resource(command),
        awaited=awaited(asked.marks),
    )
    try:
        with follower.running(collector.url) if collector is not None else contextlib.nullcontext():
            ended = process.run(command, facts.environment(os.environ, VARIABLE, settings.encode()), files)
    except process.NotStarted as error:
        _say(str(error))
        return error.exit_code
    notes = Notes.read(folder)
    settings = _named(settings, ended, notes)
    try:
        if collector is None:
            _deliver(settings, ended, notes)
            if not asked.quiet:
                _say(_INSTALL)
        else:
            _show(asked, settings, ended, notes, collector)
    except KeyboardInterrupt:
        pass
    for wrong in findings.errors(asked.marks, notes):
        _say(wrong)
    return ended.exit_code


def _named(settings: RunSettings, ended: Ended, notes: Notes) -> RunSettings:
    """A launcher that starts one Python program lends it its place: the run is called after that."""
    outermost = notes.outermost()
    if len(outermost) != 1 or outermost[0].pid == ended.pid or not outermost[0].argv:
        return settings
    return msgspec.structs.replace(settings, name=name_of(outermost[0].argv))


def _show(asked: Arguments, settings: RunSettings, ended: Ended, notes: Notes, collector: Collector) -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    tasks = collector.finish(encode_spans([run_span(settings, ended, notes)]).SerializeToString())
    if asked.summary is not None and asked.summary.endswith(".json"):
        document = {"schema": 1, "exit_code": ended.exit_code, "tasks": tasks}
        _write(asked.summary, lambda file: file.write(msgspec.json.encode(document).decode() + "\n"))
    elif asked.summary is not None:
        _write(asked.summary, lambda file: collector.draw(tasks, file))
    elif not asked.quiet:
        collector.draw(tasks, sys.stderr)
    if asked.quiet:
        return
    advice = findings.without_task(asked, notes, collector.calls_of_run, collector.stacks)
    if not any(task["calls"] for task in tasks):
        advice = findings.nothing_captured(asked, notes)
    if advice is not None:
        _say(advice)


def _write(place: str, write: Callable[[TextIO], object]) -> None:
    if place == "-":
        write(sys.stdout)
        sys.stdout.flush()
        return
    try:
        with open(place, "w", encoding="utf-8") as file:
            write(file)
    except OSError as error:
        _say(f"the summaries cannot be written to {place}: {error.strerror or error}")


def _deliver(settings: RunSettings, ended: Ended, notes: Notes) -> None:
    """Send the span of the run where those of the program went."""
    from opentelemetry.sdk.trace import TracerProvider

    from agentprof import _export, _settings

    provider = TracerProvider(shutdown_on_exit=False)
    asked = _settings.read(
        service_name=None,
        endpoint=None,
        exporter=None,
        tracer_provider=provider,
        capture_content=False,
        propagate_to=None,
        config=None,
    )
    _export.provider_for(asked)
    provider._active_span_processor.on_end(run_span(settings, ended, notes))
    _export.close()


@contextlib.contextmanager
def _closed(collector: Collector | None) -> Iterator[None]:
    try:
        yield
    finally:
        if collector is not None:
            collector.close()
            for trouble in collector.troubles:
                _say(trouble)


def _say(text: str) -> None:
    print(f"agentprof: {text}", file=sys.stderr)
