"""What each engine says of its time in its bodies, as hand-computed phases of whole calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentprof.dialects import Answer, dialect_of
from agentprof.model import Call
from agentprof.rollup.phases import fill_phases

MS = 1_000_000
WHOLE_NS = 1_500 * MS
"""How long the client waited for every answer here: the engines had it for 1,480 ms."""

USAGE = {"prompt_tokens": 300, "completion_tokens": 128, "total_tokens": 428}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}


def read(body: dict[str, Any], path: str = "/v1/chat/completions") -> Answer:
    """A whole answer as its dialect reads it."""
    dialect, answer = dialect_of(path), Answer()
    assert dialect is not None
    dialect.read_body(json.dumps({"choices": [CHOICE], "usage": USAGE} | body).encode(), answer)
    return answer


def read_last(chunk: dict[str, Any]) -> Answer:
    """A stream as its dialect reads it, with the last chunk given."""
    dialect, answer = dialect_of("/v1/chat/completions"), Answer()
    assert dialect is not None
    event = dialect.event_reader(answer)
    event(b'{"choices": [{"index": 0, "delta": {"content": "a"}}]}')
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE} | chunk
    event(json.dumps(last).encode())
    return answer


def filled(
    answer: Answer, *, late: bool = False, first_token_ms: int | None = None
) -> list[tuple[str, int, str]]:
    """The call by what its answer says, in ms."""
    call = Call(
        phases=answer.phases,
        queue_starts_late=late,
        first_token_ns=None if first_token_ms is None else first_token_ms * MS,
    )
    division = fill_phases(call, WHOLE_NS)
    assert sum(segment.ns for segment in division.segments) == WHOLE_NS
    assert not division.faults
    assert not division.overflow
    return [(segment.name, round(segment.ns / MS), segment.source) for segment in division.segments]


VLLM = {
    "kv_transfer_params": None,
    "metrics": {
        "queue_time_ms": 40.0,
        "time_to_first_token_ms": 160.0,
        "generation_time_ms": 1270.0,
        "mean_itl_ms": 10.0,
        "tokens_per_second": 89.5,
    },
}
SGLANG = {
    "prompt_tokens": 300,
    "completion_tokens": 128,
    "cached_tokens": 64,
    "queue_time": 0.050,
    "request_received_ts": 1790000000.000,
    "forward_entry_time": 1790000000.058,
    "prefill_finished_time": 1790000000.208,
    "first_token_latency": 0.208,
    "e2e_latency": 1.478,
    "decode_throughput": 100.0,
}
LLAMA = {"cache_n": 236, "prompt_n": 64, "prompt_ms": 160.0, "predicted_n": 128, "predicted_ms": 1270.0}
DYNAMO = {
    "request_received_ms": 1790000000000,
    "prefill_wait_time_ms": 8.0,
    "prefill_time_ms": 200.0,
    "ttft_ms": 208.0,
    "total_time_ms": 1480.0,
    "kv_hit_rate": 0.5,
}
NIM = {
    "type": "NIM LLM Model Stats",
    "version": "0.1.0",
    "llm_input_token_length": 300,
    "llm_output_token_length": 128,
    "generation_time_in_ms": 1430.0,
    "time_in_queue_in_ms": 40.0,
    "response_tokens": {
        "response_token_length": 128,
        "time_to_first_token_in_ms": 160.0,
        "token_to_token_time_in_ms": 10.0,
        "tokens_per_second": 89.5,
    },
}
GROQ = {"queue_time": 0.030, "prompt_time": 0.012, "completion_time": 0.240, "total_time": 0.252}
CEREBRAS = {"queue_time": 0.0005, "prompt_time": 0.004, "completion_time": 0.0605, "total_time": 0.080}
FIREWORKS = {
    "tokenizer-queue-duration": "0.001",
    "tokenizer-duration": "0.004",
    "prefill-queue-duration": "0.035",
    "prefill-duration": "0.160",
    "generation-queue-duration": "0.002",
    "generation-duration": "1.270",
    "server-time-to-first-token": "0.202",
    "server-processing-time": "1.472",
}
FIREWORKS_SHARED = {
    name: FIREWORKS[name] for name in ("server-time-to-first-token", "server-processing-time")
}
SAMBANOVA = {
    "time_to_first_token": 0.2,
    "total_latency": 1.47,
    "start_time": 1790000000.0,
    "completion_tokens_after_first_per_sec": 100.0,
    "is_last_response": True,
}
OLLAMA = {
    "done": True,
    "total_duration": 1_560_000_000 - 80_000_000,
    "load_duration": 80_000_000 - 60_000_000,
    "prompt_eval_count": 300,
    "prompt_eval_duration": 160_000_000,
    "eval_count": 128,
    "eval_duration": 1_270_000_000,
}
"""Of 1,480 ms 20 until a model ran and 30 until one of its slots was free."""
LOCALAI = {"timing_prompt_processing": 160.0, "timing_token_generation": 1270.0}


# Of each: the answer, the engine it tells, and the division of 1,500 ms.
WHOLE: dict[str, tuple[Answer, str, list[tuple[str, int, str]]]] = {
    # Its queue figure starts late: what is left is queueing too.
    "vllm": (
        read(VLLM),
        "vllm",
        [("queue", 70, "derived"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "sglang": (
        read({"choices": [CHOICE | {"matched_stop": 2, "meta_info": SGLANG}]}),
        "sglang",
        [
            ("network", 30, "derived"),
            ("queue", 50, "reported"),
            ("prefill", 150, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Thrown out and queued again: the queue is what preceded prefill, with the front end before it.
    "sglang, retracted": (
        read(
            {
                "choices": [
                    CHOICE
                    | {"meta_info": SGLANG | {"num_retractions": 1, "queue_time": 0.4}, "matched_stop": 2}
                ]
            }
        ),
        "sglang",
        [
            ("network", 22, "derived"),
            ("queue", 58, "derived"),
            ("prefill", 150, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Always the whole, and no more where its metrics are off.
    "sglang without metrics": (
        read({"choices": [CHOICE | {"matched_stop": 2, "meta_info": {"e2e_latency": 1.478}}]}),
        "sglang",
        [("network", 22, "derived"), ("model", 1478, "reported")],
    ),
    # Waiting for a slot is in no field, nor is the way there: the rest is undivided.
    "llama.cpp": (
        read({"timings": LLAMA}),
        "llama.cpp",
        [("wait", 70, "observed"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "localai": (
        read({"usage": USAGE | LOCALAI}),
        "localai",
        [("wait", 70, "observed"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    # Its total is known, so that the wait for a slot, in no field, is told from the way there.
    "ollama": (
        read(OLLAMA, "/api/chat"),
        "ollama",
        [
            ("network", 20, "derived"),
            ("queue", 50, "derived"),
            ("prefill", 160, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    # Older releases say nothing of a prompt that was kept from before.
    "ollama, older, the whole prompt cached": (
        read(
            {name: value for name, value in OLLAMA.items() if not name.startswith("prompt_eval")}, "/api/chat"
        ),
        "ollama",
        [("network", 20, "derived"), ("wait", 210, "derived"), ("generation", 1270, "reported")],
    ),
    # What it calls prefill holds the worker's queue: only their sum is known.
    "dynamo": (
        read({"nvext": {"timing": DYNAMO}}),
        "dynamo",
        [("network", 20, "derived"), ("wait", 208, "reported"), ("generation", 1272, "derived")],
    ),
    # The mean of 127 gaps; whether its time to the first token holds the queue is not said.
    "nim": (
        read({"stats": NIM}),
        "nim",
        [("queue", 40, "reported"), ("wait", 190, "observed"), ("generation", 1270, "derived")],
    ),
    "groq": (
        read({"usage": USAGE | GROQ}),
        "groq",
        [
            ("network", 1218, "derived"),
            ("queue", 30, "reported"),
            ("prefill", 12, "reported"),
            ("generation", 240, "reported"),
        ],
    ),
    "cerebras": (
        read({"time_info": CEREBRAS | {"created": 1790000000}}),
        "cerebras",
        [
            ("network", 1435, "derived"),
            ("queue", 0, "reported"),
            ("prefill", 4, "reported"),
            ("generation", 60, "reported"),
        ],
    ),
    # Three queues are one; tokenizing (4 ms) is neither queue nor prefill.
    "fireworks, dedicated": (
        read({"perf_metrics": FIREWORKS}),
        "fireworks",
        [
            ("network", 32, "derived"),
            ("queue", 38, "reported"),
            ("prefill", 160, "reported"),
            ("generation", 1270, "reported"),
        ],
    ),
    "fireworks, shared": (
        read({"perf_metrics": FIREWORKS_SHARED}),
        "fireworks",
        [("network", 28, "derived"), ("wait", 202, "reported"), ("generation", 1270, "derived")],
    ),
    "sambanova": (
        read({"usage": USAGE | SAMBANOVA}),
        "sambanova",
        [("network", 30, "derived"), ("wait", 200, "reported"), ("generation", 1270, "derived")],
    ),
}


@pytest.mark.parametrize(("answer", "engine", "expected"), WHOLE.values(), ids=WHOLE.keys())
def test_a_whole_answer(answer: Answer, engine: str, expected: list[tuple[str, int, str]]) -> None:
    """The engine by its fields, and the call divided by what it says."""
    assert answer.engine == engine
    assert answer.timing_faults == []
    assert filled(answer, late=engine in ("vllm", "ollama")) == expected


# Of each: the last chunk, and the division of 1,500 ms whose first token came after 230.
STREAMS: dict[str, tuple[Answer, str, list[tuple[str, int, str]]]] = {
    "vllm": (
        read_last(VLLM),
        "vllm",
        [("queue", 70, "derived"), ("prefill", 160, "reported"), ("generation", 1270, "reported")],
    ),
    "groq": (
        read_last({"x_groq": {"id": "req_1", "usage": USAGE | GROQ}, "usage": None}),
        "groq",
        [
            ("network", 188, "derived"),
            ("queue", 30, "reported"),
            ("prefill", 12, "reported"),
            ("generation", 1270, "observed"),
        ],
    ),
    "dynamo": (
        read_last({"nvext": {"timing": DYNAMO}}),
        "dynamo",
        [("network", 20, "derived"), ("wait", 208, "reported"), ("generation", 1272, "derived")],
    ),
    "nim": (
        read_last({"stats": NIM}),
        "nim",
        [("queue", 40, "reported"), ("wait", 190, "observed"), ("generation", 1270, "derived")],
    ),
    "fireworks, shared": (
        read_last({"perf_metrics": FIREWORKS_SHARED}),
        "fireworks",
        [("network", 28, "derived"), ("wait", 202, "reported"), ("generation", 1270, "derived")],
    ),
    "sambanova": (
        read_last({"usage": USAGE | SAMBANOVA}),
        "sambanova",
        [("network", 30, "derived"), ("wait", 200, "reported"), ("generation", 1270, "derived")],
    ),
}


@pytest.mark.parametrize(("answer", "engine", "expected"), STREAMS.values(), ids=STREAMS.keys())
def test_a_stream(answer: Answer, engine: str, expected: list[tuple[str, int, str]]) -> None:
    """The same from its last chunk, around the first token the client saw."""
    assert answer.engine == engine
    assert filled(answer, late=engine in ("vllm", "nim"), first_token_ms=230) == expected


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
    assert (answer.engine, answer.phases, answer.timing_faults) == (engine, {}, [])


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
    assert answer.timing_faults == faults
    fields = [phase.field for phase in answer.phases.values()]
    assert not any(fault.split(":")[0] in fields for fault in faults)
