"""Where things are when the user does not say: read from the environment in one place."""

from __future__ import annotations

import os
from pathlib import Path

from agentprof_collector.errors import AgentprofError

DATABASE_VARIABLE = "AGENTPROF_DB"
TOKEN_VARIABLE = "AGENTPROF_TOKEN"


def token() -> str | None:
    """What a collector asks of everyone who speaks to it, and they show; None: nothing."""
    return os.environ.get(TOKEN_VARIABLE) or None


def database_path(given: Path | None) -> Path:
    """The database file: what was given, else `AGENTPROF_DB`, else a file in the user's data folder.

    Raises:
        AgentprofError: it is in a home folder that nobody knows.
    """
    if given is not None:
        return given
    named = os.environ.get(DATABASE_VARIABLE)
    data = os.environ.get("XDG_DATA_HOME")
    try:
        if named:
            return Path(named).expanduser()
        folder = Path(data) if data else Path.home() / ".local" / "share"
    except RuntimeError as error:
        where = f"{DATABASE_VARIABLE} is {named}, and that home folder" if named else "your home folder"
        raise AgentprofError(
            f"{where} is not known. Name the database file with --db, or by its whole path in {DATABASE_VARIABLE}."
        ) from error
    return folder / "agentprof" / "agentprof.duckdb"
