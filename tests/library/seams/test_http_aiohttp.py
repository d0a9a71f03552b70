"""Calls through aiohttp without an SDK: what the span says, and that the program notices nothing."""

import asyncio
from typing import Any

import aiohttp
import pytest
from support.http_scenarios import BODY, SCENARIOS, Scenario, Seen, check
from support.model_server import ModelServer

from agentprof import _guard


@pytest.fixture(autouse=True)
def nothing_fails_inside() -> Any:
    """No test may pass because a failure of ours was swallowed."""
    before = _guard.counts()
    yield
    assert _guard.counts() == before


async def run(
    seen: Seen, came: asyncio.Event, url: str, stream: bool, timeout: float, take: int | None, cancel: int
) -> None:
    """One request by a session."""
    patience = aiohttp.ClientTimeout(total=timeout)
    async with aiohttp.ClientSession(timeout=patience) as session:
        body = BODY | {"stream": True} if stream else BODY
        if not stream:
            came.set()
        async with session.post(url, json=body) as response:
            seen.note(response, response.content)
            seen.status = response.status
            if not stream:
                seen.body = [await response.read()]
                return
            async for line in response.content:
                seen.body.append(line)
                if len(seen.body) == cancel:
                    came.set()
                if len(seen.body) == take:
                    break


async def main(seen: Seen, cancel: int | None, **options: Any) -> None:
    """That request, cancelled if asked for."""
    came = asyncio.Event()
    task = asyncio.create_task(run(seen, came, cancel=-1 if cancel is None else cancel, **options))
    if cancel is not None:
        await came.wait()
        await asyncio.sleep(0.05)  # into the wait for what follows
        task.cancel()
    try:
        await task
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
        seen.note_error(error)


def drive(url: str, **options: Any) -> Seen:
    """One request in a loop of its own."""
    seen = Seen()
    asyncio.run(main(seen, url=url, **options))
    return seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios(server: ModelServer, scenario: Scenario) -> None:
    """Whatever happens to a request, the program sees the same as without us, and the span says what it was."""
    check(drive, server, scenario)
