"""Calls through requests without an SDK: what the span says, and that the program notices nothing."""

from typing import Any

import pytest
import requests
from support.http_scenarios import BODY, SCENARIOS, Scenario, Seen, check
from support.model_server import ModelServer

from agentprof import _guard


@pytest.fixture(autouse=True)
def nothing_fails_inside() -> Any:
    """No test may pass because a failure of ours was swallowed."""
    before = _guard.counts()
    yield
    assert _guard.counts() == before


def drive(url: str, *, stream: bool, timeout: float, take: int | None, cancel: int | None) -> Seen:
    """One request by a session."""
    seen = Seen()
    try:
        with requests.Session() as session:
            if not stream:
                response = session.post(url, json=BODY, timeout=timeout)
                seen.note(response, response.raw, response.request)
                seen.status, seen.body = response.status_code, [response.content]
                return seen
            with session.post(url, json=BODY | {"stream": True}, timeout=timeout, stream=True) as response:
                seen.note(response, response.raw, response.request)
                seen.status = response.status_code
                for line in response.iter_lines():
                    seen.body.append(line)
                    if len(seen.body) == take:
                        break
    except Exception as error:  # noqa: BLE001 (it is what is compared)
        seen.note_error(error)
    return seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios(server: ModelServer, scenario: Scenario) -> None:
    """Whatever happens to a request, the program sees the same as without us, and the span says what it was."""
    if scenario.cancel is not None:
        pytest.skip("only tasks of asyncio are cancelled")
    check(drive, server, scenario)
