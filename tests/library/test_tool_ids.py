"""Ids of tool calls in answers and of their results in requests, format by format, and that none is kept in clear."""

import json
from typing import Any

import pytest

from agentprof import attributes as a
from agentprof._asked import Key, key_of, say_request, say_tool_calls
from agentprof._tool_ids import hash_of
from agentprof.dialects import Answer, Dialect, dialect_of

KEY = key_of(b"k" * 16)
GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"
CONVERSE = "/model/anthropic.claude/converse"


def at(path: str) -> Dialect:
    found = dialect_of(path)
    assert found is not None
    return found


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def hashes(*ids: str) -> tuple[str, ...]:
    return tuple(hash_of(KEY, id) for id in ids)


def results(path: str, key: Key = KEY, **body: Any) -> Any:
    said: dict[str, Any] = {}
    say_request(said, dumped(body), at(path), key)
    return said.get(a.TOOL_RESULT_IDS)


def asked(answer: Answer) -> Any:
    said: dict[str, Any] = {}
    say_tool_calls(said, answer, KEY)
    assert len(said[a.TOOL_CALL_IDS]) == len(answer.tool_calls)
    return said[a.TOOL_CALL_IDS]


def use(id: str, name: str = "f") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


WHOLE = {
    "/chat/completions": {"choices": [{"message": {"tool_calls": [use("a"), use("b")]}}]},
    "/responses": {
        "output": [
            {"type": "reasoning", "id": "r"},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "f"},
            {"type": "custom_tool_call", "id": "fc_2", "call_id": "b", "name": "f"},
        ]
    },
    "/v1/messages": {
        "content": [
            {"type": "text", "text": "hm"},
            {"type": "tool_use", "id": "a", "name": "f"},
            {"type": "tool_use", "id": "b", "name": "f"},
        ]
    },
    GEMINI: {
        "candidates": [
            {"content": {"parts": [{"functionCall": {"id": id, "name": "f"}} for id in ("a", "b")]}}
        ]
    },
    "/interactions": {"steps": [{"type": "function_call", "id": id, "name": "f"} for id in ("a", "b")]},
    CONVERSE: {
        "output": {"message": {"content": [{"toolUse": {"toolUseId": id, "name": "f"}} for id in ("a", "b")]}}
    },
    "/v2/chat": {"message": {"tool_calls": [use("a"), use("b")]}},
    "/api/chat": {"message": {"tool_calls": [use("a"), use("b")]}},
}


@pytest.mark.parametrize("path", WHOLE)
def test_ids_of_a_whole_answer(path: str) -> None:
    """In the order of the calls, hashed."""
    answer = Answer()
    at(path).read_body(dumped(WHOLE[path]), answer)
    assert list(answer.tool_calls.values()) == ["f", "f"]
    assert asked(answer) == hashes("a", "b")


def chunk(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}}]}


STREAMED: dict[str, list[dict[str, Any]]] = {
    "/chat/completions": [
        chunk({"index": 0, **use("a")}),
        chunk({"index": 0, "function": {"arguments": '{"x":'}}),
        chunk({"index": 1, **use("b")}),
        chunk({"index": 1, "function": {"arguments": "{}"}}),
    ],
    "/responses": [
        {
            "type": f"response.output_item.{what}",
            "output_index": place,
            "item": {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "f"},
        }
        for place, id in enumerate("ab")
        for what in ("added", "done")
    ],
    "/v1/messages": [
        {
            "type": "content_block_start",
            "index": place,
            "content_block": {"type": "tool_use", "id": id, "name": "f"},
        }
        for place, id in enumerate("ab")
    ],
    GEMINI: [
        {"candidates": [{"content": {"parts": [{"functionCall": {"id": id, "name": "f"}}]}}]} for id in "ab"
    ],
    CONVERSE: [
        {"start": {"toolUse": {"toolUseId": id, "name": "f"}}, "contentBlockIndex": place}
        for place, id in enumerate("ab")
    ],
    "/v2/chat": [
        {"type": "tool-call-start", "index": place, "delta": {"message": {"tool_calls": use(id)}}}
        for place, id in enumerate("ab")
    ],
    "/api/chat": [{"message": {"tool_calls": [use(id)]}} for id in "ab"],
}


@pytest.mark.parametrize("path", STREAMED)
def test_ids_of_a_streamed_answer(path: str) -> None:
    """They come with the piece that begins a call."""
    answer = Answer()
    read = at(path).event_reader(answer)
    for event in STREAMED[path]:
        read(dumped(event))
    assert list(answer.tool_calls.values()) == ["f", "f"]
    assert asked(answer) == hashes("a", "b")


