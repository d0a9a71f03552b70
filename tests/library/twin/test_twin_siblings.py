"""The same for SDKs on the same base client: anthropic, and in part groq, cerebras and together."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest
from support.model_server import ModelServer
from support.twin_check import check
from support.twin_outcomes import PLAIN_OUTCOMES, STREAM_OUTCOMES, Outcome
from support.twin_siblings import ANTHROPIC_PLAIN, ANTHROPIC_STREAMED, of
from support.twin_styles import Style

from agentprof.testing import capture

Combination = tuple[Style, Outcome, bool]
ANTHROPIC: list[Combination] = [
    (style, outcome, is_async)
    for styles, outcomes in ((ANTHROPIC_PLAIN, PLAIN_OUTCOMES), (ANTHROPIC_STREAMED, STREAM_OUTCOMES))
    for style in styles
    for outcome in outcomes
    for is_async in (False, True)
]
ON_HTTPX: list[Combination] = [
    (style, outcome, is_async)
    for client in ("groq", "cerebras", "together")
    for style in of(client)
    for outcome in (STREAM_OUTCOMES if style.streams else PLAIN_OUTCOMES)
    for is_async in (False, True)
    if outcome.times_out_after is None and outcome.leave is None
]
"""Without the outcomes that need a transport or a hook of httpx2."""


def _name(combination: Combination) -> str:
    style, outcome, is_async = combination
    return f"{style.name}-{outcome.name}-{'async' if is_async else 'sync'}"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One model endpoint for all trials."""
    with ModelServer() as running:
        yield running


@pytest.mark.skipif(find_spec("anthropic") is None, reason="the SDK is not installed")
@pytest.mark.parametrize("combination", ANTHROPIC, ids=_name)
def test_twins_see_the_same(combination: Combination, server: ModelServer) -> None:
    """Types, values, chunks, exceptions with their chains, bytes sent, arguments, copies and pickles."""
    check(*combination, server)


@pytest.mark.parametrize("combination", ON_HTTPX, ids=_name)
def test_twins_on_httpx_see_the_same(combination: Combination, server: ModelServer) -> None:
    """The same for SDKs of chat completions that are on httpx."""
    if find_spec(combination[0].client) is None:
        pytest.skip("the SDK is not installed")
    check(*combination, server)


@pytest.mark.parametrize("name", ["anthropic", "groq", "cerebras.cloud.sdk", "together"])
def test_undoing_leaves_no_trace(name: str) -> None:
    """Every attribute of what is patched is the one before, by identity and in its place."""
    pytest.importorskip(name, reason="the SDK is not installed")
    base = import_module(f"{name}._base_client")
    owners = [base, base.BaseClient, base.SyncAPIClient, base.AsyncAPIClient]

    def attributes() -> list[list[tuple[str, int]]]:
        return [[(key, id(value)) for key, value in vars(owner).items()] for owner in owners]

    before = attributes()
    with capture():
        during = attributes()
    assert all(one != other for one, other in zip(before[1:], during[1:], strict=True))
    assert (before[0] != during[0]) == hasattr(base, "start_api_call_span")
    assert attributes() == before
