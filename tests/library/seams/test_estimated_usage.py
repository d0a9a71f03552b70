"""`estimate_usage=True`: tokens that nobody reports are estimated from what was seen, and labelled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import openai
import pytest
from support.model_server import CHAT, DONE, STREAM, ModelServer, Reply, chunk

import agentprof
from agentprof import _guard, _settings, attributes
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
WITHOUT = [*STREAM[:4], DONE]
REPORTS_NOTHING = {key: value for key, value in CHAT.items() if key != "usage"}
TEXT = "Hello, this is a text of fifty-one characters, öäü!"


def client(server: ModelServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="x", max_retries=0)


def said_of(server: ModelServer, reply: Reply, **asked: Any) -> Mapping[str, Any]:
    """What the span of one chat says with the option on."""
    server.replies = [reply]
    with client(server) as to, capture(estimate_usage=True) as captured:
        answer: Any = to.chat.completions.create(**{"model": "m", "messages": MESSAGES} | asked)
        if asked.get("stream"):
            for _ in answer:
                pass
    return dict(captured.spans[0].attributes or {})


def sent_bytes(said: Mapping[str, Any]) -> int:
    return sum(size for name, size in said.items() if name.startswith(attributes.INPUT_BYTES))


def test_a_stream_without_usage(server: ModelServer) -> None:
    """At least a token for each event with text; of the input five bytes are one."""
    said = said_of(server, Reply.stream(WITHOUT), stream=True)
    assert said[attributes.USAGE_ESTIMATED] is True
    assert said[attributes.OUTPUT_TOKENS] == 2  # two events, six bytes
    assert said[attributes.INPUT_TOKENS] == -(-sent_bytes(said) // 5) > 0
    assert said[attributes.FIRST_TOKEN] > 0
    assert attributes.CACHE_READ_TOKENS not in said


def test_long_pieces_of_a_stream(server: ModelServer) -> None:
    """Text, visible reasoning, and names and arguments of tools count by their UTF-8 bytes."""
    tool = {
        "tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "find", "arguments": '{"a": 1}'}}]
    }
    events = [
        chunk({"reasoning_content": TEXT}),
        chunk({"content": TEXT}),
        chunk(tool),
        chunk({}, "stop"),
        DONE,
    ]
    said = said_of(server, Reply.stream(events), stream=True)
    assert said[attributes.OUTPUT_TOKENS] == -(-(2 * len(TEXT.encode()) + 12) // 5)


def test_a_whole_answer_without_usage(server: ModelServer) -> None:
    """Its text; what stands beside it is not counted."""
    message = {"role": "assistant", "content": TEXT}
    answer = REPORTS_NOTHING | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    said = said_of(server, Reply.json(answer))
    assert said[attributes.OUTPUT_TOKENS] == -(-len(TEXT.encode()) // 5)


def test_responses_and_embeddings(server: ModelServer) -> None:
    """A stream of responses repeats its text in later events, which add nothing; embeddings have only an input."""
    events = [
        {"type": "response.output_text.delta", "delta": "Hello, you there"},
        {"type": "response.output_text.done", "text": "Hello, you there"},
        {
            "type": "response.completed",
            "response": {"id": "r", "status": "completed", "output": [], "usage": None},
        },
    ]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    with httpx.Client() as to, capture(estimate_usage=True) as captured:
        server.replies = [Reply(body, headers={"content-type": "text/event-stream"})]
        to.post(f"{server.url}/responses", json={"model": "m", "input": "Hi", "stream": True})
        server.replies = [Reply.json({"object": "list", "data": [{"embedding": [0.1]}], "model": "m"})]
        to.post(f"{server.url}/embeddings", json={"model": "m", "input": "eleven char"})
    streamed, embedded = (dict(span.attributes or {}) for span in captured.spans)
    assert (streamed[attributes.OUTPUT_TOKENS], streamed[attributes.INPUT_TOKENS]) == (4, 1)
    assert embedded[attributes.INPUT_TOKENS] == 3
    assert attributes.OUTPUT_TOKENS not in embedded


def test_reported_usage_stays(server: ModelServer) -> None:
    """In whole answers and in streams."""
    for reply, stream in ((Reply.json(CHAT), False), (Reply.stream(STREAM), True)):
        said = said_of(server, reply, stream=stream)
        assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)
        assert attributes.USAGE_ESTIMATED not in said


@pytest.mark.parametrize(
    "asked",
    [
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y"}}]}
            ]
        },
        {
            "messages": [
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]}
            ]
        },
    ],
)
def test_an_input_that_bytes_do_not_tell(server: ModelServer, asked: Any) -> None:
    """Is unknown; the output is estimated all the same."""
    said = said_of(server, Reply.json(REPORTS_NOTHING), **asked)
    assert attributes.INPUT_TOKENS not in said
    assert said[attributes.OUTPUT_TOKENS] == 2


@pytest.mark.parametrize(
    ("path", "asked", "answer"),
    [
        ("chat/completions", {"messages": MESSAGES, "modalities": ["text", "audio"]}, REPORTS_NOTHING),
        ("responses", {"input": "Hi", "background": True}, {"id": "r", "status": "queued", "output": []}),
        ("chat/completions", {"messages": MESSAGES}, {"error": {"code": "overloaded"}}),
        ("images/generations", {"prompt": "a cat"}, {"created": 1, "data": [{"b64_json": "AAAA"}]}),
    ],
)
def test_no_estimate(server: ModelServer, path: str, asked: Any, answer: Any) -> None:
    """Where the answer may be sound, nothing was generated yet, it is an error, or it is a medium."""
    server.replies = [Reply.json(answer)]
    with httpx.Client() as to, capture(estimate_usage=True) as captured:
        to.post(f"{server.url}/{path}", json={"model": "m"} | asked)
    assert not {attributes.INPUT_TOKENS, attributes.OUTPUT_TOKENS, attributes.USAGE_ESTIMATED} & set(
        captured.spans[0].attributes or {}
    )


def test_what_the_provider_keeps_is_not_guessed(server: ModelServer) -> None:
    """A request that goes on from an earlier answer has an unknown input."""
    answer = {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}],
    }
    server.replies = [Reply.json(answer)]
    with httpx.Client() as to, capture(estimate_usage=True) as captured:
        to.post(f"{server.url}/responses", json={"model": "m", "input": "Hi", "previous_response_id": "r0"})
        to.post(f"{server.url}/responses", json={"model": "m", "input": "Hi", "previous_response_id": None})
    goes_on, begins = (dict(span.attributes or {}) for span in captured.spans)
    assert attributes.INPUT_TOKENS not in goes_on
    assert goes_on[attributes.OUTPUT_TOKENS] == begins[attributes.OUTPUT_TOKENS] == 2
    assert begins[attributes.INPUT_TOKENS] == 1


def test_refusals_and_the_option_off(server: ModelServer) -> None:
    """Nothing is estimated of a refusal, and nothing at all by default."""
    server.replies = [Reply.json({"error": {}}, 429)]
    with httpx.Client() as to, capture(estimate_usage=True) as captured:
        to.post(f"{server.url}/chat/completions", json={"model": "m", "messages": MESSAGES})
    server.replies = [Reply.stream(WITHOUT)]
    with client(server) as sdk, capture() as plain:
        list(sdk.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    for span in (*captured.spans, *plain.spans):
        assert attributes.OUTPUT_TOKENS not in (span.attributes or {})


def test_a_summary_counts_and_warns(server: ModelServer) -> None:
    """Of two streams without usage one is left early: both are estimated, and that one may have cost more."""
    server.replies = [Reply.stream(WITHOUT)]
    with client(server) as to, capture(estimate_usage=True):
        with agentprof.task("t") as task:
            for _ in to.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True):
                pass
            left = to.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)
            next(left)
            next(left)
            left.close()
        summary = task.summary()
    assert (summary.usage_estimated_calls, summary.calls_without_usage) == (2, 0)
    assert summary.tokens["output"] == 3
    found = {warning.code: warning.count for warning in summary.warnings}
    found.pop("timing_faults", None)  # of a busy machine
    assert found == {"usage_estimated": 2}
    assert summary.unpriced["abandoned_attempts"] == 1
    assert summary.cost_complete is False
    assert summary.cost_usd is not None
    assert "2 calls estimated" in str(summary)


def test_the_environment_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both options have a variable; what is said in the program wins."""

    def read(**asked: bool) -> tuple[bool, bool]:
        found = _settings.read(
            service_name=None,
            endpoint=None,
            exporter=None,
            tracer_provider=None,
            capture_content=False,
            propagate_to=None,
            config=None,
            **asked,
        )
        return found.stream_usage, found.estimate_usage

    assert read() == (False, False)
    monkeypatch.setenv("AGENTPROF_STREAM_USAGE", "1")
    monkeypatch.setenv("AGENTPROF_ESTIMATE_USAGE", "True")
    assert read() == (True, True)
    assert read(stream_usage=False, estimate_usage=False) == (False, False)
    monkeypatch.setenv("AGENTPROF_STREAM_USAGE", "off")
    assert read() == (False, True)
    monkeypatch.setattr(_guard, "_counts", {})
    monkeypatch.setenv("AGENTPROF_ESTIMATE_USAGE", "perhaps")
    assert read() == (False, False)
    assert _guard.counts() == {"AGENTPROF_ESTIMATE_USAGE": 1}
    monkeypatch.undo()
