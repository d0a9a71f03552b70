"""Marks functions of the program from outside, when their modules are imported."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from agentprof import _guard, _marks
from agentprof._imports import when_imported
from agentprof._run.main_script import Watch
from agentprof._run.notes import Note, write
from agentprof._run.settings import MarkedFunction

_NO_MONITORING = (
    "functions of the script itself can be marked from outside with Python 3.12 or newer; "
    "put @agentprof.task(...) on it, or move it to a module"
)


def hook(mark: MarkedFunction, notes: str) -> None:
    """Mark the function as soon as its module is there."""

    def on_import(module: ModuleType) -> None:
        error: str | None = None
        try:
            _mark(module, mark)
        except AttributeError as missing:
            error = f"there is no {_name_of(missing, mark)} in it"
        except TypeError as wrong:
            error = str(wrong)
        except Exception:
            _guard.failed("marking a function")
            error = "a failure of agentprof"
        write(notes, Note(kind="mark", name=mark.target, error=error))

    if mark.module != "__main__":
        when_imported(mark.module, on_import)
        return
    around, name = mark_for(mark), mark.path.rpartition(".")[2]
    if not _script(notes).add(mark, functools.partial(around.open, name)):
        write(notes, Note(kind="mark", name=mark.target, error=_NO_MONITORING))


@functools.cache
def _script(notes: str) -> Watch:
    return Watch(notes)


def mark_for(mark: MarkedFunction) -> _marks.Mark[Any]:
    """What the user asked to put around the function."""
    name = mark.path.rpartition(".")[2]
    if mark.kind == "task":
        return _marks.task(name)
    found: _marks.Mark[Any] = _marks.tool(name) if mark.kind == "tool" else _marks.step(name)
    return found


def _mark(module: ModuleType, mark: MarkedFunction) -> None:
    # Only here: it takes longer to import than all of agentprof.
    import wrapt

    owner, name, found = wrapt.resolve_path(module, mark.path)
    around = mark_for(mark)
    if isinstance(found, (staticmethod, classmethod)):
        setattr(owner, name, type(found)(around(found.__func__)))
    else:
        setattr(owner, name, around(found))


def _name_of(missing: AttributeError, mark: MarkedFunction) -> str:
    """Of what is not there; newer versions of wrapt say it in the cause."""
    for error in (missing, missing.__cause__):
        if isinstance(error, AttributeError) and error.name is not None:
            return error.name
    return mark.path
