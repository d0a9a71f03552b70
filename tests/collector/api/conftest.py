from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.raw import SECOND, T0, call_span, task_span, tool_span
from support.serving import OfStore, Server, serving

from agentprof_collector.api import routes
from agentprof_collector.stores import open_store


def stock(served: OfStore) -> list[str]:
    """Five tasks, two customers, two names, three outcomes; their ids, latest first."""
    for number in range(5):
        task, trace, start = f"task-{number}", f"{number:032x}", T0 + number * 60 * SECOND
        ended = {"agentprof.task.outcome": ("success", "failure")[number % 2]} if number else {}
        label = {"agentprof.label.customer": ("acme", "globex")[number % 2]}
        spans = [
            task_span(trace, task, name=("answer", "search")[number > 2], start=start, **ended, **label),
            call_span(trace, task, "a", start=start),
            call_span(trace, task, "b", at=5, start=start),
            tool_span(trace, task, "c", start=start, error=number == 3),
        ]
        served.feed(spans[: 4 if number else 3])
    return [f"task-{number}" for number in (4, 3, 2, 1, 0)]


@pytest.fixture(scope="module")
def served() -> Iterator[OfStore]:
    """A store for tests that only read."""
    with open_store(None) as store:
        yield OfStore(store)


@pytest.fixture(scope="module")
def api(served: OfStore) -> Iterator[Server]:
    """The API on that store."""
    with serving(routes(served)) as server:
        yield server


@pytest.fixture(scope="module")
def tasks(served: OfStore) -> list[str]:
    """What is stored there."""
    return stock(served)


@pytest.fixture
def fresh() -> Iterator[OfStore]:
    """A store for a test that writes."""
    with open_store(None) as store:
        yield OfStore(store)


@pytest.fixture
def fresh_api(fresh: OfStore) -> Iterator[Server]:
    """The API on that store."""
    with serving(routes(fresh)) as server:
        yield server


@pytest.fixture
def fresh_tasks(fresh: OfStore) -> list[str]:
    """What is stored there."""
    return stock(fresh)
