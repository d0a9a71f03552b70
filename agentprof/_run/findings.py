"""What a user should know of a run beside the figures: nothing captured, no tasks, marks that hit nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from agentprof._run.arguments import Arguments
from agentprof._run.notes import Note, Notes
from agentprof._run.sdks import WITHOUT_MODELS, named_versions
from agentprof._run.settings import MARKS_SCRIPTS, MarkedFunction
from agentprof._run.stack import common_function

MANY = 5
"""Calls without a task of their own that are worth a word."""


def errors(marks: Sequence[MarkedFunction], notes: Notes) -> Iterator[str]:
    """What went wrong: said even where nothing else is."""
    seen = {note.name: note for note in notes.of_kind("mark")}
    for mark in marks:
        note = seen.get(mark.target)
        if note is None and notes.of_kind("start"):
            yield f"--{mark.kind} {mark.target}: {_never(mark)}"
        elif note is not None and note.error is not None:
            yield f"--{mark.kind} {mark.target}: {note.error}"
    for missing in notes.of_kind("missing")[:1]:
        yield _without_agentprof(missing)
    lost = sum(note.lost for note in notes.of_kind("exit"))
    if lost:
        yield f"{lost:,} spans could not be delivered"
    failures = {kind for note in notes.of_kind("exit") for kind in note.failures}
    failed = sorted(failures - {"refused spans", "full queue"})
    if failed:
        yield f"agentprof itself failed in: {', '.join(failed)}"


def _never(mark: MarkedFunction) -> str:
    if mark.module == "__main__":
        return "was never called"
    return f"the program never imported {mark.module}"


def _without_agentprof(note: Note) -> str:
    if note.name:
        return (
            f"the program's calls are not recorded: {note.name} has the name of agentprof and stands before it. "
            "Give it another name, or move it off the path of the program."
        )
    return (
        f"{note.executable} (Python {note.python}) has no agentprof: its calls are not recorded. "
        f"Install it there: {shlex.quote(note.executable)} -m pip install agentprof-otel"
    )


def nothing_captured(arguments: Arguments, notes: Notes) -> str:
    """Why there may be no call, and what to do."""
    starts = notes.of_kind("start")
    if not starts:
        return (
            "no Python process of the program loaded agentprof. It is no Python program, or one that was "
            "started with -I, -E or -S or without PYTHONPATH: call agentprof.instrument() in it instead."
        )
    if notes.of_kind("missing") and not notes.of_kind("exit"):
        return "no model call was recorded, for want of agentprof in the program's environment."
    sdks = notes.sdks()
    if not notes.of_kind("exit") and notes.of_kind("import"):
        return (
            "no model call was recorded, but the program ended at once (a signal, os._exit) after it had imported "
            f"{', '.join(sorted({note.name for note in notes.of_kind('import')}))}: the calls of its last second are "
            "lost then. The cost shown is only what is known."
        )
    seams = sorted(
        {seam for note in notes.of_kind("exit") for seam in note.seams}
        - {"threading", "concurrent.futures.thread"}
    )
    said = [
        "no model call was recorded.",
        f"SDKs imported: {named_versions(sdks) or 'none that is known'}.",
        f"Instrumented: {', '.join(seams) or 'nothing'}.",
    ]
    recorded = {seam.partition(".")[0] for seam in seams}
    foreign = sorted(sdks.keys() - recorded - WITHOUT_MODELS)
    if foreign:
        said.append(
            f"{', '.join(foreign)}: not recorded by agentprof itself; spans of an OpenTelemetry "
            "instrumentation for it are understood (agentprof ingest)."
        )
    elif recorded & sdks.keys():
        said.append("The program made no call through them, or ended before.")
    else:
        said.append("agentprof doctor says what would be recorded; agentprof demo shows what it looks like.")
    return " ".join(said)


def without_task(
    arguments: Arguments, notes: Notes, calls: int, stacks: Sequence[Sequence[str]]
) -> str | None:
    """Which function could be the task of calls that share none; None where there is nothing to say."""
    if calls < MANY:
        return None
    function = common_function(stacks)
    if function is None or (function.startswith("__main__:") and not _marks_scripts(notes)):
        where = f" {function.partition(':')[2]} is on the stack of all of them:" if function else ""
        return (
            f"{calls:,} calls belong to no task but the run.{where} "
            "agentprof.task('...') on what does one piece of work makes each of its runs a task."
        )
    command = shlex.join(
        [
            "agentprof",
            "run",
            *_without_separator(arguments.options),
            "--task",
            function,
            "--",
            *arguments.command,
        ]
    )
    return (
        f"{calls:,} calls belong to no task but the run; {function} is on the stack of all of them. "
        f"To make each of its runs a task:\n  {command}"
    )


def _marks_scripts(notes: Notes) -> bool:
    """Whether functions of scripts can be marked from outside in the Python of the program."""
    return all(_version(note.python) >= MARKS_SCRIPTS for note in notes.outermost())


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _without_separator(options: Sequence[str]) -> list[str]:
    return [option for option in options if option != "--"]
