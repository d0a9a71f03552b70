"""Functions of every kind with marks around them, which can be pickled by their names."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import agentprof


@agentprof.tool
def plain(value: int) -> int:
    """Doubles."""
    return value * 2


@agentprof.tool("fetch", cost_usd="0.002")
async def coroutine(value: int) -> int:
    """Doubles, after others."""
    await asyncio.sleep(0)
    return value * 2


@agentprof.step("stretch")
def generator(count: int) -> Iterator[int]:
    """Counts, and uses a tool for each number."""
    for number in range(count):
        with agentprof.tool("inner"):
            pass
        yield number


@agentprof.step("stretch")
async def async_generator(count: int) -> AsyncIterator[int]:
    """Counts, after others."""
    for number in range(count):
        await asyncio.sleep(0)
        yield number
