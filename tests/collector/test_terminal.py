from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentprof._render import COLOURS
from agentprof_collector import terminal

Demo = tuple[list[dict[str, Any]], Path]


def drawn(document: dict[str, Any], width: int, colours: str | None) -> str:
    """One task in a terminal of this width; colours: a rich colour system, or None."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        color_system=colours,  # type: ignore[arg-type]
        force_terminal=colours is not None,
        highlight=False,
        no_color=colours is None,
    )
    terminal.draw("task", document, console)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_bar_in_colours(demo_run: Demo, width: int) -> None:
    """One run of blocks a part, in the part's colour, over the whole width."""
    task = demo_run[0][1]
    bar = drawn(task, width, "truecolor").splitlines()[1]
    runs = re.findall(r"\x1b\[38;2;(\d+);(\d+);(\d+)m(█+)\x1b\[0m", bar)
    present = [name for name, ns in task["timeline_ns"].items() if ns]
    colours = ["#{:02x}{:02x}{:02x}".format(*map(int, run[:3])) for run in runs]
    assert colours == [COLOURS[name] for name in present]
    assert sum(len(run[3]) for run in runs) == width


def test_without_colours_letters_stand_for_parts(demo_run: Demo) -> None:
    """No escape codes, and the same widths as with colours."""
    task = demo_run[0][1]
    text = drawn(task, 80, None)
    assert "\x1b" not in text
    letters = text.splitlines()[1]
    coloured = drawn(task, 80, "truecolor").splitlines()[1]
    sizes = [len(run) for run in re.findall("█+", coloured)]
    assert [len(run.group()) for run in re.finditer(r"(.)\1*", letters)] == sizes


def test_wide_tables_say_more(demo_run: Demo) -> None:
    """At 120 columns the profile has busy time and the row's own tokens and cost."""
    task = demo_run[0][1]
    assert "self cost" in drawn(task, 120, None)
    assert "self cost" not in drawn(task, 80, None)


def test_markup_in_names_is_text(demo_run: Demo) -> None:
    """A task cannot draw with the names it has."""
    task = demo_run[0][0] | {"name": "[red]x[/red]", "labels": {"k": "[bold]v[/bold]"}}
    text = drawn(task, 80, None)
    assert "[red]x[/red]" in text
    assert "k=[bold]v[/bold]" in text
