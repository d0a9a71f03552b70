"""The HTTP API under `/api/v1`: the documents of the reports, and outcomes recorded later.

`operations.py` lists all of it; a request is checked against that list before anything is read.
"""

from __future__ import annotations

import anyio
from starlette.routing import BaseRoute, Route

from agentprof_collector.api import openapi
from agentprof_collector.api.operations import OPERATIONS, PREFIX, Operation
from agentprof_collector.api.resources import Described, Nothing, Resource, TaskResource
from agentprof_collector.collect.served import Served

_AT_ONCE = 8
"""Requests that read the store at the same time; further ones wait."""


def routes(served: Served) -> list[BaseRoute]:
    """The routes of the API, for an application that has nothing else below `/api`."""
    limiter = anyio.CapacityLimiter(_AT_ONCE)
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    plain = {path: by_method for path, by_method in by_path.items() if "{id}" not in path}
    return [
        Route(openapi.PATH, Described()),
        *(Route(path, Resource(by_method, served, limiter)) for path, by_method in plain.items()),
        Route(
            f"{PREFIX}/tasks/{{rest:anything}}",
            TaskResource(
                {path.partition("{id}")[2]: by_path[path] for path in by_path if path not in plain},
                served,
                limiter,
            ),
        ),
        Route("/api{rest:anything}", Nothing()),
    ]
