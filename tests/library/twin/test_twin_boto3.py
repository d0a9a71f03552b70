"""boto3 and Bedrock: the program and the server see the same with and without agentprof."""

import gc
import json
import re
from typing import Any

import pytest
from support.aws_frames import chunk, exception, frame
from support.model_server import ModelServer, Reply

from agentprof import _guard
from agentprof import attributes as a
from agentprof.testing import capture

boto3 = pytest.importorskip("boto3", reason="the SDK is not installed")
botocore_config = pytest.importorskip("botocore.config", reason="the SDK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = "amazon.nova-micro-v1:0"
MESSAGES = [{"role": "user", "content": [{"text": "Hi"}]}]
USAGE = {"inputTokens": 4, "outputTokens": 2, "totalTokens": 6}
WHOLE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 1},
}
_EVENTS = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"delta": {"text": "Hel"}, "contentBlockIndex": 0}),
    ("contentBlockDelta", {"delta": {"text": "lo."}, "contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": USAGE, "metrics": {"latencyMs": 1}}),
]
_JSON = "application/json"
PIECES = {
    "converse_stream": [
        frame(json.dumps(event).encode(), event_type=kind, content_type=_JSON, message_type="event")
        for kind, event in _EVENTS
    ],
    "invoke_model_with_response_stream": [
        chunk(json.dumps({kind: event}).encode()) for kind, event in _EVENTS
    ],
}
METHODS = ("converse", "converse_stream", "invoke_model", "invoke_model_with_response_stream")
OUTCOMES = ("good", "repeated", "refused", "no JSON", "cut", "left", "error inside", "timeout")
MODES = ("legacy", "standard", "adaptive")
THROTTLED = Reply.json({"message": "slow"}, 429, x_amzn_errortype="ThrottlingException")


def replies(method: str, outcome: str) -> list[Reply]:
    """What the server answers, one after the other."""
    good = good_reply(method, outcome)
    if outcome == "repeated":
        return [THROTTLED, Reply.json({"message": "broken"}, 500), good]
    if outcome == "refused":
        return [Reply.json({"message": "no"}, 400, x_amzn_errortype="ValidationException")]
    if outcome == "no JSON":
        return [Reply(b"<html>", headers={"content-type": "text/html"})]
    if outcome == "timeout":
        return [Reply(b"{}", wait_s=0.8, headers={"content-type": _JSON})]
    return [good]


def good_reply(method: str, outcome: str) -> Reply:
    """An answer that may be cut, or may have an error in its stream."""
    if method not in PIECES:
        if outcome == "cut":
            return Reply([b'{"output"'], framing="cut")
        return Reply.json(WHOLE, x_amzn_bedrock_input_token_count="4")
    pieces = (
        [*PIECES[method][:2], exception("throttlingException")]
        if outcome == "error inside"
        else PIECES[method]
    )
    framing = "cut" if outcome == "cut" else "chunked"
    return Reply(pieces, headers={"content-type": "application/vnd.amazon.eventstream"}, framing=framing)


def client_of(server: ModelServer, service: str = "bedrock-runtime", **options: Any) -> Any:
    """A client of this server."""
    config = botocore_config.Config(
        read_timeout=0.3 if "timeout" in options else 20, retries=options["retries"]
    )
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=server.url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )


def trial(server: ModelServer, method: str, outcome: str, mode: str) -> list[Any]:
    """What the program sees of one call: what it gets, in order, and what is raised."""
    server.replies, server.sent = replies(method, outcome), []
    attempts = 3 if outcome == "repeated" else 1
    options: dict[str, Any] = {"retries": {"mode": mode, "total_max_attempts": attempts}}
    if outcome == "timeout":
        options["timeout"] = True
    client = client_of(server, **options)
    seen: list[Any] = []
    try:
        if "converse" in method:
            answer = getattr(client, method)(modelId=MODEL, messages=MESSAGES)
        else:
            answer = getattr(client, method)(modelId=MODEL, body=json.dumps({"messages": MESSAGES}))
        answer["ResponseMetadata"]["HTTPHeaders"].pop("date")
        body = answer.pop("stream", None) or answer.pop("body", None)
        seen += [type(answer), answer, type(body)]
        if method == "invoke_model":
            seen.append(body.read(9))
            if outcome != "left":
                seen.append(body.read())
            body.close()
        for number, event in enumerate(body if method in PIECES else ()):
            seen.append((type(event), event))
            if number and outcome == "left":
                body.close()
                break
    except Exception as error:  # noqa: BLE001
        seen.append((type(error), type(error).__mro__[1], _steady(error), type(error.__cause__)))
    return seen


