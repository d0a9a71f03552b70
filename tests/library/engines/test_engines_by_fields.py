"""Which engine made an answer, by its fields, and what of its times cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.engine_answers import (
    CHOICE,
    DYNAMO,
    FIREWORKS,
    GROQ,
    LLAMA,
    SGLANG,
    USAGE,
    VLLM,
    read,
    read_last,
)

from agentprof.dialects import Answer, dialect_of
from agentprof.model import Usage

MS = 1_000_000

SILENT: dict[str, tuple[dict[str, Any], str | None]] = {
    "vllm 0.25 and later, switched off": ({"kv_transfer_params": None, "metrics": None}, "vllm"),
    "vllm before 0.25": ({"prompt_logprobs": None, "kv_transfer_params": None}, "vllm"),
    "sglang": (
        {"choices": [CHOICE | {"matched_stop": None}], "metadata": {"weight_version": "default"}},
        "sglang",
    ),
    "tensorrt-llm": (
        {"choices": [CHOICE | {"stop_reason": None, "disaggregated_params": None}]},
        "tensorrt_llm",
    ),
    "lmdeploy": ({"choices": [CHOICE | {"message": {"role": "assistant", "gen_tokens": None}}]}, "lmdeploy"),
    "dynamo": ({"nvext": {"worker_id": {"prefill_worker_id": 1}}}, "dynamo"),
    "lm studio": ({"stats": {"tokens_per_second": 51.4, "stop_reason": "eosFound"}}, None),
    "openai": ({"system_fingerprint": "fp_1", "service_tier": "default"}, None),
}


@pytest.mark.parametrize(("body", "engine"), SILENT.values(), ids=SILENT.keys())
def test_an_answer_without_times(body: dict[str, Any], engine: str | None) -> None:
    """Who answered is known all the same, and nothing is claimed."""
    answer = read(body)
    assert (answer.engine, answer.phases, answer.timing_faults) == (engine, {}, ())


def test_llama_cpp_behind_other_formats() -> None:
    """Its times stand beside the answer there too: responses and Anthropic's messages, whole and streamed."""
    expected = {"prefill": 160 * MS, "generation": 1270 * MS}
    for path, body in (
        ("/v1/responses", {"status": "completed", "output": [], "timings": LLAMA}),
        ("/v1/messages", {"type": "message", "content": [], "stop_reason": "end_turn", "timings": LLAMA}),
    ):
        answer = read(body, path)
        assert answer.engine == "llama.cpp"
        assert {name: phase.ns for name, phase in answer.phases.items()} == expected
    for path, event in (
        (
            "/v1/responses",
            {"type": "response.completed", "response": {"status": "completed"}, "timings": LLAMA},
        ),
        ("/v1/messages", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "timings": LLAMA}),
    ):
        dialect, answer = dialect_of(path), Answer()
        assert dialect is not None
        dialect.event_reader(answer)(json.dumps(event).encode())
        assert answer.engine == "llama.cpp"
        assert {name: phase.ns for name, phase in answer.phases.items()} == expected


COUNTED = Usage(input=300, output=128, cache_read=236)


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([{"choices": [CHOICE], "timings": LLAMA}], COUNTED),
        (
            [{"choices": [CHOICE], "timings": LLAMA}, {"choices": [], "usage": USAGE}],
            Usage(input=300, output=128),
        ),
        ([{"choices": [CHOICE], "usage": USAGE, "timings": LLAMA}], Usage(input=300, output=128)),
        # An older server does not say what it had of the prompt already.
        ([{"choices": [CHOICE], "timings": LLAMA | {"cache_n": None}}], Usage(output=128)),
        ([{"choices": [CHOICE], "timings": LLAMA | {"prompt_n": -1, "predicted_n": 10**30}}], None),
        # Two choices, each with times and counts of its own.
        ([{"choices": [CHOICE | {"index": place}], "timings": LLAMA} for place in (0, 1)], None),
    ],
    ids=["alone", "before usage", "beside usage", "older", "impossible", "two choices"],
)
def test_tokens_that_llama_cpp_counts(events: list[dict[str, Any]], usage: Usage | None) -> None:
    """What stands beside its times is the usage of a stream that was not asked for it, and never more than that."""
    dialect, answer = dialect_of("/v1/chat/completions"), Answer()
    assert dialect is not None
    read_event = dialect.event_reader(answer)
    for event in events:
        read_event(json.dumps(event).encode())
    assert answer.usage == usage


def test_tokens_that_llama_cpp_counted_of_real_streams(shared: Path) -> None:
    """They are the usage that it sends where it is asked for it, to the token."""
    text = (shared / "data" / "engine" / "llama_cpp_requests.jsonl").read_text()
    rows = [row for row in map(json.loads, text.splitlines()) if "timings" in row and "usage" in row]
    assert len(rows) == 106
    for row in rows:
        asked, unasked = (read({"usage": usage, "timings": row["timings"]}) for usage in (row["usage"], None))
        assert asked.usage == unasked.usage
        assert unasked.usage is not None


def test_a_stream_of_vllm_without_times() -> None:
    """Its chunks are known by where a choice says why it stopped."""
    choice = {
        "index": 0,
        "delta": {"content": ""},
        "logprobs": None,
        "finish_reason": "stop",
        "stop_reason": None,
    }
    assert read_last({"choices": [choice], "usage": None}).engine == "vllm"


def test_the_finer_of_two_engines() -> None:
    """Dynamo before vLLM: the engine that made the tokens says more than what passed them on."""
    answer = read(VLLM | {"nvext": {"timing": DYNAMO}})
    assert {name: phase.ns // MS for name, phase in answer.phases.items()} == {
        "queue": 40,
        "prefill": 160,
        "generation": 1270,
        "wait": 208,
        "model": 1480,
    }


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (
            {"kv_transfer_params": None, "metrics": VLLM["metrics"] | {"queue_time_ms": -1}},
            ["metrics.queue_time_ms: negative"],
        ),
        ({"timings": LLAMA | {"prompt_ms": "soon"}}, ["timings.prompt_ms: not a number"]),
        ({"usage": USAGE | GROQ | {"queue_time": 1e300}}, ["usage.queue_time: longer than any call"]),
        (
            {
                "choices": [
                    CHOICE
                    | {"matched_stop": 1, "meta_info": SGLANG | {"prefill_finished_time": 1789999999.0}}
                ]
            },
            [
                "choices[0].meta_info.prefill_finished_time - choices[0].meta_info.forward_entry_time: negative",
            ],
        ),
        (
            {"choices": [CHOICE | {"matched_stop": 1, "meta_info": SGLANG | {"first_token_latency": 2.0}}]},
            ["choices[0].meta_info.e2e_latency - choices[0].meta_info.first_token_latency: negative"],
        ),
        (
            {"perf_metrics": FIREWORKS | {"prefill-duration": "nan"}},
            ["perf_metrics.prefill-duration: not a number"],
        ),
    ],
)
def test_what_cannot_be(body: dict[str, Any], faults: list[str]) -> None:
    """Negative, no number, longer than any call: named with the field, and no phase."""
    answer = read(body)
    assert answer.timing_faults == tuple(faults)
    fields = [phase.field for phase in answer.phases.values()]
    assert not any(fault.split(":")[0] in fields for fault in faults)
