"""Sections and fingerprints of requests, and fingerprints of the arguments of tools."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import agentprof
from agentprof import attributes
from agentprof._asked import Key, arguments_hash, key_of, say_request
from agentprof.dialects import dialect_of
from agentprof.testing import Captured, capture

KEY = key_of(b"k" * 16)
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "What is the weather?"}
ASKS = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
}
RESULT = {"content": "rain", "role": "tool", "tool_call_id": "1"}
TOOL = {"type": "function", "function": {"name": "w", "parameters": {"type": "object", "properties": {}}}}


def size(value: Any) -> int:
    return len(dumped(value))


def dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def asked(path: str = "/chat/completions", key: Key | None = KEY, **body: Any) -> dict[str, Any]:
    dialect = dialect_of(path)
    assert dialect is not None
    said: dict[str, Any] = {}
    say_request(said, dumped(body), dialect, key)
    return said


def sections(said: dict[str, Any]) -> dict[str, int]:
    start = attributes.INPUT_BYTES
    return {name.removeprefix(start): value for name, value in said.items() if name.startswith(start)}


def test_sections_of_a_chat() -> None:
    """Bytes by role as sent, and how many tools were offered; what is not there is not said."""
    said = asked(model="m", messages=[SYSTEM, USER, ASKS, RESULT], tools=[TOOL, TOOL], temperature=0)
    assert sections(said) == {
        "system": size(SYSTEM),
        "user": size(USER),
        "assistant": size(ASKS),
        "tool_results": size(RESULT),
        "tools": size([TOOL, TOOL]),
    }
    assert said[attributes.TOOLS_OFFERED] == 2
    assert sections(asked(model="m", messages=[USER])) == {"user": size(USER)}


def test_results_of_tools_in_messages_of_the_user() -> None:
    """Anthropic has them there, as parts beside what the user says."""
    result = {"type": "tool_result", "tool_use_id": "1", "content": "rain"}
    parts = [result, {"type": "text", "text": "And now?"}, result]
    message = {"role": "user", "content": parts}
    asks = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "w", "input": {}}]}
    said = asked(
        "/v1/messages",
        model="m",
        max_tokens=1,
        system="Be brief.",
        messages=[USER, asks, message],
        tools=[TOOL],
    )
    assert sections(said) == {
        "system": size("Be brief."),
        "user": size(USER) + size(message) - 2 * size(result),
        "assistant": size(asks),
        "tool_results": 2 * size(result),
        "tools": size([TOOL]),
    }
    assert said[attributes.TOOLS_OFFERED] == 1
    odd = [{"role": "user", "content": 7}, {"role": "user", "content": [7, None]}]
    assert sections(asked("/v1/messages", max_tokens=1, messages=odd)) == {"user": sum(map(size, odd))}


def test_sections_of_responses() -> None:
    """Instructions are the system's; items belong to a section by role or by type; a bare text is the user's."""
    call = {"type": "function_call", "call_id": "1", "name": "w", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "rain"}
    said = asked("/responses", model="m", instructions="Be brief.", input=[USER, call, output], tools=[TOOL])
    assert sections(said) == {
        "system": size("Be brief."),
        "user": size(USER),
        "assistant": size(call),
        "tool_results": size(output),
        "tools": size([TOOL]),
    }
    assert sections(asked("/responses", model="m", input="hi")) == {"user": 4}


@pytest.mark.parametrize(("path", "field"), [("/embeddings", "input"), ("/completions", "prompt")])
def test_sections_of_a_text(path: str, field: str) -> None:
    """Other endpoints have a text."""
    said = asked(path, **{"model": "m", field: "some text"})
    assert sections(said) == {"user": 11}
    assert attributes.FINGERPRINT_PREFIX not in said
    assert attributes.FINGERPRINT_REQUEST in said


def test_the_same_question_has_the_same_fingerprint() -> None:
    """Whether or not it is streamed and whatever the order of fields; anything else makes it another."""
    first = asked(model="m", messages=[USER], temperature=0, seed=1)[attributes.FINGERPRINT_REQUEST]
    same = asked(seed=1, messages=[USER], stream=True, stream_options={}, temperature=0, model="m")
    assert same[attributes.FINGERPRINT_REQUEST] == first
    others = [
        asked(model="m", messages=[USER], temperature=1, seed=1),
        asked(model="n", messages=[USER], temperature=0, seed=1),
        asked(model="m", messages=[USER, USER], temperature=0, seed=1),
        asked(model="m", messages=[USER], temperature=0, seed=1, tools=[TOOL]),
        asked(model="m", messages=[USER], temperature=0, seed=1, key=key_of(b"other")),
    ]
    found = {said[attributes.FINGERPRINT_REQUEST] for said in others}
    assert len(found) == len(others)
    assert first not in found


def test_a_longer_conversation_shares_its_prefix() -> None:
    """Of any two lengths the places in common are equal up to where they differ, and there are few of them."""
    messages = [{"role": "user", "content": f"message {i}"} for i in range(300)]
    for shorter, longer in [(1, 2), (3, 5), (9, 11), (10, 40), (40, 42), (100, 300), (299, 300)]:
        short = asked(model="m", messages=messages[:shorter])[attributes.FINGERPRINT_PREFIX]
        long = asked(model="m", messages=messages[:longer])[attributes.FINGERPRINT_PREFIX]
        assert len(short) <= 8 >= len(long)
        assert short[-1].startswith(f"{shorter}:")
        shared = [int(place.partition(":")[0]) for place in set(short) & set(long)]
        assert max(shared) >= shorter / 2
    changed = asked(model="m", messages=[*messages[:20], USER, *messages[21:40]])
    before = asked(model="m", messages=messages[:40])[attributes.FINGERPRINT_PREFIX]
    places = {int(place.partition(":")[0]) for place in before}
    same = {int(p.partition(":")[0]) for p in set(before) & set(changed[attributes.FINGERPRINT_PREFIX])}
    assert same == {place for place in places if place <= 20}


@pytest.mark.parametrize("body", [b"", b"--boundary\r\n", b"[1]", b'{"messages":', b"\xff\xfe"])
def test_what_is_no_request_says_nothing(body: bytes) -> None:
    """And raises nothing."""
    dialect = dialect_of("/chat/completions")
    assert dialect is not None
    said: dict[str, Any] = {}
    say_request(said, body, dialect, KEY)
    assert said == {}


@pytest.mark.parametrize("messages", [None, "text", [None, 1, "x", {}], {"role": 5}, [{"role": None}]])
def test_strange_messages(messages: Any) -> None:
    """Are measured as well as can be."""
    said = asked(model="m", messages=messages)
    assert attributes.FINGERPRINT_REQUEST in said


# --- tools ---------------------------------------------------------------------------------------
@agentprof.tool
def search(query: Any, *, limit: Any = 3) -> str:
    return "found"


@agentprof.tool
async def search_async(query: str) -> str:
    return "found"


class Shop:
    @agentprof.tool
    def buy(self, what: str) -> None:
        """Buy something."""


def arguments(captured: Captured) -> list[Any]:
    return [(span.attributes or {}).get(attributes.FINGERPRINT_ARGUMENTS) for span in captured.spans]


def test_arguments_of_tools() -> None:
    """Alike for the same arguments of one task, whoever owns the method; another task has another key."""
    with capture() as captured:
        with agentprof.task("one"):
            search("a", limit=1)
            search("a", limit=1)
            search("a", limit=2)
            Shop().buy("tea")
            Shop().buy("tea")
            with agentprof.task("inner"):
                search("a", limit=1)
        with agentprof.task("two"):
            search("a", limit=1)
    first, again, other, tea, more_tea, inner, _, _, elsewhere, _ = arguments(captured)
    assert first == again == inner
    assert tea == more_tea
    assert len({first, other, tea, elsewhere}) == 4
    assert all(len(found) == 8 + 1 + 16 for found in (first, other, tea))
    assert first.partition("-")[0] == tea.partition("-")[0] == inner.partition("-")[0]
    assert first.partition("-")[0] != elsewhere.partition("-")[0]


class Watched:
    """Raises if anything is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __iter__(self) -> Any:
        raise AssertionError

    def __repr__(self) -> str:
        raise AssertionError


@pytest.mark.parametrize(
    "value",
    [
        threading.RLock(),
        {"lock": threading.RLock()},
        (n for n in [1]),
        b"bytes",
        "x" * 200_000,
        {1: object()},
    ],
    ids=lambda value: type(value).__name__,
)
def test_arguments_that_are_no_plain_data(value: Any) -> None:
    """Are not looked into: the tool runs, and says nothing of them."""
    with capture() as captured:
        assert search(value) == "found"
    assert len(captured.spans) == 1
    assert arguments(captured) == [None]


def test_objects_of_the_program_are_not_touched() -> None:
    """Neither at the top nor inside."""
    assert arguments_hash(KEY, None, (object.__new__(Watched),), {}) is None
    assert arguments_hash(KEY, None, ([object.__new__(Watched)],), {}) is None


def test_marks_without_arguments() -> None:
    """A context manager and a step say nothing of arguments."""
    with capture() as captured:
        with agentprof.tool("t"):
            pass
        agentprof.step("s")(lambda x: x)(1)
    assert arguments(captured) == [None, None]
