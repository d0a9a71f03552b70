"""Everything that can go wrong with what a user gave, each with what to do about it.

    AgentprofError           exit code 1
    ├── InputError           a file or stream that is not what was expected
    ├── InputsError          one or several of the above, after everything else was read
    ├── StoreError           the database file
    │   ├── StoreMissing     nothing was stored there yet
    │   ├── StoreLocked      another process holds it
    │   ├── StoreNotWritten  the disk is full, or the file may not be written
    │   └── StoreUnusable    not a database, or one of another version
    ├── TaskNotAddedUp       the spans of a task are stored, its summary could not be made
    ├── TaskNotFound         no stored task has this id
    ├── TaskAmbiguous        several stored tasks begin with this text
    ├── Unreachable          no collector answers at an address
    ├── PortTaken, NotBound  an address cannot be listened on (`collect.sockets`)
    └── DemoError            the demo could not run

Only `cli.main` prints them and chooses the exit code; usage errors (exit code 2) are click's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentprof._format import cut, printable


class AgentprofError(Exception):
    """Base of all errors that are told to the user as one message, without a traceback.

    Names of files and ids come from outside: the message is made printable, so that they cannot act on the
    terminal.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InputError(AgentprofError):
    """Input that cannot be read, or not whole. What could be read stays accepted.

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
    """Some inputs could not be read, or not whole, or some tasks not added up; everything else is stored."""

    def __init__(self, failures: Sequence[AgentprofError]) -> None:
        super().__init__("")
        self.args = ("\n".join(str(failure) for failure in failures),)
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


class StoreNotWritten(StoreError):
    """A write failed and left nothing behind; the same write may succeed later."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} cannot be written ({why}). Nothing of this write is kept; free space on its disk, "
            "or let it be written, and try again."
        )


class TaskNotAddedUp(AgentprofError):
    """The summary of a task could not be made: a mistake of agentprof itself, which costs this task only."""

    def __init__(self, task_id: str, error: Exception) -> None:
        super().__init__(
            f"task {cut(task_id, 80)} could not be added up ({type(error).__name__}: {cut(str(error), 200)}); "
            "its spans are stored. Please report it."
        )
        self.task_id = task_id


class TaskNotFound(AgentprofError):
    """No stored task has an id that is, or begins with, the text."""

    def __init__(self, text: str) -> None:
        super().__init__(f"there is no task {text!r}. agentprof report lists the tasks that are there.")


class TaskAmbiguous(AgentprofError):
    """The text is the beginning of several ids."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        shown = ", ".join(ids[:5]) + (", ..." if len(ids) > 5 else "")
        super().__init__(f"{text!r} is the beginning of several tasks: {shown}. Give more of the id.")


class Unreachable(AgentprofError):
    """Nobody answers where a collector should be."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"no collector answers at {url} ({why}).")


class DemoError(AgentprofError):
    """The demo could not run as asked."""
