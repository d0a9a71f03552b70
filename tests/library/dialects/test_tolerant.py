"""Decoding bodies that are not what they should be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof.dialects import DIALECTS, LATE_DIALECTS, Answer, dialect_of
from agentprof.dialects.openai_chat import Body, _read_body

NAMES = """id model choices usage error type delta item response output status index finish_reason message content
    tool_calls function function_call name custom refusal reasoning reasoning_details prompt_tokens
    completion_tokens input_tokens output_tokens total_tokens prompt_tokens_details output_tokens_details
    cached_tokens reasoning_tokens cost cost_details is_byok cost_in_usd_ticks server_tool_use x_groq timings
    metrics queue_time_ms prompt_ms service_tier incomplete_details reason code text content_block thinking
    partial_json stop_reason cache_creation cache_creation_input_tokens iterations"""
EVENTS = st.sampled_from(
    ["message_start", "message_delta", "content_block_start", "content_block_delta", "error"]
)
FIELDS = st.sampled_from(NAMES.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=5),
    max_leaves=25,
)
ALL = [*DIALECTS, *filter(None, map(dialect_of, LATE_DIALECTS))]


@given(st.dictionaries(FIELDS, JSON, max_size=8), st.none() | EVENTS)
def test_no_body_raises(body: dict[str, Any], event: str | None) -> None:
    """Any JSON in any place is taken, whole or as an event; what is not understood is left out."""
    data = json.dumps(body if event is None else {"type": event} | body | {"type": event}).encode()
    for dialect in ALL:
        answer = Answer()
        dialect.read_body(data, answer)
        assert dialect.event_reader(answer)(data) in (0, 1, 2)
        dialect.asked(data)
        assert all(isinstance(reason, str) for reason in answer.finish_reasons.values())
        assert all(isinstance(name, str) for name in answer.tool_calls.values())


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Neither do bytes that are no JSON."""
    for dialect in ALL:
        dialect.read_body(data, Answer())
        assert dialect.event_reader(Answer())(data) == 0


def test_one_wrong_field_costs_only_itself() -> None:
    """Fields beside a wrong one, and items beside a wrong one in a list, are kept."""
    body = {
        "id": 5,
        "model": "m",
        "choices": [{"finish_reason": "stop", "message": 7}, 9, {"finish_reason": ["?"]}],
        "usage": {
            "prompt_tokens": 12.0,
            "completion_tokens": [],
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }
    read = _read_body(json.dumps(body).encode())
    assert isinstance(read, Body)
    assert (read.id, read.model) == (None, "m")
    assert read.choices is not None
    assert [choice.finish_reason for choice in read.choices] == ["stop", None]
    assert read.usage is not None
    assert (read.usage.prompt_tokens, read.usage.completion_tokens) == (12, None)
    assert read.usage.prompt_tokens_details is not None
    assert read.usage.prompt_tokens_details.cached_tokens == 4


@pytest.mark.parametrize("depth", [100_000])
def test_deep_nesting(depth: int) -> None:
    """A body nested beyond reason is not understood, and nothing worse."""
    answer = Answer()
    DIALECTS[0].read_body(b'{"choices":' + b"[" * depth, answer)
    assert answer.finish_reasons == {}
