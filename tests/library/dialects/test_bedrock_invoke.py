"""Models invoked on Bedrock: which family a request is for, and what headers and the end of a stream add."""

import json
from typing import Any

import pytest
from support.aws_frames import chunk

from agentprof.dialects import CONTENT, NOTHING, Answer, Told, asked_in, dialect_of
from agentprof.model import Phase, Usage

METRICS = {"inputTokenCount": 7, "outputTokenCount": 459, "invocationLatency": 4735, "firstByteLatency": 112}


def family_of(model: str, body: dict[str, Any]) -> Any:
    """The format of one request."""
    path = f"/model/{model}/invoke"
    dialect = dialect_of(path)
    assert dialect is not None
    told = asked_in(dialect, path, json.dumps(body).encode())
    assert isinstance(told, Told)
    return told.dialect


@pytest.mark.parametrize(
    ("model", "body", "operation", "name"),
    [
        ("anthropic.claude-v2", {"anthropic_version": "x", "messages": []}, "chat", "OfAnthropic"),
        ("amazon.nova-micro-v1:0", {"messages": []}, "chat", "OfNova"),
        ("arn:aws:x", {"messages": [], "inferenceConfig": {}}, "chat", "OfNova"),
        ("openai.gpt-oss-20b-1:0", {"messages": []}, "chat", "OfOpenAI"),
        ("cohere.command-r-v1:0", {"message": "hi"}, "chat", "OfCommand"),
        ("meta.llama3-8b-instruct-v1:0", {"prompt": "hi"}, "text_completion", "OfText"),
        ("amazon.titan-text-express-v1", {"inputText": "hi"}, "text_completion", "OfText"),
        ("amazon.titan-embed-text-v1", {"inputText": "hi"}, "embeddings", "OfEmbeddings"),
        ("arn:aws:x", {"inputText": "hi", "normalize": True}, "embeddings", "OfEmbeddings"),
        ("cohere.embed-v4:0", {"texts": ["hi"], "input_type": "x"}, "embeddings", "OfEmbeddings"),
        (
            "amazon.nova-2-multimodal-embeddings-v1:0",
            {"singleEmbeddingParams": {}},
            "embeddings",
            "OfEmbeddings",
        ),
    ],
)
def test_the_family_is_told_by_the_request(
    model: str, body: dict[str, Any], operation: str, name: str
) -> None:
    """By its names first: the model may be an alias."""
    found = family_of(model, body)
    assert (found.operation, type(found).__name__) == (operation, name)


def read_stream(family: Any, *events: dict[str, Any]) -> tuple[Answer, list[int]]:
    """What events in their frames say."""
    answer = Answer()
    data = b"".join(chunk(json.dumps(event).encode()) for event in events)
    frames, read = family.frames(data), family.event_reader(answer)
    return answer, [read(event) for event in frames.feed(data)]


def test_the_last_event_has_times_and_counts() -> None:
    """Until the first byte it is a wait, in all it is model time, both as reported."""
    llama = family_of("meta.llama3-8b-instruct-v1:0", {"prompt": "hi"})
    answer, tokens = read_stream(
        llama,
        {"generation": "", "prompt_token_count": 7, "generation_token_count": 0, "stop_reason": None},
        {"generation": "A", "prompt_token_count": None, "generation_token_count": 1, "stop_reason": None},
        {"generation": "", "stop_reason": "stop", "amazon-bedrock-invocationMetrics": METRICS},
    )
    assert tokens == [NOTHING, CONTENT, NOTHING]
    assert answer.usage == Usage(input=7, output=459)
    assert answer.finish_reasons == {0: "stop"}
    assert answer.whole
    section = "amazon-bedrock-invocationMetrics"
    assert answer.phases == {
        "wait": Phase(ns=112_000_000, source="reported", field=f"{section}.firstByteLatency"),
        "model": Phase(ns=4_735_000_000, source="reported", field=f"{section}.invocationLatency"),
    }


def test_a_stream_that_is_cut_has_the_counts_so_far() -> None:
    """Without its last event the counts of the events before hold."""
    llama = family_of("meta.llama3-8b-instruct-v1:0", {"prompt": "hi"})
    answer, _ = read_stream(llama, {"generation": "A", "prompt_token_count": 7, "generation_token_count": 2})
    assert answer.usage == Usage(input=7, output=2)
    assert not answer.whole
    assert answer.phases == {}


def test_headers_say_what_the_body_leaves_out() -> None:
    """The cache stands beside the input; what is no number is nothing."""
    nova = family_of("amazon.nova-micro-v1:0", {"messages": []})
    answer = Answer()
    nova.read_body(b'{"stopReason": "end_turn", "usage": {"inputTokens": 30}}', answer)
    assert answer.usage == Usage(input=30)
    nova.read_headers(
        [
            (b"X-Amzn-Bedrock-Input-Token-Count", b"30"),
            (b"x-amzn-bedrock-output-token-count", b"51"),
            (b"x-amzn-bedrock-cache-read-input-token-count", b"12"),
            (b"x-amzn-bedrock-cache-write-input-token-count", b"-3"),
            (b"x-amzn-bedrock-invocation-latency", b"1142"),
        ],
        answer,
    )
    assert answer.usage == Usage(input=42, output=51, cache_read=12)
    assert answer.phases["model"] == Phase(
        ns=1_142_000_000, source="reported", field="x-amzn-bedrock-invocation-latency"
    )


def test_counts_of_a_body_hold_beside_headers() -> None:
    """Those of Anthropic tell cache writes by their time, which headers do not."""
    claude = family_of("anthropic.claude-v2", {"anthropic_version": "x", "messages": []})
    answer = Answer()
    claude.read_body(b'{"type": "message", "usage": {"input_tokens": 4, "output_tokens": 10}}', answer)
    claude.read_headers([(b"x-amzn-bedrock-output-token-count", b"99")], answer)
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (4, 10)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"results": [null, 3], "outputs": {}}', b"\xff\x00"])
def test_any_bytes_are_taken(body: bytes) -> None:
    """What cannot be read says nothing."""
    for model, asked in (("m", {"prompt": ""}), ("embed", {"texts": []}), ("m", {"message": ""})):
        answer = Answer()
        family = family_of(model, asked)
        family.read_body(body, answer)
        family.event_reader(answer)(body)
        assert answer.usage is None
