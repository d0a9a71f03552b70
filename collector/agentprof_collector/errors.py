"""Everything that can go wrong with what a user gave, each with what to do about it.

    AgentprofError           exit code 1
    ├── InputError           a file or stream that is not what was expected
    ├── InputsError          one or several of the above, after everything else was read
    ├── StoreError           the database file
    │   ├── StoreMissing     nothing was stored there yet
    │   ├── StoreLocked      another process holds it
    │   └── StoreUnusable    not a database, or one of another version
    ├── TaskNotFound         no stored task has this id
    ├── TaskAmbiguous        several stored tasks begin with this text
    └── DemoError            the demo could not run

Only `cli.main` prints them and chooses the exit code; usage errors (exit code 2) are click's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class AgentprofError(Exception):
    """Base of all errors that are told to the user as one message, without a traceback."""

    exit_code = 1


class InputError(AgentprofError):
    """Input that cannot be read. What stood before the bad place stays accepted.

    Args:
        source: name of the file, or `<stdin>`.
        what: what was expected and what came.
        advice: what to do.
        line: where, counted from 1; None where the input has no lines.
    """

    def __init__(self, source: str, what: str, advice: str, line: int | None = None) -> None:
        place = source if line is None else f"{source}, line {line}"
        super().__init__(f"{place}: {what}. {advice}")
        self.source = source
        self.line = line


class InputsError(AgentprofError):
    """Some inputs could not be read, or not to their end; everything else is stored."""

    def __init__(self, failures: Sequence[InputError]) -> None:
        super().__init__("\n".join(str(failure) for failure in failures))
        self.failures = tuple(failures)


class StoreError(AgentprofError):
    """Base of the errors about the database file."""


class StoreMissing(StoreError):
    """There is no database at the path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"no database at {path}. Store spans there first (agentprof ingest --db {path} FILE...), "
            "or name another with --db or AGENTPROF_DB."
        )


class StoreLocked(StoreError):
    """Another process has the database open."""

    def __init__(self, path: Path, pid: int | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{path} is held by {holder}. Wait for it or stop it, "
            "or use another file with --db or AGENTPROF_DB."
        )
        self.pid = pid


class StoreUnusable(StoreError):
    """The file is no database this version can use."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}. Use another file with --db or AGENTPROF_DB.")


class TaskNotFound(AgentprofError):
    """No stored task has an id that is, or begins with, the text."""

    def __init__(self, text: str) -> None:
        super().__init__(f"there is no task {text!r}. agentprof report lists the tasks that are there.")


class TaskAmbiguous(AgentprofError):
    """The text is the beginning of several ids."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        super().__init__(f"{text!r} is the beginning of several tasks: {shown}. Give more of the id.")


class DemoError(AgentprofError):
    """The demo could not run as asked."""
