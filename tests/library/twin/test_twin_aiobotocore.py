"""aiobotocore and Bedrock: the program and the server see the same, and what it repeats is one call."""

import asyncio
import gc
import json
from typing import Any

import pytest
from support import boto3_styles
from support.model_server import ModelServer, Reply

from agentprof import _guard
from agentprof import attributes as a
from agentprof.testing import capture

session = pytest.importorskip("aiobotocore.session", reason="the SDK is not installed")
config = pytest.importorskip("aiobotocore.config", reason="the SDK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

GOOD = {
    "converse": boto3_styles.WHOLE,
    "converse_stream": boto3_styles.CONVERSED,
    "invoke_model": boto3_styles.WHOLE,
    "invoke_model_with_response_stream": boto3_styles.INVOKED,
}
OUTCOMES = ("good", "repeated", "refused", "left")
_ADDED = ("traceparent",)
_VARYING = ("amz-sdk-invocation-id", "x-amz-date", "authorization", "amz-sdk-request")


def trial(server: ModelServer, method: str, outcome: str) -> list[Any]:
    """What the program sees of one call: what it gets, in order, and what is raised."""
    refusal = Reply.json({"message": "no"}, 400, x_amzn_errortype="ValidationException")
    server.replies = {"refused": [refusal], "repeated": [boto3_styles.REFUSED, GOOD[method]]}.get(
        outcome, [GOOD[method]]
    )
    server.sent = []
    seen: list[Any] = []
    asyncio.run(_ask(server.url, method, outcome, seen))
    return seen


async def _ask(url: str, method: str, outcome: str, seen: list[Any]) -> None:
    made = session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config.AioConfig(retries={"mode": "standard", "total_max_attempts": 3}),
    )
    messages = [{"role": "user", "content": [{"text": "Hi"}]}]
    asked = {"messages": messages} if "converse" in method else {"body": json.dumps({"messages": messages})}
    async with made as client:
        try:
            answer = await getattr(client, method)(modelId=boto3_styles.MODEL, **asked)
            answer["ResponseMetadata"]["HTTPHeaders"].pop("date")
            body = answer.pop("stream", None) or answer.pop("body", None)
            seen += [type(answer), answer, type(body)]
            if method == "invoke_model":
                seen.append(await body.read())
            elif body is not None:
                async for event in body:
                    seen.append(event)
                    if len(seen) == 5 and outcome == "left":
                        body.close()
                        break
        except Exception as error:  # noqa: BLE001
            seen.append((type(error).__name__, str(error)))


def sent_by(server: ModelServer) -> list[Any]:
    """What arrived, without what is another one each time."""
    return [
        (
            sent.path,
            sent.body,
            [(name, value) for name, value in sent.head if name.lower() not in (*_ADDED, *_VARYING)],
        )
        for sent in server.sent
    ]


@pytest.mark.parametrize("method", GOOD)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_twins_see_the_same(method: str, outcome: str) -> None:
    """Types, values, chunks, errors, bytes and headers; one call with its attempts."""
    failures = _guard.counts()
    with ModelServer() as server:
        bare = trial(server, method, outcome)
        sent_bare = sent_by(server)
        with capture() as captured:
            traced = trial(server, method, outcome)
            gc.collect()
        sent = sent_by(server)
    assert traced == bare
    assert sent == sent_bare
    (span,) = captured.spans
    said = span.attributes or {}
    assert said[a.ATTEMPTS] == len(sent)
    failed = {"repeated": ("429",), "refused": ("400",)}
    assert said.get(a.ATTEMPT_STATUS) == failed.get(outcome)
    assert (a.ERROR_TYPE in said) == (outcome == "refused")
    is_stream = "stream" in method
    if outcome in ("good", "repeated"):
        assert said[a.OUTPUT_TOKENS] == 6
        assert said.get(a.STREAM_END) == ("complete" if is_stream else None)
    if outcome == "left" and is_stream:
        assert said[a.STREAM_END] in ("complete", "abandoned")  # aiohttp may have had all of it
    assert _guard.counts() == failures
