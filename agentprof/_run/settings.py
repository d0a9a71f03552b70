"""What a run tells the processes of its program, in one environment variable."""

from __future__ import annotations

import functools
import os
from typing import Final, Literal

import msgspec

from agentprof._run.sdks import SDKS
from agentprof.seams import SEAMS

VARIABLE: Final = "AGENTPROF_RUN"
"""JSON of `RunSettings`; read by `_autostart/sitecustomize.py` too, which knows it by this name."""

MARKS_SCRIPTS: Final = (3, 12)
"""The Python that can mark functions of the script itself."""

MarkKind = Literal["task", "tool", "step"]


class MarkedFunction(msgspec.Struct, frozen=True):
    """A function to be marked as if the program had done it: `--task`, `--tool` or `--step`."""

    kind: MarkKind
    target: str
    """`module:function` or `module:Class.method`."""

    @property
    def module(self) -> str:
        """The module it is found in."""
        return self.target.partition(":")[0]

    @property
    def path(self) -> str:
        """Where it is in its module."""
        return self.target.partition(":")[2]


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as its processes see it."""

    task_id: str
    name: str
    traceparent: str
    """W3C form of the span of the run, which the parent writes when the program has ended."""
    notes: str
    """Folder where each process leaves what it saw."""
    endpoint: str | None = None
    """Where spans go; None: where they would go without the run."""
    key: str = ""
    """Hex of the key that hashes of the run's task are made with, in all of its processes."""
    labels: dict[str, str] = {}
    marks: tuple[MarkedFunction, ...] = ()
    resource: dict[str, str] = {}
    """What every span of the run says of it: commit, host."""
    awaited: tuple[str, ...] = ()
    """Packages whose import switches the process on."""

    def encode(self) -> str:
        """As the text of the variable: a line each for what a starting process needs, then all of it.

        The first lines are the folder of notes, 1 where functions of the script itself are marked, and the
        awaited packages: a starting process reads them without loading a decoder. The folder stands there alone,
        as JSON cannot hold a path that is no UTF-8.
        """
        marks_script = any(mark.module == "__main__" for mark in self.marks)
        lines = (
            self.notes,
            str(int(marks_script)),
            ",".join(self.awaited),
            msgspec.json.encode(msgspec.structs.replace(self, notes="")).decode(),
        )
        return "\n".join(lines)


def awaited(marks: tuple[MarkedFunction, ...]) -> tuple[str, ...]:
    """The packages to wait for: those with a seam, the known SDKs, and those of marked functions."""
    names = {module.partition(".")[0] for seam in SEAMS for module in seam.MODULES}
    return tuple(sorted(names | SDKS.keys() | {mark.module.partition(".")[0] for mark in marks}))


@functools.cache
def current() -> RunSettings | None:
    """The run this process is part of, or None."""
    return decode(os.environ.get(VARIABLE) or "")


def decode(text: str) -> RunSettings | None:
    """What `encode` made; None for anything else."""
    notes, _, rest = text.partition("\n")
    try:
        found = msgspec.json.decode(rest.rpartition("\n")[2], type=RunSettings)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return msgspec.structs.replace(found, notes=notes)