def _steady(error: Exception) -> str:
    return re.sub(r"0x[0-9a-f]+", "", str(error))


def sent_by(server: ModelServer) -> list[Any]:
    """What arrived, without what is another one each time: ids, and the time with its signature."""
    varying = ("amz-sdk-invocation-id", "x-amz-date", "authorization", "amz-sdk-request")
    return [
        (sent.path, sent.body, [(name, value) for name, value in sent.head if name.lower() not in varying])
        for sent in server.sent
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_twins_see_the_same(method: str, outcome: str) -> None:
    """Types, values, chunks, errors, bytes and headers; one call, whatever its attempts and its end."""
    failures = _guard.counts()
    with ModelServer() as server:
        bare = trial(server, method, outcome, "standard")
        sent_bare = sent_by(server)
        with capture() as captured:
            traced = trial(server, method, outcome, "standard")
            gc.collect()
        sent = sent_by(server)
    assert traced == bare
    assert sent == sent_bare
    (span,) = captured.spans
    said = span.attributes or {}
    assert said[a.ATTEMPTS] == len(sent)
    assert said[a.REQUEST_MODEL] == MODEL
    assert said[a.PROVIDER] == "aws.bedrock"
    assert said.get(a.ATTEMPT_STATUS) == _STATUSES.get((method, outcome), _STATUSES.get(outcome))
    assert said.get(a.STREAM_END) == (_ENDS.get(outcome) if method in PIECES else None)
    if outcome in ("good", "repeated"):
        assert (said[a.INPUT_TOKENS], said[a.OUTPUT_TOKENS]) == (4, 2)
        assert said[a.PHASE + "model"] == 0.001 or method == "invoke_model_with_response_stream"
    raised = isinstance(traced[-1], tuple) and issubclass(traced[-1][0], Exception)
    assert (a.ERROR_TYPE in said) == raised
    assert _guard.counts() == failures


_STATUSES: dict[Any, tuple[str, ...]] = {
    "repeated": ("429", "500"),
    "refused": ("400",),
    "timeout": ("timeout",),
    ("converse", "cut"): ("cut",),
    ("invoke_model", "cut"): ("cut",),
}
_ENDS = {
    "good": "complete",
    "repeated": "complete",
    "cut": "error",
    "left": "abandoned",
    "error inside": "error",
    "no JSON": "truncated",
}


@pytest.mark.parametrize("mode", MODES)
def test_each_way_to_repeat_is_one_call(mode: str) -> None:
    """The three retry modes of the library: status of each failed attempt, and the pause after it."""
    with ModelServer() as server, capture() as captured:
        seen = trial(server, "converse", "repeated", mode)
    assert seen[1]["ResponseMetadata"]["RetryAttempts"] == 2
    (span,) = captured.spans
    said = span.attributes or {}
    assert said[a.ATTEMPTS] == 3
    assert said[a.ATTEMPT_STATUS] == ("429", "500")
    durations, pauses = said[a.ATTEMPT_DURATION], said[a.ATTEMPT_BACKOFF]
    assert isinstance(durations, tuple)
    assert isinstance(pauses, tuple)
    assert all(duration > 0 for duration in durations)  # type: ignore[operator]
    assert span.end_time is not None
    assert span.start_time is not None
    length_s = (span.end_time - span.start_time) / 1e9
    assert 0.01 < sum(pauses) < length_s  # type: ignore[arg-type]


def test_other_services_and_mocked_answers_are_no_calls() -> None:
    """What goes to another service, and what never leaves because a handler of the program answers."""
    with ModelServer() as server, capture() as captured:
        server.replies = [Reply.json({"TableNames": []})]
        retries = {"mode": "standard", "total_max_attempts": 1}
        assert client_of(server, "dynamodb", retries=retries).list_tables()["TableNames"] == []
        stubber = pytest.importorskip("botocore.stub")
        client = client_of(server, retries=retries)
        with stubber.Stubber(client) as stub:
            stub.add_response("converse", WHOLE)
            client.converse(modelId=MODEL, messages=MESSAGES)
    assert captured.spans == []
