"""End-to-end cost profiler for LLM agent workflows.

`instrument()` records model calls and tools of a program as OpenTelemetry spans; `task`, `tool`, `step` and
`human` mark what only the program knows.
"""

from __future__ import annotations

import os

from agentprof._instrument import instrument, uninstrument
from agentprof._marks import human, step, task, tool
from agentprof._task import Spent, Task, current_task

__version__ = "0.1.0"

__all__ = [
    "Spent",
    "Task",
    "__version__",
    "current_task",
    "flush",
    "human",
    "instrument",
    "step",
    "task",
    "tool",
    "uninstrument",
]


def flush(timeout_s: float = 10.0) -> bool:
    """Send the spans that wait in this process.

    Returns:
        False if the time was not enough.
    """
    from agentprof import _export

    return _export.flush(timeout_s)


if "AGENTPROF_RUN" in os.environ:
    from agentprof._run import child

    child.begin()
