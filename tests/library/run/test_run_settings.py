"""What a run tells the processes of its program."""

from __future__ import annotations

import os

import msgspec
import pytest

from agentprof._run.settings import MarkedFunction, RunSettings, decode

SETTINGS = RunSettings(
    task_id="1",
    name="agent.py",
    traceparent="00-1-2-01",
    notes="/tmp/notes",
    endpoint="http://127.0.0.1:1",
    labels={"customer": "é"},
    marks=(MarkedFunction("task", "agent:main"),),
    awaited=("httpx", "openai"),
)


@pytest.mark.parametrize("notes", ["/tmp/notes", "/tmp/é", os.fsdecode(b"/tmp/caf\xe9")])
def test_what_is_told_is_understood(notes: str) -> None:
    """Whatever the folder of notes is called; its first lines need no decoder."""
    settings = msgspec.structs.replace(SETTINGS, notes=notes)
    text = settings.encode()
    assert decode(text) == settings
    assert text.split("\n")[:3] == [notes, "0", "httpx,openai"]


@pytest.mark.parametrize("text", ["", "x", "/tmp\n0\n\nnothing", "a\n\udce9", "\n\n\n{}"])
def test_what_is_no_run_is_none(text: str) -> None:
    """The variable may hold anything."""
    assert decode(text) is None
