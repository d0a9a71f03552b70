"""What `agentprof run` is asked for on its command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agentprof._run.settings import MarkedFunction, MarkKind

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

_DESCRIPTION = """\
Run any Python program, unchanged, and say what its agent tasks cost and what they waited for.

The program keeps its input, output and exit code; the summaries follow on standard error when it has ended,
also when it was interrupted or killed. Model calls outside any task the program declares belong to one task of
the run, named after the script; its outcome is the exit code, unless the program records another."""

_EXAMPLES = """\
Examples:
    agentprof run -- python agent.py --question "why?"
    agentprof run -- python -m package.agent
    agentprof run -- my-console-script
    agentprof run --label variant=b --label customer=acme -- python agent.py
    agentprof run --task agent:answer --tool agent:Tools.search -- python main.py
    agentprof run --summary run.json --quiet -- python agent.py

Variables:
    AGENTPROF_STREAM_USAGE=1    ask for the usage of chat streams; the program does not see it
    AGENTPROF_ESTIMATE_USAGE=1  estimate tokens that no answer reports, labelled as an estimate

MODULE:FUNC is a function, or MODULE:Class.method; __main__:FUNC is one of the script itself (Python 3.12)."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """One `agentprof run`."""

    command: list[str]
    labels: dict[str, str]
    marks: tuple[MarkedFunction, ...]
    summary: str | None
    """A file, or `-` for standard output; None: standard error."""
    quiet: bool
    follow: bool
    """A line for each task that is finished, while the program runs."""
    db: Path | None
    options: list[str]
    """As they were typed, without the command."""


def parse(arguments: Sequence[str]) -> Arguments:
    """Read the command line.

    Raises:
        SystemExit: with code 2 where it is wrong, 0 after the help.
    """
    parser = _parser()
    found = parser.parse_args(list(arguments))
    command = found.command[1:] if found.command[:1] == ["--"] else found.command
    if not command:
        parser.error("expected a command to run: agentprof run -- python agent.py")
    options = list(arguments[: len(arguments) - len(found.command)])
    return Arguments(
        command=list(command),
        labels=dict(found.labels),
        marks=tuple(found.marks),
        summary=found.summary,
        quiet=found.quiet,
        follow=found.follow,
        db=found.db,
        options=options,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agentprof run",
        usage="agentprof run [options] -- COMMAND [ARGUMENT...]",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--label",
        dest="labels",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=_label,
        help="put a label on the tasks of the run; may be repeated",
    )
    for kind, what in (("task", "one task each"), ("tool", "a tool"), ("step", "a step of the task")):
        parser.add_argument(
            f"--{kind}",
            dest="marks",
            metavar="MODULE:FUNC",
            action="append",
            default=[],
            type=_marker(kind),
            help=f"runs of this function are {what}; may be repeated",
        )
    parser.add_argument(
        "--summary",
        metavar="FILE",
        help='write the summaries there, as JSON if it ends in .json; "-" is standard output',
    )
    loudness = parser.add_mutually_exclusive_group()
    loudness.add_argument("--quiet", action="store_true", help="print nothing but errors")
    loudness.add_argument(
        "--follow",
        action="store_true",
        help="say at once where the page of the run is, and write a line for each task as it is finished",
    )
    parser.add_argument(
        "--db", type=Path, metavar="FILE", help="database file; default: AGENTPROF_DB, else the user's own"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help=argparse.SUPPRESS)
    return parser


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value


def _marker(kind: str) -> type[MarkedFunction]:
    def marked(text: str) -> MarkedFunction:
        if _TARGET.fullmatch(text) is None:
            raise argparse.ArgumentTypeError(f"expected MODULE:FUNC, got {text!r}")
        return MarkedFunction(cast("MarkKind", kind), text)

    return cast("type[MarkedFunction]", marked)
