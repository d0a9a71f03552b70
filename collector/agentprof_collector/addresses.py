"""Where a task stands below the address of a collector, in the API as on its page."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

ID: Final = "id"
"""The parameter that has the id of a task where the path has none."""


def of_task(task_id: str, below: str = "") -> str:
    """The path of a task, or of something below it.

    Browsers and many libraries take `.` and `..` out of a path, percent-encoded or not: these two ids stand behind it.
    """
    if task_id in (".", ".."):
        return f"/tasks/{below}?{urlencode({ID: task_id})}"
    return f"/tasks/{encoded(task_id)}{below}"


def encoded(task_id: str) -> str:
    """The id as one segment of a path."""
    return quote(task_id, safe="")
