"""What a run says while its program still runs: where the page is, and each task that is finished."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TextIO

from agentprof import _format as fmt
from agentprof import _lines
from agentprof.summary import TaskSummary

LONG_S = 5.0
"""A program that runs longer is one whose user may want to look at the page meanwhile."""
_NAME = 40


class Follower:
    """Writes lines between those of the program.

    Args:
        file: where to; the standard error of the run.
        tasks: whether a line is written for each finished task.
        quiet: whether nothing is to be said unasked.
    """

    def __init__(self, file: TextIO, *, tasks: bool, quiet: bool) -> None:
        self._file = file
        self._tasks = tasks
        # The program's own lines are for whoever reads its output; only a person is told of a page unasked.
        self._tells_page = tasks or (file.isatty() and not quiet)

    def finished(self, summary: TaskSummary) -> None:
        """Write the line of a task; called from any thread."""
        if self._tasks and summary.parent_task_id is None:
            self._say(line(summary))

    @contextlib.contextmanager
    def running(self, url: str) -> Iterator[None]:
        """While the program runs: says where the page is, at once where tasks are followed, else after a while."""
        if not self._tells_page:
            yield
            return
        text = f"tasks are shown at {url}"
        if self._tasks:
            self._say(text)
            yield
            return
        after = threading.Timer(LONG_S, self._say, [text])
        after.daemon = True
        after.start()
        try:
            yield
        finally:
            after.cancel()
            after.join()

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(f"agentprof: {text}", file=self._file, flush=True)


def line(summary: TaskSummary) -> str:
    """A finished task in one line: name, outcome, time, cost, calls."""
    document = summary.to_dict()
    name = fmt.cut(fmt.printable(summary.name), _NAME)
    figures = (
        _lines.outcome(document),
        fmt.duration(summary.wall_ns),
        _lines.short_cost(document),
        _lines.calls(document),
    )
    return f"{name}: {', '.join(figures)}"
