"""Addresses of pages; whatever stands in them is percent-encoded."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, urlencode

from agentprof_collector.addresses import of_task

TASKS = "/"


def task(task_id: str, below: str = "") -> str:
    """The page of a task, or what is below it."""
    return of_task(task_id, below)


def task_json(task_id: str, below: str = "") -> str:
    """What the page of a task shows, in the API."""
    return f"/api/v1{task(task_id, below)}"


def tasks(given: Iterable[tuple[str, str]], *, without: Iterable[str] = (), **more: str) -> str:
    """The page of tasks as it was asked for, with some parameters changed."""
    return TASKS + query(given, without, more)


def tasks_json(given: Iterable[tuple[str, str]]) -> str:
    """The same in the API."""
    return "/api/v1/tasks" + query(given, ("live",), {})


def query(given: Iterable[tuple[str, str]], without: Iterable[str], more: dict[str, str]) -> str:
    """Parameters as they stand behind an address; empty if there are none."""
    dropped = {*without, *more}
    pairs = [(name, value) for name, value in given if name not in dropped] + list(more.items())
    return f"?{urlencode(pairs)}" if pairs else ""


def jaeger(url: str | None, trace_id: str) -> str | None:
    """A trace in Jaeger, where there is one."""
    if url is None or not url.startswith(("http://", "https://")):
        return None
    return f"{url.rstrip('/')}/trace/{quote(trace_id, safe='')}"
