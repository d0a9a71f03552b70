"""`agentprof outcome`: says later how a task ended."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import click

from agentprof._format import printable
from agentprof.model import Outcome
from agentprof_collector.commands.options import db_option, json_option, url_option
from agentprof_collector.reports import to_json
from agentprof_collector.sources import open_source


def _finite(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"expected a finite number, got {value}")
    return value


@click.command()
@click.argument("task")
@click.argument("result", type=click.Choice(["success", "failure"]))
@click.option(
    "--score",
    type=float,
    callback=_finite,
    metavar="X",
    help="How good it was, on a scale of your own.",
)
@url_option
@db_option
@json_option
def outcome(
    task: str, result: str, score: float | None, url: str | None, db: Path | None, as_json: bool
) -> None:
    """Record how TASK ended, after the fact.

    TASK is an id or the beginning of one. The last outcome recorded holds, also against what the program
    itself said; nothing recorded before is lost.

    \b
    Example:
      agentprof outcome 3f9c2a1b failure --score 0.2
    """
    with open_source(db, url, writing=True) as source:
        kept = source.record(task, cast("Outcome", result), score)
    if as_json:
        click.echo(to_json(kept))
    else:
        click.echo(
            f"{printable(kept['task_id'])}: {result}" + ("" if score is None else f", score {score:g}")
        )
