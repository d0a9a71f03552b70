"""Anthropic messages: what is read of whole answers and of streams."""

import json
from typing import Any

import pytest

from agentprof.dialects import CONTENT, NOTHING, THINKING, Answer, dialect_of
from agentprof.model import Usage

USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 300,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
    "output_tokens": 1,
    "service_tier": "priority",
}


def whole(**body: Any) -> Answer:
    dialect = dialect_of("/v1/messages")
    assert dialect is not None
    answer = Answer()
    dialect.read_body(json.dumps(body).encode(), answer)
    return answer


def streamed(*events: dict[str, Any]) -> tuple[Answer, list[int]]:
    """The answer of a stream, and which tokens each of its events carried."""
    dialect = dialect_of("/v1/messages")
    assert dialect is not None
    answer = Answer()
    read = dialect.event_reader(answer)
    return answer, [read(json.dumps(event).encode()) for event in events]


def start(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "claude-x", "content": [], "stop_reason": None}
    return {"type": "message_start", "message": message | {"usage": USAGE | usage}}


def block(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind} | fields}


def end(reason: str = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            USAGE,
            Usage(input=2310, output=1, cache_read=2000, cache_write=300, cache_write_1h=200),
            id="the cache stands beside the input",
        ),
        pytest.param(
            {"input_tokens": 5, "output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}},
            Usage(input=5, output=7, reasoning=4),
            id="thinking is a part of the output; a cache that is not spoken of is unknown",
        ),
        pytest.param(
            {
                "input_tokens": 5,
                "output_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            Usage(input=12, output=7, cache_write=7, cache_write_1h=4),
            id="writes that are told by how long they are kept only",
        ),
        pytest.param(
            {
                "input_tokens": 5,
                "output_tokens": 7,
                "cache_read_input_tokens": 1,
                "iterations": [
                    {
                        "type": "compaction",
                        "input_tokens": 100,
                        "output_tokens": 20,
                        "cache_creation_input_tokens": 50,
                    },
                    {
                        "type": "advisor_message",
                        "model": "other",
                        "input_tokens": 9999,
                        "output_tokens": 9999,
                    },
                    {"type": "message", "input_tokens": 5, "output_tokens": 7},
                ],
            },
            Usage(input=156, output=27, cache_read=1, cache_write=50),
            id="a compaction is billed beside the answer; an advisor is another model",
        ),
        pytest.param({"input_tokens": None, "output_tokens": "many"}, None, id="no counts, no usage"),
    ],
)
def test_usage_is_normalised(usage: dict[str, Any], expected: Usage | None) -> None:
    """Input includes cache reads and writes, output includes thinking."""
    assert whole(usage=usage).usage == expected


def test_a_whole_answer() -> None:
    """Id, model, tools, stop reason, tier; of server tools what the usage counts holds before what is seen."""
    answer = whole(
        id="msg_1",
        model="claude-x",
        stop_reason="tool_use",
        content=[
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "server_tool_use", "id": "1", "name": "web_search"},
            {"type": "server_tool_use", "id": "2", "name": "web_search"},
            {"type": "server_tool_use", "id": "3", "name": "bash_code_execution"},
            {"type": "server_tool_use", "id": "4", "name": "web_fetch"},
            {"type": "mcp_tool_use", "id": "5", "name": "echo", "server_name": "s"},
            {"type": "tool_use", "id": "6", "name": "look", "input": {}},
            {"type": "tool_use", "id": "7", "name": "look", "input": {}},
        ],
        usage=USAGE | {"server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0}},
    )
    assert (answer.response_id, answer.model, answer.finish_reasons) == ("msg_1", "claude-x", {0: "tool_use"})
    assert list(answer.tool_calls.values()) == ["look", "look"]
    assert answer.server_tools == {"web_search": 1, "bash_code_execution": 1, "mcp": 1}
    assert answer.service_tier == "priority"
    assert answer.error_type is None


