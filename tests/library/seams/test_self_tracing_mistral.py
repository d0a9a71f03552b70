"""The SDK of Mistral where it traces itself: its spans stay, the call counts once, nothing of the task is sent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from support.model_server import CHAT, STREAM, ModelServer, Reply

import agentprof
from agentprof import _guard, _runtime
from agentprof._readable import to_raw
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.testing import capture
from agentprof.vocabularies import normalise

ASKED: Any = {"model": "mistral-small", "messages": [{"role": "user", "content": "Hi"}]}
REFUSED = Reply.json({"error": "slow"}, 429, retry_after_ms="30")


@pytest.fixture(autouse=True)
def nothing_fails_inside() -> Iterator[None]:
    """No test may pass because a failure of ours was swallowed, nor leave clients that nobody has closed to others."""
    before = _guard.counts()
    yield
    gc.collect()
    assert _guard.counts() == before


def traced(url: str, provider: TracerProvider) -> Any:
    """A client that repeats, and sends its spans to a provider."""
    pytest.importorskip("mistralai", reason="the SDK is not installed")
    module = pytest.importorskip("mistralai.client", reason="a version that is older than 2")
    observability = pytest.importorskip("mistralai.extra.observability")
    utils = import_module("mistralai.client.utils")
    repeats = utils.RetryConfig("backoff", utils.BackoffStrategy(1, 1, 1.0, 20_000), True)
    client = module.Mistral(
        api_key="secret-key", server_url=url.removesuffix("/v1"), retry_config=repeats, timeout_ms=20_000
    )
    observability.configure_telemetry(client, provider=provider)
    return client


def _plain(client: Any) -> None:
    client.chat.complete(**ASKED)


def _stream(client: Any) -> None:
    for _ in client.chat.stream(**ASKED):
        pass


def _plain_async(client: Any) -> None:
    asyncio.run(client.chat.complete_async(**ASKED))


WAYS = {"plain": (_plain, Reply.json(CHAT)), "stream": (_stream, Reply.stream(STREAM))}
WAYS["async"] = (_plain_async, Reply.json(CHAT))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("refusals", [0, 2], ids=["at once", "repeated"])
@pytest.mark.parametrize("way", WAYS)
def test_a_call_of_an_sdk_that_traces_itself_counts_once(
    way: str, refusals: int, server: ModelServer
) -> None:
    """Its spans are there beside ours; tokens and attempts are those of one call; no baggage goes out."""
    call, reply = WAYS[way]
    server.replies = [*[REFUSED] * refusals, reply]
    with capture() as captured:
        runtime = _runtime.active()
        assert runtime is not None
        provider = runtime.settings.tracer_provider
        assert isinstance(provider, TracerProvider)
        client = traced(server.url, provider)
        with agentprof.task("t"):
            call(client)
    assert sum(not _is_ours(span) for span in captured.spans) == 1
    ours = [span for span in captured.spans if _is_ours(span)]
    summary = _summary(ours if refusals else captured.spans)
    assert (summary.calls, summary.attempts) == (1, refusals + 1)
    assert (summary.tokens["input"], summary.tokens["output"]) == (100, 6)
    assert [sent.headers.get("baggage") for sent in server.sent] == [None] * (refusals + 1)


def _is_ours(span: ReadableSpan) -> bool:
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == "agentprof"


def _summary(spans: list[ReadableSpan]) -> TaskSummary:
    (found,) = tasks_in(normalise(to_raw(span)) for span in spans).items()
    return roll_up(*found)
