"""What the processes of a program leave for the run: one file of JSON lines a process, in a private folder.

Files rather than requests: they cost nothing at the start, and what is written survives a kill.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from agentprof._run.sdks import SDKS


class Note(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line of a process."""

    kind: str
    """`start`, `missing` (no agentprof there), `import` (asked for), `sdk` (there), `mark`, `holds` (spans nobody
    else has), `handed` (those are delivered) or `exit`."""
    pid: int = 0
    ppid: int = 0
    executable: str = ""
    python: str = ""
    argv: list[str] = []
    """Of a start: how the process was called."""
    name: str = ""
    """Of `import` and `sdk` the package, of `mark` the target, of `missing` the file of another module of our name."""
    version: str | None = None
    error: str | None = None
    """Of `mark` and `missing`: what went wrong; None: nothing."""
    spans: int = 0
    """Of `exit`: spans of the run's own task that ended in the process."""
    lost: int = 0
    """Of `exit`: spans that could not be delivered."""
    outcome: str | None = None
    score: float | None = None
    labels: dict[str, str] = {}
    seams: list[str] = []
    """Of `exit`: modules that were instrumented."""
    failures: dict[str, int] = {}
    """Of `exit`: failures of agentprof itself, by kind."""


def write(folder: str, note: Note) -> None:
    """Add a line to the file of this process; what cannot be written is left out."""
    with contextlib.suppress(OSError):
        line = msgspec.json.encode(note) + b"\n"
        path = os.path.join(folder, f"{os.getpid()}.jsonl")
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


class Notes:
    """All that the processes of a run have left."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes

    @classmethod
    def read(cls, folder: Path) -> Notes:
        """The notes of a folder, process by process; lines that are cut off or foreign are left out."""
        found: list[Note] = []
        for file in sorted(folder.glob("*.jsonl"), key=lambda file: (file.stat().st_mtime_ns, file.name)):
            pid = int(file.stem) if file.stem.isdigit() else 0
            for line in file.read_bytes().splitlines():
                with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
                    note = msgspec.json.decode(line, type=Note)
                    note.pid = pid
                    found.append(note)
        return cls(found)

    def of_kind(self, kind: str) -> list[Note]:
        """The lines of one kind."""
        return [note for note in self._notes if note.kind == kind]

    def outermost(self) -> list[Note]:
        """The starts of processes that no other one of them started."""
        starts = self.of_kind("start")
        pids = {note.pid for note in starts}
        return [note for note in starts if note.ppid not in pids]

    def sdks(self) -> dict[str, str | None]:
        """The packages seen, with their versions where known.

        A process that could not say goodbye may only have tried to import what it names.
        """
        ended = {note.pid for note in self.of_kind("exit")}
        seen: dict[str, str | None] = {
            note.name: None for note in self.of_kind("import") if note.pid not in ended and note.name in SDKS
        }
        seen |= {note.name: note.version for note in self.of_kind("sdk")}
        return dict(sorted(seen.items()))

    def cut(self) -> int:
        """Processes that ended while they held spans nobody else had."""
        last = {note.pid: note.kind for note in self._notes if note.kind in ("holds", "handed", "exit")}
        return sum(kind == "holds" for kind in last.values())

    def last(self, field: str) -> Any:
        """The last value of a field that an ending process gave, or None."""
        given = [value for note in self.of_kind("exit") if (value := getattr(note, field)) is not None]
        return given[-1] if given else None
