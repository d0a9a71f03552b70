from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.markup import Markup
from support.raw import SECOND, T0, call_span, task_span, tool_span
from support.serving import OfStore, Server, serving

from agentprof_collector import api, page
from agentprof_collector.stores import open_store

JAEGER = "http://jaeger.example:16686"


def stock(served: OfStore) -> list[str]:
    """Five tasks, two customers, two names, three outcomes; their ids, latest first."""
    for number in range(5):
        task, trace, start = f"task-{number}", f"{number:032x}", T0 + number * 60 * SECOND
        ended = {"agentprof.task.outcome": ("success", "failure")[number % 2]} if number else {}
        label = {"agentprof.label.customer": ("acme", "globex")[number % 2]}
        served.feed(
            [
                task_span(trace, task, name=("answer", "search")[number > 2], start=start, **ended, **label),
                call_span(trace, task, "a", start=start),
                call_span(trace, task, "b", at=5, start=start, gen_ai__response__model="own-model"),
                tool_span(trace, task, "c", start=start, error=number == 3),
            ]
        )
    return [f"task-{number}" for number in (4, 3, 2, 1, 0)]


def reader(site: Server) -> Callable[[str], Markup]:
    """Reads a page that is there."""

    def read(path: str) -> Markup:
        answered = site.ask(path)
        assert answered.status == 200, answered.text
        return Markup(answered.text)

    return read


@pytest.fixture(scope="module")
def served() -> Iterator[OfStore]:
    """A store for tests that only read."""
    with open_store(None) as store:
        yield OfStore(store, JAEGER)


@pytest.fixture(scope="module")
def site(served: OfStore) -> Iterator[Server]:
    """Pages and API on that store."""
    with serving([*page.routes(served), *api.routes(served)]) as server:
        yield server


@pytest.fixture(scope="module")
def read(site: Server) -> Callable[[str], Markup]:
    """Reads a page of that store."""
    return reader(site)


@pytest.fixture(scope="module")
def tasks(served: OfStore) -> list[str]:
    """What is stored there."""
    return stock(served)


@pytest.fixture
def fresh() -> Iterator[OfStore]:
    """A store for a test that writes."""
    with open_store(None) as store:
        yield OfStore(store, JAEGER)


@pytest.fixture
def fresh_site(fresh: OfStore) -> Iterator[Server]:
    """Pages and API on that store."""
    with serving([*page.routes(fresh), *api.routes(fresh)]) as server:
        yield server


@pytest.fixture
def fresh_read(fresh_site: Server) -> Callable[[str], Markup]:
    """Reads a page of that store."""
    return reader(fresh_site)


@pytest.fixture
def fresh_tasks(fresh: OfStore) -> list[str]:
    """What is stored there."""
    return stock(fresh)
