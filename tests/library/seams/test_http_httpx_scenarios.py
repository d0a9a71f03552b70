"""What can happen to a request, through httpx and httpx2: the program sees the same as without us."""

import asyncio
from typing import Any

import httpx
import httpx2
import pytest
from support.http_scenarios import (
    BODY,
    PATIENCE_S,
    SCENARIOS,
    Drive,
    Scenario,
    Seen,
    check,
    check_first_token,
)
from support.model_server import ModelServer
from support.recordings import Recordings

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

LIBRARIES: dict[str, Any] = {"httpx": httpx, "httpx2": httpx2}


def sync_drive(library: Any) -> Drive:
    """Requests by the sync client."""

    def drive(url: str, *, stream: bool, timeout: float, take: int | None, cancel: int | None) -> Seen:
        seen = Seen()
        try:
            with library.Client(timeout=timeout) as client:
                if not stream:
                    response = client.post(url, json=BODY)
                    seen.note(response, response.stream)
                    seen.status, seen.body = response.status_code, [response.content]
                    return seen
                with client.stream("POST", url, json=BODY | {"stream": True}) as response:
                    seen.note(response, response.stream)
                    seen.status = response.status_code
                    for line in response.iter_lines():
                        seen.body.append(line)
                        if len(seen.body) == take:
                            break
        except Exception as error:  # noqa: BLE001 (it is what is compared)
            seen.note_error(error)
        return seen

    return drive


def async_drive(library: Any) -> Drive:
    """Requests by the async client."""

    async def run(
        seen: Seen, came: asyncio.Event, url: str, stream: bool, timeout: float, take: int | None, cancel: int
    ) -> None:
        async with library.AsyncClient(timeout=timeout) as client:
            if not stream:
                came.set()
                response = await client.post(url, json=BODY)
                seen.note(response, response.stream)
                seen.status, seen.body = response.status_code, [response.content]
                return
            async with client.stream("POST", url, json=BODY | {"stream": True}) as response:
                seen.note(response, response.stream)
                seen.status = response.status_code
                async for line in response.aiter_lines():
                    seen.body.append(line)
                    if len(seen.body) == cancel:
                        came.set()
                    if len(seen.body) == take:
                        break

    async def main(seen: Seen, cancel: int | None, **options: Any) -> None:
        came = asyncio.Event()
        task = asyncio.create_task(run(seen, came, cancel=-1 if cancel is None else cancel, **options))
        if cancel is not None:
            await came.wait()
            await asyncio.sleep(0.05 if cancel else PATIENCE_S)  # into the wait for what follows
            task.cancel()
        try:
            await task
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            seen.note_error(error)

    def drive(url: str, **options: Any) -> Seen:
        seen = Seen()
        asyncio.run(main(seen, url=url, **options))
        return seen

    return drive


DRIVES = {
    f"{name} {kind}": make(library)
    for name, library in LIBRARIES.items()
    for kind, make in (("sync", sync_drive), ("async", async_drive))
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("name", DRIVES)
def test_scenarios(server: ModelServer, name: str, scenario: Scenario) -> None:
    """Whatever happens to a request, the program sees the same as without us, and the span says what it was."""
    if scenario.cancel is not None and name.endswith(" sync"):
        pytest.skip("only tasks of asyncio are cancelled")
    check(DRIVES[name], server, scenario)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("name", DRIVES)
def test_first_token(recordings: Recordings, name: str) -> None:
    """The first token of real streams is where the server sent it."""
    check_first_token(DRIVES[name], recordings)
