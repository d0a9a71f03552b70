"""The command line: the group of commands, and the only place where an error is printed and a code returned."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

import click

import agentprof
from agentprof._format import printable
from agentprof.config import ConfigError
from agentprof_collector.commands.collect import collect
from agentprof_collector.commands.demo import demo
from agentprof_collector.commands.doctor import doctor
from agentprof_collector.commands.energy import energy
from agentprof_collector.commands.ingest import ingest
from agentprof_collector.commands.outcome import outcome
from agentprof_collector.commands.report import report
from agentprof_collector.commands.run import run
from agentprof_collector.errors import AgentprofError

_FAILED = 1
_INTERRUPTED = 130
_OUTPUT_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to stdout fails with; of files agentprof writes itself the errors are `AgentprofError`s."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(agentprof.__version__, prog_name="agentprof")
def commands() -> None:
    """What did an agent task cost, and what was it waiting for?

    \b
    agentprof demo                     see it work, with no key and no network
    agentprof run -- python agent.py   run a program and see what its tasks cost
    agentprof collect                  receive spans of any number of programs, and show them on a page
    agentprof ingest traces.jsonl      store spans of any OpenTelemetry source
    agentprof report                   the tasks they add up to
    agentprof report TASK              one of them: time, cost, retries, and where they went
    agentprof outcome TASK success     record later how one ended
    agentprof energy --server HOST     measure the GPUs of an endpoint
    agentprof doctor                   look at this environment, and try the SDKs in it
    """


for command in (demo, run, collect, ingest, report, outcome, doctor, energy):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        0; 1 for a failure; 2 for wrong usage; 130 when interrupted.
    """
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a bar's blocks shows question marks, not an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = commands.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
        # What is still kept back would fail at the end of the process, where nobody could say so.
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except (AgentprofError, ConfigError) as error:
        # A message of several lines is one of several errors.
        lines = str(error).split("\n")
        click.echo("\n".join(["agentprof: " + printable(lines[0]), *map(printable, lines[1:])]), err=True)
        return error.exit_code if isinstance(error, AgentprofError) else _FAILED
    except BrokenPipeError:
        # The reader of a pipe has left.
        _close_stdout_quietly()
        return _FAILED
    except Exception as error:  # noqa: BLE001 (a user sees a sentence, not a traceback)
        if isinstance(error, OSError) and error.errno in _OUTPUT_FULL and error.filename is None:
            click.echo(f"agentprof: the output cannot be written: {error.strerror}", err=True)
            _close_stdout_quietly()
            return _FAILED
        if os.environ.get("AGENTPROF_DEBUG"):
            traceback.print_exc()
        click.echo(
            f"agentprof: a mistake of agentprof itself: {type(error).__name__}: {printable(str(error))}. "
            "AGENTPROF_DEBUG=1 shows where; please report it.",
            err=True,
        )
        return _FAILED
    return code if isinstance(code, int) else 0


def _open_what_is_closed() -> None:
    """Of the standard streams (`>&-`): else the next file that is opened, such as the database, would be written to."""
    for name, mode, flags in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_WRONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, flags)
            setattr(sys, name, open(nowhere, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _close_stdout_quietly() -> None:
    """Keeps the interpreter from trying to write what is left, and from saying that it cannot."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
