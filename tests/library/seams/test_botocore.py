"""boto3 and Bedrock: every recording through it, what the program gets, and failures. Run with `-s` for tables."""

import gc
from typing import Any

import pytest
from support import native_truths
from support.model_server import ModelServer, Reply
from support.native_sdks import bedrock, bedrock_client
from support.recordings import Recordings
from support.truth import differences, print_table

from agentprof import _guard
from agentprof import attributes as a
from agentprof.testing import capture

boto3 = pytest.importorskip("boto3", reason="the SDK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
RECORDINGS = {"bedrock.converse": 176, "bedrock.invoke": 99}
EXCEPTIONS = {
    "bedrock.bedrock_converse.dd_trace_js.bedrock_runtime_model_anthropic_claude_3_haiku_20240307_v1_0.2dcce.0": (
        "botocore does not understand the recorded answer, and raises"
    ),
}
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 4, "outputTokens": 2, "totalTokens": 6},
    "metrics": {"latencyMs": 1},
}
ASKED = {"modelId": "amazon.nova-micro-v1:0", "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}


@pytest.mark.parametrize("api", RECORDINGS)
def test_spans_through_boto3_equal_the_truth(recordings: Recordings, api: str) -> None:
    """Tokens, tools, finish reasons and status."""
    failures = _guard.counts()
    truths = {
        name: truth
        for name, truth in recordings.truths.items()
        if truth["api"] == api and truth["provider"] == "bedrock"
    }
    with recordings.served() as server, capture() as captured:
        by_name = server.store.by_name

        def call(name: str) -> None:
            bedrock(server.url(name, ""), by_name[name])

        differing = differences(
            truths, captured, call, lambda truth: native_truths.expected(truth, by_name[truth["name"]])
        )
    print_table(truths, differing, EXCEPTIONS)
    assert len(truths) == RECORDINGS[api]
    assert set(differing) == EXCEPTIONS.keys() & truths.keys()
    assert _guard.counts() == failures


def seen(server: ModelServer, reply: Reply) -> tuple[Any, Any]:
    """What the program gets of one call, and what was sent."""
    server.replies, server.sent = [reply], []
    try:
        answer = bedrock_client(boto3, server.url).converse(**ASKED)
        headers = answer["ResponseMetadata"].pop("HTTPHeaders")
        got: Any = (type(answer), answer, sorted(headers))
    except Exception as error:  # noqa: BLE001
        got = (type(error).__qualname__, str(error))
    (sent,) = server.sent
    return got, (sent.path, sent.body, sorted(sent.headers))


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply.json(WHOLE), None),
        (Reply.json({"message": "slow"}, 429, x_amzn_errortype="ThrottlingException"), "429"),
        (Reply([b'{"output"'], framing="cut"), "cut"),
    ],
    ids=["good", "refused", "cut"],
)
def test_twins_see_the_same(reply: Reply, status: str | None) -> None:
    """Values, errors, and what goes out; a failed attempt has its status."""
    with ModelServer() as server:
        bare = seen(server, reply)
        with capture() as captured:
            traced = seen(server, reply)
            gc.collect()
    assert traced == bare
    (span,) = captured.spans
    said = span.attributes or {}
    assert said[a.PROVIDER] == "aws.bedrock"
    assert said[a.REQUEST_MODEL] == "amazon.nova-micro-v1:0"
    assert said.get(a.INPUT_TOKENS) == (4 if status is None else None)
    assert said.get(a.ATTEMPT_STATUS) == (None if status is None else (status,))
