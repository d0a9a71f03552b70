"""`agentprof report`: the stored tasks, one, many, or in parts."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from agentprof_collector import terminal
from agentprof_collector.commands.options import db_option, json_option, url_option
from agentprof_collector.reports import REPORTS, Document, ReportName, asked, to_json
from agentprof_collector.reports.selection import By, Selection
from agentprof_collector.sources import open_source

_TASKS_BESIDE_GROUPS = 100
"""Who asks for groups wants those: of very many tasks the rows would take minutes and gigabytes."""
_TIME = "90m, 24h or 7d back from now, or 2026-11-30T12:00:00Z"

T = TypeVar("T")
Callback = Callable[[click.Context, click.Parameter, Any], Any]


def _reads(read: Callable[[str], T]) -> Callback:
    """A callback that reads the text of an option, or each of its texts."""

    def callback(context: click.Context, option: click.Parameter, value: str | tuple[str, ...] | None) -> Any:
        if value is None:
            return None
        return tuple(map(one, value)) if isinstance(value, tuple) else one(value)

    def one(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise click.BadParameter(f"{error}, got {text!r}") from error

    return callback


@click.command()
@click.argument("task", required=False)
@click.option("--by", type=click.Choice(get_args(By)), help="Add up by step, agent, tool or model.")
@click.option("--calls", is_flag=True, help="One row a model call.")
@click.option(
    "--group-by",
    callback=_reads(asked.group_by),
    metavar="KEY",
    help="Groups of tasks: name, outcome or label.KEY.",
)
@click.option("--name", help="Only tasks of this name.")
@click.option(
    "--outcome", type=click.Choice(["success", "failure", "unknown"]), help="Only tasks that ended so."
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_reads(asked.label),
    metavar="KEY=VALUE",
    help="Only tasks with it.",
)
@click.option("--service", metavar="NAME", help="Only tasks in which this service took part.")
@click.option(
    "--since",
    callback=_reads(asked.moment_ns),
    metavar="TIME",
    help=f"Only tasks that started then or later: {_TIME}.",
)
@click.option(
    "--until", callback=_reads(asked.moment_ns), metavar="TIME", help="Only tasks that started before."
)
@click.option("--search", metavar="TEXT", help="Only tasks whose name or id contains the text.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N rows; default 30 in a table, 100 tasks beside groups in JSON.",
)
@click.option("--after", metavar="CURSOR", help="The next rows: the value of next in the JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="CSV with fixed columns; times in ns.")
@json_option
@url_option
@db_option
def report(
    task: str | None,
    by: By | None,
    calls: bool,
    group_by: str | None,
    name: str | None,
    outcome: str | None,
    labels: tuple[tuple[str, str], ...],
    service: str | None,
    since: int | None,
    until: int | None,
    search: str | None,
    limit: int | None,
    after: str | None,
    as_csv: bool,
    as_json: bool,
    url: str | None,
    db: Path | None,
) -> None:
    """Show the stored tasks, or one TASK (an id or the beginning of one).

    Of a task: where every moment of its time went, what it cost and what is missing from that, tokens,
    retries, and its profile, where "self" is what a row owns itself and "total" includes the rows below it.
    Time is wall time on the task's critical path, so that the parts sum to the whole. Money is US dollars;
    "≥" marks a bound from which something is missing. Percentiles come with the number they are made from.
    Where a collector holds the database it is asked; the output is the same.

    \b
    Examples:
      agentprof report                              the latest tasks
      agentprof report 3f9c2a1b                     one of them
      agentprof report --group-by label.customer    what a customer's tasks cost
      agentprof report --by tool --outcome failure  tools of the tasks that failed
      agentprof report --calls --csv > calls.csv
    """
    if sum((by is not None, calls, group_by is not None)) > 1:
        raise click.UsageError("--by, --calls and --group-by exclude each other.")
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    filters = (name, outcome, labels, service, since, until, search, after)
    if task is not None and (group_by or any(given not in (None, ()) for given in filters)):
        raise click.UsageError("filters and groups are for many tasks; leave out TASK.")
    selection = Selection(
        task_id=task,
        by=by,
        group_by=group_by,
        name=name,
        outcome=outcome,
        labels=dict(labels),
        service=service,
        since_ns=since,
        until_ns=until,
        search=search,
        limit=limit or _default_limit(group_by, in_full=as_json or as_csv),
        after=after,
    )
    report_name = _report_name(selection, calls)
    if after is not None:
        _check_cursor(report_name, after)
    with open_source(db, url) as source:
        document = source.document(report_name, selection)
    _show(report_name, document, as_json=as_json, as_csv=as_csv)


def _default_limit(group_by: str | None, *, in_full: bool) -> int | None:
    if not in_full:
        return terminal.DEFAULT_ROWS
    return None if group_by is None else _TASKS_BESIDE_GROUPS


def _check_cursor(name: ReportName, after: str) -> None:
    if name == "parts":
        raise click.UsageError("--after is for tasks and calls.")
    try:
        (asked.call_cursor if name == "calls" else asked.cursor)(after)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from error


def _report_name(selection: Selection, calls: bool) -> ReportName:
    if calls:
        return "calls"
    if selection.by is not None:
        return "parts"
    return "tasks" if selection.task_id is None else "task"


def _show(name: ReportName, document: Document, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        click.echo(to_json(document))
    elif as_csv:
        _write_csv(REPORTS[name].rows(document))
    else:
        terminal.draw(name, document)


def _write_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        writer = csv.DictWriter(sys.stdout, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
