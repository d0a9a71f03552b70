"""Functions with marks around them, where every process finds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import agentprof


@agentprof.task("job")
def job(number: int, *, twice: bool = False) -> int:
    """Doubles a number."""
    return number * (4 if twice else 2)


@agentprof.tool
def look(at: str) -> str:
    """Looks."""
    return at.upper()


@agentprof.tool("search", cost_usd="0.01")
def search(text: str = "x") -> list[str]:
    """Searches."""
    return [text]


@agentprof.step("plan")
async def plan(goal: str) -> str:
    """Plans."""
    return goal


@agentprof.task("pages")
def pages(count: int) -> Iterator[int]:
    """Yields numbers."""
    yield from range(count)


@agentprof.human()
async def answers(count: int) -> AsyncIterator[int]:
    """Yields numbers."""
    for number in range(count):
        yield number


class Agent:
    """Holds marked methods."""

    @agentprof.task("round")
    def round(self, number: int) -> int:
        """Adds one."""
        return number + 1

    @staticmethod
    @agentprof.tool
    def fetch(url: str) -> str:
        """Fetches."""
        return url


FUNCTIONS = [job, look, search, plan, pages, answers, Agent.round, Agent.fetch]
