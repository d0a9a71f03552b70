"""`agentprof report`: the stored tasks, one, many, or in parts."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from rich.console import Console

from agentprof._format import printable_document
from agentprof_collector import terminal
from agentprof_collector.commands.options import db_option, json_option, url_option
from agentprof_collector.reports import REPORTS, Document, Report, ReportName, asked, estimates, to_json
from agentprof_collector.reports.selection import GROUPS, GROUPS_MOST, By, RatesBy, Selection
from agentprof_collector.sources import Source, open_source

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
@click.option(
    "--by",
    type=click.Choice([*get_args(By), *get_args(RatesBy)]),
    help="Add up by step, agent, tool or model; with --calls: how fast calls were by length of context, "
    "or by how many ran at once.",
)
@click.option("--calls", is_flag=True, help="One row a model call.")
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate queue and prefill where no server reports them, with an interval.",
)
@click.option(
    "--gpu-hours",
    is_flag=True,
    help="What tokens and successes cost on GPUs paid by the hour (gpu_hours in agentprof.yaml).",
)
@click.option(
    "--group-by",
    callback=_reads(asked.group_by),
    metavar="KEY",
    help="Groups of tasks: name, outcome or label.KEY.",
)
@click.option(
    "--groups",
    type=click.IntRange(1, GROUPS_MOST),
    metavar="N",
    help=f"At most N groups, those that cost most; default {GROUPS:,}.",
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
    by: By | RatesBy | None,
    calls: bool,
    estimate: bool,
    gpu_hours: bool,
    group_by: str | None,
    groups: int | None,
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
      agentprof report --calls --by concurrency     first token and tokens a second
      agentprof report --estimate --since 24h       queue and prefill of black boxes
    """
    _check_kind(by, calls=calls, estimate=estimate, gpu_hours=gpu_hours, group_by=group_by)
    if estimate and task is not None and as_csv:
        raise click.UsageError("--csv of one task is its profile: take --json, or leave out TASK.")
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    if task is not None:
        _check_of_one_task(
            {
                "--group-by": group_by is not None,
                "--groups": groups is not None,
                "--gpu-hours": gpu_hours,
                "--name": name is not None,
                "--outcome": outcome is not None,
                "--label": bool(labels),
                "--service": service is not None,
                "--since": since is not None,
                "--until": until is not None,
                "--search": search is not None,
                "--after": after is not None,
            }
        )
    elif groups is not None and group_by is None:
        raise click.UsageError("--groups says how many groups; give it with --group-by.")
    selection = Selection(
        task_id=task,
        by=by,
        group_by=group_by,
        groups=groups,
        name=name,
        outcome=outcome,
        labels=_labels(labels),
        service=service,
        since_ns=since,
        until_ns=until,
        search=search,
        limit=limit or _default_limit(group_by, in_full=as_json or as_csv),
        after=after,
    )
    report_name = _report_name(selection, calls=calls, estimate=estimate, gpu_hours=gpu_hours)
    if after is not None:
        _check_cursor(report_name, after)
    with open_source(db, url) as source, _says_that_it_reads(calls=calls or estimate):
        document = source.document(report_name, selection)
        if estimate and report_name == "task":
            document = _with_estimates(source, document)
    _show(report_name, document, as_json=as_json, as_csv=as_csv)
    if as_csv and (left_out := document.get("groups_left_out")) is not None:
        click.echo(terminal.groups_left_out(len(document["groups"]), left_out), err=True)


def _labels(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    try:
        return asked.labels(pairs)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--label") from error


@contextmanager
def _says_that_it_reads(*, calls: bool) -> Iterator[None]:
    """Calls are read one by one, which may take seconds: a person at a terminal sees that something is done."""
    if calls and sys.stderr.isatty():
        with Console(stderr=True).status("reading calls"):
            yield
    else:
        yield


def _default_limit(group_by: str | None, *, in_full: bool) -> int | None:
    if not in_full:
        return terminal.DEFAULT_ROWS
    return None if group_by is None else _TASKS_BESIDE_GROUPS


def _check_kind(
    by: str | None, *, calls: bool, estimate: bool, gpu_hours: bool, group_by: str | None
) -> None:
    """Raise if no report is what the options ask for together."""
    if by in get_args(RatesBy):
        if not calls:
            raise click.UsageError(f"--by {by} tells how fast calls were: give it with --calls.")
        by = None
    elif by is not None and calls:
        raise click.UsageError(
            f"--by {by} and --calls exclude each other; with --calls there are {' and '.join(get_args(RatesBy))}."
        )
    kinds = {
        f"--by {by}": by is not None,
        "--calls": calls,
        "--estimate": estimate,
        "--gpu-hours": gpu_hours,
        "--group-by": group_by is not None,
    }
    given = _given(kinds)
    if len(given) > 1:
        raise click.UsageError(f"{_and(given)} exclude each other.")


def _check_of_one_task(of_many: Mapping[str, bool]) -> None:
    """Raise if an option was given that says nothing about one task."""
    given = _given(of_many)
    if given:
        verb = "is" if len(given) == 1 else "are"
        raise click.UsageError(f"{_and(given)} {verb} for many tasks; leave out TASK.")


def _given(options: Mapping[str, bool]) -> list[str]:
    return [option for option, was_given in options.items() if was_given]


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _with_estimates(source: Source, summary: Document) -> Document:
    """The summary of a task with its `estimates`, and beside it what they rest on."""
    found = source.document("estimates", Selection(task_id=summary["task_id"]))
    kept = {name: found[name] for name in ("validated", "confidence", "reasons", "rows")}
    return summary | {"estimates": estimates.in_summary(found), "estimated": kept}


def _check_cursor(name: ReportName, after: str) -> None:
    if name not in ("tasks", "calls"):
        raise click.UsageError("--after is for tasks and calls.")
    try:
        (asked.call_cursor if name == "calls" else asked.cursor)(after)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from error


def _report_name(selection: Selection, *, calls: bool, estimate: bool, gpu_hours: bool) -> ReportName:
    if gpu_hours:
        return "gpu_hours"
    if calls:
        return "calls" if selection.by is None else "rates"
    if estimate and selection.task_id is None:
        return "estimates"
    if selection.by is not None:
        return "parts"
    return "tasks" if selection.task_id is None else "task"


def _show(name: ReportName, document: Document, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        click.echo(to_json(document))
    elif as_csv:
        _write_csv(REPORTS[name], printable_document(document))
    else:
        terminal.draw(name, document)


def _write_csv(kind: Report, document: Document) -> None:
    writer = csv.DictWriter(sys.stdout, kind.columns(document), lineterminator="\n")
    writer.writeheader()
    writer.writerows(kind.rows(document))
