"""What a run says while its program still runs."""

from __future__ import annotations

import io

from support.spans import call, task

from agentprof._run.follow import Follower, line
from agentprof.model import Span
from agentprof.rollup import roll_up
from agentprof.summary import TaskSummary


def summary_of(spans: list[Span]) -> TaskSummary:
    """Of the task that the first span starts."""
    mark = spans[0].task
    assert mark is not None
    return roll_up(mark.id, spans)


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


def test_a_finished_task_is_one_line() -> None:
    """Its name cannot act on the terminal, nor make a second line."""
    summary = summary_of([task("t", 0, 2_000_000_000), call("c", 0, 1_500_000_000, "t")])
    said = line(summary)
    assert "\n" not in said
    assert summary.name in said
    assert "2.00 s" in said
    assert "1 model call" in said


def test_only_who_asked_gets_lines_of_tasks() -> None:
    """Each task that is in no other."""
    summary = summary_of([task("t", 0, 2_000_000_000)])
    for tasks in (True, False):
        file = io.StringIO()
        Follower(file, tasks=tasks, quiet=False).finished(summary)
        assert (file.getvalue() != "") is tasks


def test_the_page_is_told_at_once_where_tasks_are_followed() -> None:
    """In one line, before the program has ended."""
    file = io.StringIO()
    with Follower(file, tasks=True, quiet=False).running("http://127.0.0.1:1"):
        assert file.getvalue() == "agentprof: tasks are shown at http://127.0.0.1:1\n"


def test_a_short_program_and_one_whose_output_is_read_by_another_are_left_alone() -> None:
    """Nothing is written between their lines."""
    for file in (io.StringIO(), Terminal()):
        with Follower(file, tasks=False, quiet=False).running("http://127.0.0.1:1"):
            pass
        assert file.getvalue() == ""
