"""`agentprof outcome`: says later how a task ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import click
import msgspec

from agentprof._format import printable
from agentprof.model import Outcome, OutcomeFact
from agentprof_collector.commands.options import db_option, json_option
from agentprof_collector.errors import StoreMissing
from agentprof_collector.find import find_task
from agentprof_collector.recompute import record_outcome
from agentprof_collector.settings import database_path
from agentprof_collector.stores import open_store


@click.command()
@click.argument("task")
@click.argument("result", type=click.Choice(["success", "failure"]))
@click.option("--score", type=float, metavar="X", help="How good it was, on a scale of your own.")
@db_option
@json_option
def outcome(task: str, result: str, score: float | None, db: Path | None, as_json: bool) -> None:
    """Record how TASK ended, after the fact.

    TASK is an id or the beginning of one. The last outcome recorded holds, also against what the program
    itself said; nothing recorded before is lost.

    \b
    Example:
      agentprof outcome 3f9c2a1b failure --score 0.2
    """
    path = database_path(db)
    if not path.exists():
        raise StoreMissing(path)
    with open_store(path) as store:
        task_id = find_task(store, task)
        fact = OutcomeFact(
            task_id=task_id, outcome=cast("Outcome", result), score=score, recorded_ns=time.time_ns()
        )
        record_outcome(store, fact)
    if as_json:
        click.echo(msgspec.json.encode({"schema": 1, **msgspec.to_builtins(fact)}))
    else:
        click.echo(f"{printable(task_id)}: {result}" + ("" if score is None else f", score {score:g}"))
