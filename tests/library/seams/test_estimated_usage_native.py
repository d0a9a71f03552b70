"""`estimate_usage=True` in formats of others than OpenAI: what came without usage is counted, and nothing guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest
from support.aws_frames import frame
from support.model_server import ModelServer, Reply

from agentprof import attributes
from agentprof.dialects import LATE_DIALECTS, Format, dialect_of
from agentprof.dialects._received import Counting
from agentprof.testing import capture

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

TEXT = "a text of 25 characters!!"
TOOL = {"city": "Paris"}
TOOL_BYTES = len('{"city":"Paris"}') + len("weather")

GEMINI = "/v1beta/models/gemini-2.5-flash:generateContent"
GEMINI_STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
CONVERSE = "/model/some.model/converse"
ASKED: dict[str, dict[str, Any]] = {
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "Hello?"}]}]},
    CONVERSE: {"messages": [{"role": "user", "content": [{"text": "Hello?"}]}]},
    "/v2/chat": {"model": "m", "messages": [{"role": "user", "content": "Hello?"}]},
    "/v1/chat": {"model": "m", "message": "Hello?"},
    "/api/chat": {"model": "m", "messages": [{"role": "user", "content": "Hello?"}], "stream": False},
    "/api/generate": {"model": "m", "prompt": "Hello?", "stream": False},
    "/v1beta/interactions": {"model": "m", "input": "Hello?"},
}


def said_of(path: str, reply: Reply, **asked: Any) -> Mapping[str, Any]:
    """What the span of one request says with the option on."""
    return _said_of(path, reply, ASKED[path.replace(GEMINI_STREAM, GEMINI).replace("-stream", "")] | asked)


def _said_of(path: str, reply: Reply, body: dict[str, Any]) -> Mapping[str, Any]:
    with ModelServer() as server:
        server.replies = [reply]
        with capture(estimate_usage=True) as captured, httpx2.Client() as client:
            client.post(server.url.removesuffix("/v1") + path, json=body)
    return dict(captured.spans[0].attributes or {})


def sent_bytes(said: Mapping[str, Any]) -> int:
    return sum(size for name, size in said.items() if name.startswith(attributes.INPUT_BYTES))


def lines(*objects: Any) -> list[bytes | float]:
    return [json.dumps(one).encode() + b"\n" for one in objects]


def events(*objects: Any) -> list[bytes | float]:
    return [f"data: {json.dumps(one)}\n\n".encode() for one in objects]


def event_frame(kind: str, event: Any) -> bytes:
    return frame(
        json.dumps(event).encode(), event_type=kind, content_type="application/json", message_type="event"
    )


def parts(*of_candidate: Any, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(of_candidate)}, **more}]}


WHOLE: dict[str, tuple[str, Any]] = {
    "gemini": (
        GEMINI,
        parts({"text": TEXT}, {"functionCall": {"name": "weather", "args": TOOL}}, finishReason="STOP"),
    ),
    "gemini interactions": (
        "/v1beta/interactions",
        {
            "status": "completed",
            "steps": [
                {"type": "model_output", "content": [{"type": "text", "text": TEXT}]},
                {"type": "function_call", "name": "weather", "arguments": TOOL},
            ],
        },
    ),
    "bedrock": (
        CONVERSE,
        {
            "output": {
                "message": {"content": [{"text": TEXT}, {"toolUse": {"name": "weather", "input": TOOL}}]}
            },
            "stopReason": "tool_use",
        },
    ),
    "cohere": (
        "/v2/chat",
        {
            "finish_reason": "COMPLETE",
            "message": {
                "content": [{"type": "text", "text": TEXT}],
                "tool_calls": [{"function": {"name": "weather", "arguments": '{"city":"Paris"}'}}],
            },
        },
    ),
    "cohere, first version": (
        "/v1/chat",
        {
            "finish_reason": "COMPLETE",
            "text": TEXT,
            "tool_calls": [{"name": "weather", "parameters": TOOL}],
            "chat_history": [{"role": "USER", "message": "not generated"}],
        },
    ),
    "ollama": (
        "/api/chat",
        {
            "done": True,
            "done_reason": "stop",
            "message": {
                "content": TEXT,
                "tool_calls": [{"function": {"name": "weather", "arguments": TOOL}}],
            },
        },
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_answers(name: str) -> None:
    """Five bytes of text, and of names and arguments of tools, are a token; so are five of what was asked."""
    path, answer = WHOLE[name]
    said = said_of(path, Reply.json(answer))
    assert said[attributes.USAGE_ESTIMATED] is True
    assert said[attributes.OUTPUT_TOKENS] == -(-(len(TEXT) + TOOL_BYTES) // 5)
    assert said[attributes.INPUT_TOKENS] == -(-sent_bytes(said) // 5) > 0


def test_ollama_generates() -> None:
    """The text stands at the top, visible thinking beside it."""
    answer = {"response": TEXT, "thinking": TEXT, "context": [1, 2, 3], "done": True, "done_reason": "stop"}
    assert said_of("/api/generate", Reply.json(answer))[attributes.OUTPUT_TOKENS] == 10


STREAMED: dict[str, tuple[str, dict[str, Any], list[bytes | float], str]] = {
    "gemini": (
        GEMINI_STREAM,
        {},
        events(parts({"text": TEXT}), parts({"text": "!", "thought": True}), parts(finishReason="STOP")),
        "text/event-stream",
    ),
    "bedrock": (
        "/model/some.model/converse-stream",
        {},
        [
            event_frame("contentBlockDelta", {"delta": {"text": TEXT}, "contentBlockIndex": 0}),
            event_frame("contentBlockDelta", {"delta": {"text": "!"}, "contentBlockIndex": 0}),
            event_frame("messageStop", {"stopReason": "end_turn"}),
        ],
        "application/vnd.amazon.eventstream",
    ),
    "cohere": (
        "/v2/chat",
        {"stream": True},
        events(
            {"type": "content-delta", "delta": {"message": {"content": {"text": TEXT}}}},
            {"type": "content-delta", "delta": {"message": {"content": {"text": "!"}}}},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
        ),
        "text/event-stream",
    ),
    "cohere, first version": (
        "/v1/chat",
        {"stream": True},
        lines(
            {"event_type": "text-generation", "text": TEXT},
            {"event_type": "text-generation", "text": "!"},
            {"event_type": "stream-end", "response": {"text": TEXT + "!", "finish_reason": "COMPLETE"}},
        ),
        "application/stream+json",
    ),
    "ollama": (
        "/api/chat",
        {"stream": True},
        lines(
            {"message": {"content": TEXT}, "done": False},
            {"message": {"content": "!"}, "done": False},
            {"message": {"content": ""}, "done": True, "done_reason": "stop"},
        ),
        "application/x-ndjson",
    ),
}


@pytest.mark.parametrize("name", STREAMED)
def test_streams(name: str) -> None:
    """What an end repeats is not counted twice."""
    path, asked, pieces, content_type = STREAMED[name]
    said = said_of(path, Reply(pieces, headers={"content-type": content_type}, framing="chunked"), **asked)
    assert said[attributes.STREAM_END] == "complete"
    assert said[attributes.OUTPUT_TOKENS] == 6  # 26 bytes in two pieces


UNSEEN: dict[str, tuple[str, dict[str, Any]]] = {
    "an image of gemini": (
        GEMINI,
        {
            "contents": [
                {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "eA=="}}]}
            ]
        },
    ),
    "a file of gemini": (
        GEMINI,
        {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "gs://x"}}]}]},
    ),
    "what gemini keeps": (GEMINI, {"cachedContent": "cachedContents/1"}),
    "hidden thoughts": (
        GEMINI,
        {"contents": [{"role": "model", "parts": [{"text": "x", "thoughtSignature": "eA=="}]}]},
    ),
    "an image of bedrock": (
        CONVERSE,
        {
            "messages": [
                {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": "eA=="}}}]}
            ]
        },
    ),
    "an image of ollama": (
        "/api/chat",
        {"messages": [{"role": "user", "content": "what?", "images": ["eA=="]}]},
    ),
    "a conversation that goes on": ("/v1beta/interactions", {"previous_interaction_id": "v1_x"}),
    "a conversation that cohere keeps": ("/v1/chat", {"conversation_id": "c"}),
}
ANSWERS = dict(WHOLE.values())


@pytest.mark.parametrize("name", UNSEEN)
def test_what_cannot_be_seen(name: str) -> None:
    """The input is unknown, the output is not."""
    path, asked = UNSEEN[name]
    said = said_of(path, Reply.json(ANSWERS[path]), **asked)
    assert attributes.INPUT_TOKENS not in said
    assert said[attributes.OUTPUT_TOKENS] > 0


@pytest.mark.parametrize("wanted", ["AUDIO", "IMAGE"])
def test_answers_that_may_be_sound_or_an_image(wanted: str) -> None:
    """Have no estimate."""
    asked = {"generationConfig": {"responseModalities": ["TEXT", wanted]}}
    assert attributes.USAGE_ESTIMATED not in said_of(GEMINI, Reply.json(ANSWERS[GEMINI]), **asked)


def test_the_words_of_a_user_are_no_parts() -> None:
    """A text that speaks of such parts hides nothing."""
    text = 'Why is "inlineData": {"data": "eA=="} refused, and "images": ["x"]?'
    said = said_of(
        GEMINI, Reply.json(ANSWERS[GEMINI]), contents=[{"role": "user", "parts": [{"text": text}]}]
    )
    assert said[attributes.INPUT_TOKENS] == -(-sent_bytes(said) // 5) > len(text) // 5


INVOKE = "/model/some.model/invoke"
INVOKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "titan": ({"inputText": "Hello?"}, {"results": [{"outputText": TEXT, "completionReason": "FINISH"}]}),
    "llama": ({"prompt": "Hello?"}, {"generation": TEXT, "stop_reason": "stop"}),
    "command r": ({"message": "Hello?"}, {"text": TEXT, "finish_reason": "COMPLETE"}),
    "command": ({"prompt": "Hello?"}, {"generations": [{"text": TEXT, "finish_reason": "COMPLETE"}]}),
}
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = INVOKED | {
    "anthropic": (
        {"anthropic_version": "v", "messages": [{"role": "user", "content": "Hello?"}]},
        {"content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn"},
    ),
    "nova": (
        {"schemaVersion": "v", "messages": [{"role": "user", "content": [{"text": "Hello?"}]}]},
        {"output": {"message": {"content": [{"text": TEXT}]}}, "stopReason": "end_turn"},
    ),
    "like openai": (
        {"messages": [{"role": "user", "content": "Hello?"}]},
        {"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]},
    ),
    "embeddings": ({"inputText": "Hello?", "normalize": True}, {"embedding": [0.5]}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_invoked_models_are_recorded_as_without_the_option(family: str) -> None:
    """Each is one call; of what continues a text nothing is estimated, of the others what can be seen."""
    asked, answer = FAMILIES[family]
    said = _said_of(INVOKE, Reply.json(answer), asked)
    assert said[attributes.REQUEST_MODEL] == "some.model"
    if family in INVOKED:
        assert attributes.USAGE_ESTIMATED not in said
    else:
        assert said[attributes.USAGE_ESTIMATED] is True
        assert said[attributes.INPUT_TOKENS] == -(-sent_bytes(said) // 5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_headers_of_an_invoked_model_count_holds(family: str) -> None:
    """Nothing is estimated then."""
    asked, answer = FAMILIES[family]
    counted = {
        "x_amzn_bedrock_input_token_count": "7",
        "x_amzn_bedrock_output_token_count": "3",
    }
    said = _said_of(INVOKE, Reply.json(answer, **counted), asked)
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (7, 3)
    assert attributes.USAGE_ESTIMATED not in said


def test_every_format_can_be_counted() -> None:
    """Those that a body leads to, as well as those that are listed."""
    for end in LATE_DIALECTS:
        dialect_of(end)
    kinds, found = [Format], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not kind.__subclasses__():
            found.add(Counting(kind()).name)
    assert {"bedrock.command", "bedrock.embeddings", "openai.moderations"} <= found


def test_what_is_reported_holds() -> None:
    """With usage nothing is estimated."""
    answer = ANSWERS[GEMINI] | {"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2}}
    said = said_of(GEMINI, Reply.json(answer))
    assert attributes.USAGE_ESTIMATED not in said
    assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (1, 2)
