"""The SDK on other transports than its own: aiohttp, and httpx where it has moved on to httpx2."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest
from support.model_server import CHAT, STREAM, ModelServer, Reply

from agentprof import attributes
from agentprof.testing import Captured, capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
REFUSED = Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="30")


async def asked(server: ModelServer, http_client: Any, **more: Any) -> Any:
    options: dict[str, Any] = {"api_key": "x", "max_retries": 2, "http_client": http_client}
    async with openai.AsyncOpenAI(base_url=server.url, **options) as to:
        answer = await to.chat.completions.create(model="m", messages=MESSAGES, **more)
        return [chunk.model_dump() async for chunk in answer] if more else answer.model_dump()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("transport", ["aiohttp", "httpx"])
def test_an_async_client_on_another_transport(server: ModelServer, transport: str) -> None:
    """Whole and streamed, with attempts, one call each: what is below the SDK makes none of its own."""

    async def both() -> tuple[Any, Any]:
        made = openai.DefaultAioHttpClient if transport == "aiohttp" else httpx.AsyncClient
        server.replies = [REFUSED, Reply.json(CHAT)]
        whole = await asked(server, made())
        server.replies = [Reply.stream(STREAM)]
        return whole, await asked(server, made(), stream=True)

    bare = asyncio.run(both())
    with capture() as captured:
        assert asyncio.run(both()) == bare
    whole, stream = (dict(span.attributes or {}) for span in captured.spans)
    assert (whole[attributes.ATTEMPTS], whole[attributes.ATTEMPT_STATUS]) == (2, ("429",))
    assert 0.025 <= whole[attributes.ATTEMPT_BACKOFF][0] < 3
    assert stream[attributes.STREAM_END] == "complete"
    assert attributes.FIRST_TOKEN in stream
    for said in (whole, stream):
        assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)
        assert attributes.FINGERPRINT_REQUEST in said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_client_of_httpx(server: ModelServer, captured: Captured) -> None:
    """An older client of the program is observed like the SDK's own."""
    server.replies = [Reply.stream(STREAM)]
    http_client: Any = httpx.Client()
    with openai.OpenAI(base_url=server.url, api_key="x", http_client=http_client) as to:
        assert len(list(to.chat.completions.create(model="m", messages=MESSAGES, stream=True))) == 5
    (span,) = captured.spans
    assert (span.attributes or {})[attributes.STREAM_END] == "complete"


def test_a_deployment_of_azure(server: ModelServer, captured: Captured) -> None:
    """The deployment stands in the path; its name is the model that was asked for."""
    server.replies = [Reply.json(CHAT)]
    with openai.AzureOpenAI(
        api_key="x",
        api_version="2024-10-21",
        azure_endpoint=server.url.removesuffix("/v1"),
        azure_deployment="mine",
    ) as to:
        to.chat.completions.create(model="mine", messages=MESSAGES)
    assert server.sent[0].path.startswith("/openai/deployments/mine/chat/completions")
    (span,) = captured.spans
    said = dict(span.attributes or {})
    assert said[attributes.PROVIDER] == "azure.ai.openai"
    assert (said[attributes.REQUEST_MODEL], said[attributes.OUTPUT_TOKENS]) == ("mine", 6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("status", [307, 302])
@pytest.mark.parametrize("transport", ["own", "httpx"])
def test_a_redirect_to_a_host_that_may_not_know(server: ModelServer, transport: str, status: int) -> None:
    """What the library makes of it says nothing of us, whether it posts again or gets; the program's own stays."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + "/chat/completions"
    options: Any = {} if transport == "own" else {"http_client": httpx.Client(follow_redirects=True)}

    def ask(**more: Any) -> None:
        server.sent.clear()
        server.replies = [Reply(b"", status, {"location": elsewhere}), Reply.json(CHAT)]
        with openai.OpenAI(base_url=server.url, api_key="x", **options) as to:
            to.chat.completions.create(model="m", messages=MESSAGES, **more)

    own = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with capture(propagate_to=["127.0.0.1"]) as captured:
        ask()
        assert ["traceparent" in sent.headers for sent in server.sent] == [True, False]
        if transport == "own":
            ask(extra_headers={"traceparent": own})
            assert [sent.headers["traceparent"] for sent in server.sent] == [own, own]
    with capture(propagate_to=["127.0.0.1", "localhost"]):
        if transport == "own":
            ask()
            assert ["traceparent" in sent.headers for sent in server.sent] == [True, True]
    assert captured.spans[0].attributes is not None
    assert captured.spans[0].attributes[attributes.OUTPUT_TOKENS] == 6
