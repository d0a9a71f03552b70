"""boto3 and Bedrock: every recording through it, what the program gets, and failures. Run with `-s` for tables."""

import gc
import io
import json
from typing import Any

import pytest
from support import native_truths
from support.aws_frames import chunk
from support.model_server import ModelServer, Reply
from support.native_sdks import bedrock, bedrock_client
from support.recordings import Recordings
from support.truth import differences, print_table

import agentprof
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


def summed(reply: Reply, method: str) -> dict[str, Any]:
    """The summary of a task that invokes a model once."""
    with ModelServer() as server, capture():
        server.replies = [reply]
        with agentprof.task("t") as task:
            client = bedrock_client(boto3, server.url)
            body = getattr(client, method)(modelId="meta.llama3-8b-instruct-v1:0", body='{"prompt": "hi"}')[
                "body"
            ]
            list(body) if method.endswith("stream") else body.read()
        return task.summary().to_dict()


def test_times_of_a_stream_are_on_the_timeline() -> None:
    """Until the first byte it waits, as reported; what else passed before the first token is the way there."""
    metrics = {"inputTokenCount": 7, "outputTokenCount": 2, "invocationLatency": 90, "firstByteLatency": 80}
    events = [
        {"generation": "A", "generation_token_count": 1},
        {"generation": "", "stop_reason": "stop", "amazon-bedrock-invocationMetrics": metrics},
    ]
    pieces: list[bytes | float] = [0.12, chunk(json.dumps(events[0]).encode())]
    pieces += [0.02, chunk(json.dumps(events[1]).encode())]
    framed = {"content-type": "application/vnd.amazon.eventstream"}
    summary = summed(Reply(pieces, headers=framed, framing="chunked"), "invoke_model_with_response_stream")
    assert summary["evidence_ns"]["wait"] == {"reported": 80_000_000}
    assert summary["timeline_ns"]["network"] >= 38_000_000
    assert summary["timeline_ns"]["model"] == 0
    assert (summary["tokens"]["input"], summary["tokens"]["output"]) == (7, 2)


def test_the_time_of_an_answer_is_on_the_timeline() -> None:
    """As the header says it; the rest of the call is the way there and back."""
    whole = Reply.json(
        {"outputs": [{"text": "A", "stop_reason": "stop"}]},
        x_amzn_bedrock_invocation_latency="30",
        x_amzn_bedrock_input_token_count="7",
        x_amzn_bedrock_output_token_count="2",
    )
    whole.wait_s = 0.06
    summary = summed(whole, "invoke_model")
    assert summary["evidence_ns"]["model"] == {"reported": 30_000_000}
    assert summary["timeline_ns"]["network"] >= 29_000_000
    assert (summary["tokens"]["input"], summary["tokens"]["output"]) == (7, 2)


@pytest.mark.parametrize(("kind", "calls"), [(bytes, 1), (bytearray, 1), (io.BytesIO, 0)])
def test_bodies_the_program_may_give(kind: Any, calls: int) -> None:
    """A file is the program's: it is not read, and its request is no call."""
    with ModelServer() as server, capture() as captured:
        server.replies = [Reply.json({"outputs": [{"text": "A", "stop_reason": "stop"}]})]
        client = bedrock_client(boto3, server.url)
        answer = client.invoke_model(modelId="m", body=kind(b'{"prompt": "hi"}'))
        assert b"outputs" in answer["body"].read()
    assert [sent.body for sent in server.sent] == [b'{"prompt": "hi"}']
    assert len(captured.spans) == calls
