"""Where things are when the user does not say: read from the environment in one place."""

from __future__ import annotations

import os
from pathlib import Path

DATABASE_VARIABLE = "AGENTPROF_DB"


def database_path(given: Path | None) -> Path:
    """The database file: what was given, else `AGENTPROF_DB`, else a file in the user's data folder."""
    if given is not None:
        return given
    named = os.environ.get(DATABASE_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME")
    folder = Path(data) if data else Path.home() / ".local" / "share"
    return folder / "agentprof" / "agentprof.duckdb"
