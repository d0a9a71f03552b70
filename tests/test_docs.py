"""What can be used is documented: fields, warnings, commands, vocabularies, attributes."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import click
import pytest

import agentprof
from agentprof._run import arguments
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


def everything() -> str:
    """All that users are told, help texts apart."""
    return "\n".join(page.read_text() for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))))


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *DOCS.glob("*.md")], ids=lambda page: page.name)
def test_no_link_between_pages_is_broken(page: Path) -> None:
    """Neither to a file nor to a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        if ":" not in name:
            there = page.parent / name if name else page
            assert there.exists(), target
            assert not heading or heading in _headings(there), target


def test_a_source_distribution_holds_what_the_pages_link_to() -> None:
    """So that they can be read in it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        targets = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]
    for page in (*ROOT.glob("*.md"), *DOCS.glob("*.md")):
        for target in re.findall(r"\]\(([^)#:\s]+)[)#]", page.read_text()):
            top = (page.parent / target).resolve().relative_to(ROOT).parts[0]
            assert top in targets["sdist"]["include"], target


def _headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


def test_every_argument_of_instrument_is_explained() -> None:
    """And the page explains none that does not exist."""
    table = (DOCS / "settings.md").read_text().split("## Arguments")[1].split("##")[0]
    assert set(re.findall(r"`(\w+)=`", table)) == set(inspect.signature(agentprof.instrument).parameters)


def test_every_variable_is_explained() -> None:
    """All that the code names and that begins with our name, and no other."""
    sources = [*(ROOT / "agentprof").rglob("*.py"), *(ROOT / "collector").rglob("*.py")]
    named = {
        name for source in sources for name in re.findall(r"\bAGENTPROF(?:_[A-Z]+)+\b", source.read_text())
    }
    table = (DOCS / "settings.md").read_text().split("## Variables")[1].split("##")[0]
    assert set(re.findall(r"`(AGENTPROF_\w+)`", table)) == named


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_option_of_a_command_is_in_the_docs(name: str) -> None:
    """Beside the help of the command."""
    command = commands.commands[name]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    text = everything()
    assert {option for option in options if not re.search(rf"{option}(?![\w-])", text)} == set()


def test_no_option_is_in_the_docs_that_a_command_does_not_have() -> None:
    """Of those that a line gives to one of our commands."""
    known = {name: set(_options(command)) for name, command in commands.commands.items()}
    known["run"] |= set(re.findall(r"--[a-z]+", arguments._parser().format_help()))
    for name, line in re.findall(r"agentprof (\w+) ([^\n`]*)", everything()):
        if name in known:
            given = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line.partition(" -- ")[0]))
            assert given <= known[name] | {"--help"}, line


def _options(command: click.Command) -> list[str]:
    return [option for parameter in command.params for option in parameter.opts]
