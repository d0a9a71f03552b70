"""Options that several commands share, and the ways they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentprof_collector.errors import TaskAmbiguous, TaskNotFound
from agentprof_collector.stores import Store

F = TypeVar("F", bound=Callable[..., Any])


def db_option(function: F) -> F:
    """`--db FILE`."""
    return click.option(
        "--db",
        "db",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Database file. Default: AGENTPROF_DB, else agentprof/agentprof.duckdb in the user's data folder.",
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON; times in ns, costs as decimal text.")(
        function
    )


def find_task(store: Store, text: str) -> str:
    """The id of the task that is, or alone begins or ends with, the text; "…" stands for anything between.

    Raises:
        TaskNotFound: none.
        TaskAmbiguous: several.
    """
    begin, dots, end = text.partition("…")
    ids = store.task_ids(text) or (store.task_ids(begin, end) if dots else store.task_ids("", text))
    if not ids:
        raise TaskNotFound(text)
    if text not in ids and len(ids) > 1:
        raise TaskAmbiguous(text, ids)
    return text if text in ids else ids[0]