def test_a_fast_answer() -> None:
    """Its speed is what it is billed by."""
    assert whole(usage=USAGE | {"speed": "fast"}).service_tier == "fast"
    assert whole(usage=USAGE | {"speed": "standard"}).service_tier == "priority"


def test_an_error_in_the_body() -> None:
    """Its kind is kept, never its message."""
    answer = whole(type="error", error={"type": "overloaded_error", "message": "what you asked"})
    assert answer.error_type == "overloaded_error"


def test_which_events_carry_tokens() -> None:
    """Visible thinking, text, tool calls; not signatures, citations, pings, results of tools, empty pieces."""
    events = [
        (start(), NOTHING),
        ({"type": "ping"}, NOTHING),
        (block(type="thinking", thinking="", signature=""), NOTHING),
        (delta("thinking_delta", thinking=""), NOTHING),
        (delta("thinking_delta", thinking="hm"), THINKING),
        (delta("signature_delta", signature="EroC"), NOTHING),
        (block(type="redacted_thinking", data="Eq8"), NOTHING),
        (block(type="compaction", content=None), NOTHING),
        (delta("compaction_delta", content="so far"), THINKING),
        (block(type="text", text=""), NOTHING),
        (delta("text_delta", text=""), NOTHING),
        (delta("text_delta", text="a"), CONTENT),
        (delta("citations_delta", citation={"cited_text": "x"}), NOTHING),
        (block(type="tool_use", name="look", input={}), CONTENT),
        (delta("input_json_delta", partial_json=""), NOTHING),
        (delta("input_json_delta", partial_json='{"a'), CONTENT),
        (block(type="server_tool_use", name="web_search"), CONTENT),
        (block(type="web_search_tool_result", content=[{"title": "t", "text": "x"}]), NOTHING),
        ({"type": "content_block_stop", "index": 0}, NOTHING),
        (end(output_tokens=3), NOTHING),
        ({"type": "message_stop"}, NOTHING),
    ]
    _, carried = streamed(*(event for event, _ in events))
    assert carried == [expected for _, expected in events]


def test_usage_of_a_stream() -> None:
    """Later counts hold for the fields they have; they are never added."""
    answer, _ = streamed(
        start(server_tool_use={"web_search_requests": 0}),
        block(type="server_tool_use", name="web_search"),
        end("pause_turn", input_tokens=20, output_tokens=40, server_tool_use={"web_search_requests": 3}),
        end("end_turn", output_tokens=90, output_tokens_details={"thinking_tokens": 30}),
    )
    assert answer.usage == Usage(
        input=2320, output=90, cache_read=2000, cache_write=300, cache_write_1h=200, reasoning=30
    )
    assert answer.server_tools == {"web_search": 3}
    assert answer.finish_reasons == {0: "end_turn"}
    assert answer.service_tier == "priority"


def test_a_stream_that_did_not_come_to_its_end() -> None:
    """What went in is known, what came out is not: the count at the beginning is none of it."""
    answer, _ = streamed(start(), delta("text_delta", text="a"))
    assert answer.usage == Usage(input=2310, cache_read=2000, cache_write=300, cache_write_1h=200)
    assert not answer.finish_reasons


def test_an_error_in_a_stream() -> None:
    """It stands in an event of its own, after an answer that began well."""
    answer, carried = streamed(
        start(), delta("text_delta", text="a"), {"type": "error", "error": {"type": "overloaded_error"}}
    )
    assert answer.error_type == "overloaded_error"
    assert carried == [NOTHING, CONTENT, NOTHING]


def test_several_messages_in_one_stream() -> None:
    """Gateways that call again themselves send them one behind the other: the last one's counts hold."""
    answer, _ = streamed(
        start(),
        block(type="tool_use", name="look"),
        end("tool_use", output_tokens=5),
        start(input_tokens=11),
        block(type="tool_use", name="look"),
        end("tool_use", output_tokens=7),
    )
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (2311, 7)
    assert list(answer.tool_calls.values()) == ["look", "look"]
