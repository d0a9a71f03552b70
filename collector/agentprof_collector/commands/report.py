"""`agentprof report`: the stored tasks, one, many, or in parts."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from agentprof_collector import terminal
from agentprof_collector.commands.options import db_option, json_option
from agentprof_collector.find import find_task
from agentprof_collector.reports import REPORTS, ReportName, to_json
from agentprof_collector.reports.many_tasks import cursor_place
from agentprof_collector.reports.selection import By, Selection
from agentprof_collector.settings import database_path
from agentprof_collector.stores import Store, open_store


def _labels(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    for value in values:
        if "=" not in value:
            raise click.BadParameter(f"expected KEY=VALUE, got {value!r}")
    return dict(value.split("=", 1) for value in values)


def _group_by(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is None or value in ("name", "outcome") or value.removeprefix("label.") not in ("", value):
        return value
    raise click.BadParameter(f"expected name, outcome or label.KEY, got {value!r}")


def _after(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        try:
            cursor_place(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return value


@click.command()
@click.argument("task", required=False)
@click.option("--by", type=click.Choice(get_args(By)), help="Add up by step, agent, tool or model.")
@click.option("--calls", is_flag=True, help="One row a model call.")
@click.option(
    "--group-by", callback=_group_by, metavar="KEY", help="Groups of tasks: name, outcome or label.KEY."
)
@click.option("--name", help="Only tasks of this name.")
@click.option(
    "--outcome", type=click.Choice(["success", "failure", "unknown"]), help="Only tasks that ended so."
)
@click.option(
    "--label", "labels", multiple=True, callback=_labels, metavar="KEY=VALUE", help="Only tasks with it."
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows; default 30 in a table."
)
@click.option(
    "--after", callback=_after, metavar="CURSOR", help="The next rows: the value of next in the JSON."
)
@click.option("--csv", "as_csv", is_flag=True, help="CSV with fixed columns; times in ns.")
@json_option
@db_option
def report(
    task: str | None,
    by: By | None,
    calls: bool,
    group_by: str | None,
    name: str | None,
    outcome: str | None,
    labels: dict[str, str],
    limit: int | None,
    after: str | None,
    as_csv: bool,
    as_json: bool,
    db: Path | None,
) -> None:
    """Show the stored tasks, or one TASK (an id or the beginning of one).

    Of a task: where every moment of its time went, what it cost and what is missing from that, tokens,
    retries, and its profile, where "self" is what a row owns itself and "total" includes the rows below it.
    Time is wall time on the task's critical path, so that the parts sum to the whole. Money is US dollars;
    "≥" marks a bound from which something is missing. Percentiles come with the number they are made from.

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
    if task is not None and (group_by or name or outcome or labels or after):
        raise click.UsageError("filters and groups are for many tasks; leave out TASK.")
    with open_store(database_path(db), read_only=True) as store:
        selection = Selection(
            task_id=None if task is None else find_task(store, task),
            by=by,
            group_by=group_by,
            name=name,
            outcome=outcome,
            labels=labels,
            limit=limit if limit or as_json or as_csv else terminal.DEFAULT_ROWS,
            after=after,
        )
        _show(store, _report_name(selection, calls), selection, as_json=as_json, as_csv=as_csv)


def _report_name(selection: Selection, calls: bool) -> ReportName:
    if calls:
        return "calls"
    if selection.by is not None:
        return "parts"
    return "tasks" if selection.task_id is None else "task"


def _show(store: Store, name: ReportName, selection: Selection, *, as_json: bool, as_csv: bool) -> None:
    document = REPORTS[name].document(store, selection)
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
