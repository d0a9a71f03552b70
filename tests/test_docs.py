"""What can be used is documented: fields, warnings, commands, vocabularies, attributes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentprof.rollup.many import group
from agentprof.rollup.warnings import DETAILS
from agentprof.summary import TIMELINE, TOKENS, ModelRow, NodeRow, NodeTotals, TaskSummary, ToolRow
from agentprof_collector.cli import commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def words(name: str) -> set[str]:
    """Everything a page sets in code."""
    return set(re.findall(r"`([^`\n]+)`", (DOCS / name).read_text()))


@pytest.mark.parametrize("struct", [TaskSummary, NodeRow, NodeTotals, ToolRow, ModelRow])
def test_every_field_of_a_summary_is_explained(struct: type) -> None:
    """Also the parts of the timeline and the classes of tokens."""
    said = words("summary.md")
    assert set(struct.__struct_fields__) <= said  # type: ignore[attr-defined]
    assert {*TIMELINE, *TOKENS} <= said


def test_every_field_of_a_group_is_explained() -> None:
    """Of many tasks."""
    from support.spans import TASK, task

    from agentprof.rollup import roll_up

    assert set(group([roll_up(TASK, [task("root", 0, 1)])])) <= words("summary.md")


def test_every_warning_is_explained() -> None:
    """And no page explains one that does not exist."""
    table = (DOCS / "summary.md").read_text().split("## Doubts")[1].split("##")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(DETAILS)


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_command_is_in_the_readme_and_has_an_example(name: str) -> None:
    """With a help text worth reading."""
    assert f"agentprof {name}" in (ROOT / "README.md").read_text()
    help_text = commands.commands[name].help or ""
    assert f"agentprof {name}" in help_text


def test_every_page_is_linked_from_the_readme_or_another_page() -> None:
    """No page is lost, and no link is broken."""
    pages = {page.name: page.read_text() for page in DOCS.glob("*.md")}
    readme = (ROOT / "README.md").read_text()
    linked = set(re.findall(r"\]\((?:docs/)?([\w-]+\.md)", "\n".join([readme, *pages.values()])))
    assert set(pages) <= linked
    for name in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / name).exists(), name
