"""End-to-end cost profiler for LLM agent workflows.

`instrument()` records model calls and tools of a program as OpenTelemetry spans; `task`, `tool`, `step` and
`human` mark what only the program knows.
"""

from __future__ import annotations

import os

from agentprof._counts import Stats
from agentprof._instrument import instrument, uninstrument
from agentprof._marks import human, step, task, tool
from agentprof._task import Spent, Task, current_task

__version__ = "0.1.0"

__all__ = [
    "Spent",
    "Stats",
    "Task",
    "__version__",
    "current_task",
    "flush",
    "human",
    "instrument",
    "stats",
    "step",
    "task",
    "tool",
    "uninstrument",
]


def flush(timeout_s: float | None = None) -> bool:
    """Send the spans that wait in this process.

    Args:
        timeout_s: How long that may take; None: 10 seconds.

    Returns:
        Whether all of them were delivered or put on disk in that time.
    """
    from agentprof import _export

    return _export.flush(timeout_s)


def stats() -> Stats:
    """What became of the spans of this process so far: waiting, sent, on disk, lost; and failures of ours."""
    from agentprof import _export

    return _export.stats()


if "AGENTPROF_RUN" in os.environ:
    from agentprof._run import child

    child.begin()
