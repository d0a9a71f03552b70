"""`agentprof ingest`: files of spans → the database."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from agentprof._format import plural, printable
from agentprof.config import load_config
from agentprof.pricing import Pricer
from agentprof_collector.collect.lockfile import read_lock
from agentprof_collector.commands.options import db_option, json_option
from agentprof_collector.errors import AgentprofError, InputError, InputsError, StoreError, StoreLocked
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.settings import database_path
from agentprof_collector.stores import Store, open_store

_STDIN = Path("-")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@db_option
@json_option
def ingest(files: tuple[Path, ...], db: Path | None, as_json: bool) -> None:
    """Store the spans of FILEs and add up the tasks they belong to.

    Each FILE holds OTLP traces: JSON with one ExportTraceServiceRequest a line (what the OpenTelemetry
    Collector's file exporter writes) or protobuf, gzip or not; "-" is standard input. Spans of any supported
    vocabulary are understood. Reading a file again changes no number.

    A line or request that cannot be read is left out, as is a value of a wrong type; the output says how
    many and where the first was. Everything else is stored. The exit code is 1 if lines or files could not
    be read.

    \b
    Example:
      agentprof ingest traces/*.jsonl
      agentprof ingest --db run42.duckdb - < traces.jsonl.gz
    """
    troubles = {file: trouble for file in files if (trouble := _trouble_with(file)) is not None}
    failures: list[AgentprofError] = list(troubles.values())
    files = tuple(file for file in files if file not in troubles)
    if not files:
        raise InputsError(failures)
    path = database_path(db)
    with _open(path, failures) as store:
        pipeline = Pipeline(store, Pricer(load_config(None)))
        with _told_when_interrupted(pipeline), _progress() as progress:
            task = progress.add_task("reading", total=_total_bytes(files))
            for file in files:
                try:
                    _read(pipeline, file, progress, task)
                except InputError as error:
                    failures.append(error)
            files_failed = len(failures)
            tasks = len(pipeline.recompute(failures.append, _adding_up(progress, task)))
    if as_json:
        counts = {
            "spans": pipeline.spans,
            "skipped": pipeline.skipped,
            "lost_values": pipeline.lost,
            "tasks": tasks,
            "failed": files_failed,
            "failed_tasks": len(failures) - files_failed,
        }
        click.echo(msgspec.json.encode({"schema": 1, **counts}))
    else:
        stored = plural(pipeline.spans, "span")
        click.echo(
            f"{stored} stored{_left_out(pipeline)}; {plural(tasks, 'task')} added up in {printable(str(path))}"
        )
    if failures:
        raise InputsError(failures)


@contextlib.contextmanager
def _told_when_interrupted(pipeline: Pipeline) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if pipeline.spans:
            click.echo(
                f"interrupted: {plural(pipeline.spans, 'span')} stored, but not all added up; "
                "read the same files again to see them whole",
                err=True,
            )
        raise


def _trouble_with(file: Path) -> InputError | None:
    """Why there is nothing to read; None where there is something."""
    try:
        if file != _STDIN:
            file.stat()
    except OSError as error:
        return InputError(str(file), error.strerror or str(error), "Check the path.")
    return None


def _open(path: Path, failures: Sequence[AgentprofError]) -> Store:
    """The database; with what is wrong with files where it cannot be had."""
    try:
        return open_store(path)
    except StoreError as error:
        raise InputsError([*failures, _held_by_collector(path, error) or error]) from error


def _held_by_collector(path: Path, error: StoreError) -> AgentprofError | None:
    lock = read_lock(path) if isinstance(error, StoreLocked) else None
    if lock is None or lock.url is None or not isinstance(error, StoreLocked) or lock.pid != error.pid:
        return None
    return AgentprofError(
        f"{path} is held by a collector, {lock.url} (process {lock.pid}). Stop it first, or post each request of "
        f"the files to it, at {lock.otlp_http or lock.url}/v1/traces."
    )


def _left_out(pipeline: Pipeline) -> str:
    found = ""
    if pipeline.skipped:
        found += f", {pipeline.skipped:,} without id or start left out"
    if pipeline.lost:
        found += f", {plural(pipeline.lost, 'value')} of a wrong type left out"
    if pipeline.first_left_out is not None:
        found += f" (the first in {printable(pipeline.first_left_out)})"
    return found


def _adding_up(progress: Progress, task: TaskID) -> Callable[[int, int], None]:
    def update(done: int, of: int) -> None:
        progress.update(task, description=f"adding up {of:,} traces", completed=done, total=of)

    return update


def _read(pipeline: Pipeline, file: Path, progress: Progress, task: TaskID) -> None:
    if file == _STDIN:
        pipeline.read(sys.stdin.buffer, "<stdin>")
        return
    before = progress.tasks[task].completed
    try:
        with file.open("rb") as stream:
            pipeline.read(
                stream,
                str(file),
                written=lambda: progress.update(task, completed=before + stream.tell()),
            )
        progress.update(task, completed=before + file.stat().st_size)
    except OSError as error:
        raise InputError(str(file), error.strerror or str(error), "Check the path.") from error


def _progress() -> Progress:
    """On stderr, and only where a person watches."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _total_bytes(files: tuple[Path, ...]) -> int | None:
    """None where it cannot be known."""
    if _STDIN in files:
        return None
    return sum(file.stat().st_size for file in files if file.is_file())
