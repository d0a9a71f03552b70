"""The page at the collector's own address: many tasks, one task, rendered here, readable without scripts.

Pages show what is in the documents of the API, and nothing else. Every text is escaped by the templates.
"""

from __future__ import annotations

import anyio
from starlette.routing import BaseRoute, Route

from agentprof_collector.collect.served import Served
from agentprof_collector.page.answers import Files
from agentprof_collector.page.pages import TaskPages, TasksPage

_AT_ONCE = 8
"""Pages that read the store at the same time; further ones wait."""


def routes(served: Served) -> list[BaseRoute]:
    """The routes of the pages and of the files they need."""
    limiter = anyio.CapacityLimiter(_AT_ONCE)
    return [
        Route("/", TasksPage(served, limiter)),
        Route("/tasks/{rest:anything}", TaskPages(served, limiter)),
        Route("/static/{name}", Files()),
    ]
