"""What processes leave behind is read whole, whatever they left."""

import os
from pathlib import Path

import pytest

from agentprof._run.notes import Note, Notes, write
from agentprof._run.stack import common_function


def test_notes_are_read_by_process(tmp_path: Path) -> None:
    """Lines that were cut off, and foreign files, are left out."""
    write(str(tmp_path), Note(kind="start", ppid=1))
    write(str(tmp_path), Note(kind="import", name="openai"))
    (tmp_path / "77.jsonl").write_bytes(
        b'{"kind": "start", "ppid": %d}\n{"kind": "import", "name": "anthropic"}\n'
        b'{"kind": "sdk", "name": "openai", "version": "3.1"}\n{"kind": "exit", "spans": 2}\n{"kin'
        % os.getpid()
    )
    (tmp_path / "notes.txt").write_text("no note")
    notes = Notes.read(tmp_path)
    assert {note.pid for note in notes.of_kind("start")} == {os.getpid(), 77}
    assert [note.pid for note in notes.outermost()] == [os.getpid()]
    # What a process that ended asked for in vain is no SDK it had; of the other it is not known.
    assert notes.sdks() == {"openai": "3.1"}
    assert notes.last("spans") == 2
    assert notes.last("outcome") is None


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """A process may outlive its run."""
    write(str(tmp_path / "gone"), Note(kind="exit"))


@pytest.mark.parametrize(
    ("stacks", "function"),
    [
        ([["m:main", "m:a"], ["m:main", "m:b"]], "m:main"),
        ([["m:main", "m:a", "m:ask"], ["m:main", "m:b", "m:ask"]], "m:ask"),
        ([["m:main", "m:work", "m:a"], ["m:main", "m:work", "m:b"]], "m:work"),
        ([["m:main"], []], None),
        ([], None),
    ],
)
def test_the_innermost_common_function(stacks: list[list[str]], function: str | None) -> None:
    """On all of the stacks."""
    assert common_function(stacks) == function
