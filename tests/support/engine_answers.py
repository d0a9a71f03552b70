"""Answers as engines send them, their times at hand to add up, and how a dialect reads them."""

from __future__ import annotations

import json
from typing import Any

from agentprof.dialects import Answer, dialect_of

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