def test_a_call_without_an_id_keeps_its_place() -> None:
    """What stands beside each name belongs to it."""
    answer = Answer()
    at("/chat/completions").read_body(
        dumped({"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}, use("b")]}}]}), answer
    )
    assert asked(answer) == ("-", *hashes("b"))


def result(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "42"}


USER = {"role": "user", "content": "hi"}
ASKS = {"role": "assistant", "content": None, "tool_calls": [use("old")]}


def test_results_in_a_chat_are_those_after_the_last_answer() -> None:
    """Earlier turns were told with their own requests; what a program adds behind results hides none."""
    messages = [USER, ASKS, result("old"), ASKS, result("a"), result("b")]
    assert results("/chat/completions", messages=messages) == hashes("a", "b")
    assert results("/chat/completions", messages=[*messages, USER]) == hashes("a", "b")
    assert results("/chat/completions", messages=[USER, ASKS, result("a"), ASKS, USER]) is None
    assert results("/chat/completions", messages=[USER]) is None
    old = {"content": "1", "role": "function", "name": "f"}
    assert results("/chat/completions", messages=[USER, ASKS, old]) == ("=f",)


def output(id: str, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": id, "output": "42"}


def test_results_of_responses() -> None:
    """With the state at the provider and without; calls may stand between results."""
    assert results("/responses", previous_response_id="r", input=[output("a"), output("b")]) == hashes(
        "a", "b"
    )
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    says = {"type": "message", "role": "assistant", "content": []}
    between = [says, call, output("a"), {"type": "reasoning"}, call, output("b", "custom_tool_call_output")]
    assert results("/responses", input=[USER, output("old"), *between]) == hashes("a", "b")
    assert results("/responses", input="hi") is None


IN_MESSAGES = {
    "/v1/messages": {"type": "tool_result", "tool_use_id": "a", "content": "42"},
    CONVERSE: {"toolResult": {"toolUseId": "a", "content": []}},
}


@pytest.mark.parametrize("path", IN_MESSAGES)
def test_results_in_messages_of_the_user(path: str) -> None:
    """Among other parts, in the last message."""
    part = IN_MESSAGES[path]
    said = {"role": "assistant", "content": [{"text": "hm", "type": "text"}]}
    messages = [USER, said, {"role": "user", "content": [part, {"type": "text", "text": "and?"}]}]
    assert results(path, messages=messages) == hashes("a")
    assert results(path, messages=[*messages, said, USER]) is None


def test_results_known_by_the_name_of_their_tool() -> None:
    """Where a program may have made up the id both are told."""
    part = {"functionResponse": {"name": "f", "response": {}}}
    turn = {"parts": [{"functionCall": {"name": "f"}}], "role": "model"}
    contents = [{"parts": [{"text": "hi"}], "role": "user"}, turn, {"parts": [part, part], "role": "user"}]
    assert results(GEMINI, contents=contents) == ("=f", "=f")
    with_id = {"function_response": {"id": "a", "name": "f"}}
    assert results(GEMINI, contents=[turn, {"parts": [with_id]}]) == (f"{hash_of(KEY, 'a')}=f",)
    old = {"role": "tool", "tool_name": "f", "content": "42"}
    assert results("/api/chat", model="m", messages=[USER, ASKS, old]) == ("=f",)
    v1 = [{"call": {"name": "f", "parameters": {}}, "outputs": [{}]}]
    assert results("/v1/chat", message="", tool_results=v1) == ("=f",)
    step = {"type": "function_result", "call_id": "a", "name": "f", "result": "42"}
    assert results("/interactions", model="m", previous_interaction_id="i", input=[step]) == hashes("a")


def test_no_id_is_told_in_clear_and_keys_tell_tasks_apart() -> None:
    """A provider's id may hold anything."""
    secret = "user@example.org"
    body = {"messages": [USER, ASKS, result(secret)]}
    found = results("/chat/completions", **body)
    assert secret not in str(found)
    assert found != results("/chat/completions", key_of(b"o" * 16), **body)


def test_results_are_bounded() -> None:
    """However many stand at the end of a request."""
    many = [result(str(n)) for n in range(1000)]
    assert results("/chat/completions", messages=[USER, ASKS, *many]) == hashes(*map(str, range(872, 1000)))


@pytest.mark.parametrize("odd", [None, 3, [], {}, "x", True])
def test_what_is_no_id_is_left_out(odd: Any) -> None:
    """Whatever stands in its place."""
    wrong = {"role": "tool", "tool_call_id": odd, "content": "42"}
    found = results("/chat/completions", messages=[USER, ASKS, wrong, result("a")])
    assert found == (hashes(odd, "a") if odd == "x" else hashes("a"))
    parts = [{"type": "tool_result", "tool_use_id": odd}, {"type": "tool_result", "tool_use_id": "a"}]
    found = results("/v1/messages", max_tokens=1, messages=[USER, {"role": "user", "content": parts}])
    assert found == (hashes(odd, "a") if odd == "x" else hashes("a"))
