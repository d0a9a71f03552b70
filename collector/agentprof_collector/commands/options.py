"""Options that several commands share, and the ways they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def url_option(function: F) -> F:
    """`--url URL`."""
    return click.option(
        "--url",
        metavar="URL",
        help="Ask the collector there, with the token of AGENTPROF_TOKEN. Default: the one that holds the database.",
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON; times in ns, costs as decimal text.")(
        function
    )
