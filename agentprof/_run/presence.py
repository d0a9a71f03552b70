"""Whether a process holds spans that would be lost if it were killed now: noted for the run when that changes."""

from __future__ import annotations

from agentprof._forking import renew_in_child
from agentprof._run.notes import Note, write

_folder: str | None = None
_holds = False


def begin(folder: str) -> None:
    """Note it from now on.

    Args:
        folder: Of the notes of the run.
    """
    global _folder
    _folder = folder


def holds() -> None:
    """Something is being recorded."""
    global _holds
    if not _holds and _folder is not None:
        _holds = True
        write(_folder, Note(kind="holds"))


def handed_over() -> None:
    """Everything that was recorded has been delivered."""
    global _holds
    if _holds and _folder is not None:
        _holds = False
        write(_folder, Note(kind="handed"))


def _begin_in_child() -> None:
    global _holds
    _holds = False


renew_in_child(_begin_in_child)
