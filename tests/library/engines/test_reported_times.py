"""What engines report of their own time, whole and in streams, and what is none of that."""

import json
from typing import Any

import pytest

from agentprof.dialects import Answer, dialect_of
from agentprof.model import Phase

GROQ = {
    "prompt_tokens": 300,
    "completion_tokens": 128,
    "queue_time": 0.030,
    "prompt_time": 0.012,
    "completion_time": 0.240,
    "total_time": 0.252,
}
CEREBRAS = {"queue_time": 0.0005, "prompt_time": 0.004, "completion_time": 0.0605, "total_time": 0.080}
LLAMA = {"prompt_ms": 12.5, "predicted_ms": 240, "predicted_n": 128}
VLLM = {"queue_time_ms": 3, "time_to_first_token_ms": 20, "generation_time_ms": 250}


def reported(section: str, **ns: int) -> dict[str, Phase]:
    """Phases with the names of their fields."""
    fields = {
        "usage": ("queue_time", "prompt_time", "completion_time"),
        "x_groq.usage": ("queue_time", "prompt_time", "completion_time"),
        "time_info": ("queue_time", "prompt_time", "completion_time"),
        "timings": ("", "prompt_ms", "predicted_ms"),
        "metrics": ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"),
    }[section]
    names = dict(zip(("queue", "prefill", "generation"), fields, strict=True))
    return {
        phase: Phase(ns=value, source="reported", field=f"{section}.{names[phase]}")
        for phase, value in ns.items()
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"usage": GROQ},
            reported("usage", queue=30_000_000, prefill=12_000_000, generation=240_000_000),
        ),
        (
            {"time_info": CEREBRAS},
            reported("time_info", queue=500_000, prefill=4_000_000, generation=60_500_000),
        ),
        ({"timings": LLAMA}, reported("timings", prefill=12_500_000, generation=240_000_000)),
        (
            {"metrics": VLLM},
            reported("metrics", queue=3_000_000, prefill=20_000_000, generation=250_000_000),
        ),
        ({"usage": {"prompt_tokens": 1}}, {}),
        (
            {"usage": GROQ | {"queue_time": "fast", "prompt_time": -1}},
            reported("usage", generation=240_000_000),
        ),
        ({"time_info": [1], "timings": None, "metrics": "none"}, {}),
        ({"time_info": CEREBRAS | {"queue_time": 1e300, "prompt_time": True, "completion_time": None}}, {}),
    ],
)
def test_whole_answers(body: dict[str, Any], expected: dict[str, Phase]) -> None:
    """Phases with their source and the path of their field; what is no time is left out."""
    dialect, answer = dialect_of("/v1/chat/completions"), Answer()
    assert dialect is not None
    dialect.read_body(json.dumps(body).encode(), answer)
    assert answer.phases == expected


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (
            {"x_groq": {"id": "r", "usage": GROQ}},
            reported("x_groq.usage", queue=30_000_000, prefill=12_000_000, generation=240_000_000),
        ),
        (
            {"x_groq": {"id": "r", "usage": GROQ}, "usage": GROQ},
            reported("usage", queue=30_000_000, prefill=12_000_000, generation=240_000_000),
        ),
        (
            {"time_info": CEREBRAS, "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
            reported("time_info", queue=500_000, prefill=4_000_000, generation=60_500_000),
        ),
    ],
)
def test_streams(chunk: dict[str, Any], expected: dict[str, Phase]) -> None:
    """They come with the last chunk."""
    dialect, answer = dialect_of("/v1/chat/completions"), Answer()
    assert dialect is not None
    read = dialect.event_reader(answer)
    read(b'{"choices": [{"index": 0, "delta": {"content": "a"}}]}')
    assert answer.phases == {}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]} | chunk
    read(json.dumps(last).encode())
    assert answer.phases == expected
