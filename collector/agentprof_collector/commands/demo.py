"""`agentprof demo`: the whole of agentprof on a small agent, with no key and no network."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from rich.console import Console

from agentprof._format import printable
from agentprof_collector import terminal
from agentprof_collector.commands.options import db_option, json_option
from agentprof_collector.errors import DemoError
from agentprof_collector.reports import REPORTS
from agentprof_collector.reports.selection import Selection
from agentprof_collector.stores import Store, open_store


@click.command()
@click.option(
    "--live", is_flag=True, help="Ask OPENAI_BASE_URL with OPENAI_API_KEY instead of recorded answers."
)
@click.option("--model", help="With --live: the model for every call.")
@json_option
@db_option
def demo(live: bool, model: str | None, as_json: bool, db: Path | None) -> None:
    """Run a small agent on recorded answers of real models and show what its tasks cost.

    Five tasks: a streamed answer, two tools at once, a request refused with 429 and sent again, a model
    without a known price, and a task that fails. Its tools really run, its waiting times are real; only the
    answers come from recordings, served on this machine. Nothing is kept unless --db names a file.

    \b
    Examples:
      agentprof demo
      agentprof demo --json | jq '.tasks[].cost_usd'
      OPENAI_API_KEY=... agentprof demo --live --model gpt-4o-mini
    """
    if live and not model:
        raise click.UsageError("--live needs --model, the model to ask.")
    try:
        from agentprof_collector.demo.run import run_demo
    except ModuleNotFoundError as missing:
        raise DemoError(
            f"the demo needs: pip install 'agentprof-otel[openai]' ({missing.name} is not installed), "
            "or in a clone: pip install '.[openai]'"
        ) from missing
    with open_store(db) as store:
        console = Console(highlight=False)
        with Console(stderr=True).status("five tasks of a small agent are running ..."):
            ids = run_demo(store, live=live, model=model)
        if as_json:
            tasks = [_summary(store, task_id) for task_id in ids]
            click.echo(msgspec.json.encode({"schema": 1, "tasks": tasks}))
            return
        for task_id in ids:
            terminal.draw("task", _summary(store, task_id), console)
            console.print()
        terminal.draw("tasks", REPORTS["tasks"].document(store, Selection(limit=len(ids))), console)
        console.print()
        console.print(_next_steps(ids[0], db), style="dim", markup=False)


def _summary(store: Store, task_id: str) -> dict[str, object]:
    return REPORTS["task"].document(store, Selection(task_id=task_id))


def _next_steps(task_id: str, db: Path | None) -> str:
    if db is None:
        look = "agentprof demo --db demo.duckdb\n  agentprof report --db demo.duckdb --by tool"
    else:
        file = printable(str(db))
        look = f"agentprof report --db {file} {task_id[:8]} --calls\n  agentprof report --db {file} --by tool"
    return (
        f"What next:\n  {look}\n"
        "  in your program:   import agentprof; agentprof.instrument()\n"
        "  around a task:     with agentprof.task('answer ticket', labels={'customer': 'acme'}): ..."
    )
