"""What no time can be, in every field an engine reports: it costs the answer nothing else."""

from __future__ import annotations

from itertools import product

import pytest

from agentprof.dialects import Answer, dialect_of

IMPOSSIBLE = (
    "1e308",
    "-1e308",
    "-1",
    "1e17",
    "9223372036854775807",
    "-9223372036854775808",
    "1" + "0" * 400,
    '"1e5000"',
    '"soon"',
    "true",
    "null",
    "{}",
    "[" * 5000 + "]" * 5000,
)
"""As JSON."""

BODIES = {
    "vllm": '"metrics": {"queue_time_ms": 4.0, "time_to_first_token_ms": @, "generation_time_ms": @}',
    "vllm, no object": '"metrics": @, "kv_transfer_params": @',
    "sglang": '"meta_info": {"queue_time": @, "forward_entry_time": @, "prefill_finished_time": @}',
    "sglang, the whole": '"meta_info": {"e2e_latency": @, "first_token_latency": @, "num_retractions": @}',
    "llama.cpp": '"timings": {"prompt_ms": @, "predicted_ms": @}',
    "dynamo": '"nvext": {"timing": {"ttft_ms": @, "total_time_ms": @}}',
    "nim": '"stats": {"type": "NIM LLM Model Stats", "time_in_queue_in_ms": 4.0, "response_tokens": '
    '{"response_token_length": @, "token_to_token_time_in_ms": @}}',
    "cerebras": '"time_info": {"queue_time": @, "prompt_time": @, "completion_time": 0.1}',
    "fireworks": '"perf_metrics": {"tokenizer-queue-duration": @, "prefill-queue-duration": @, '
    '"generation-queue-duration": @, "prefill-duration": 0.1}',
}
"""Further fields of an answer, with places for two or three times."""


@pytest.mark.parametrize("fields", BODIES.values(), ids=BODIES)
def test_the_rest_of_an_answer_is_read(fields: str) -> None:
    """Its counts are kept, and each phase is a time a call can last, in 64 bits; in a stream as in a whole answer."""
    dialect = dialect_of("/v1/chat/completions")
    assert dialect is not None
    for values in product((*IMPOSSIBLE, "0.25", "1790000000.0"), repeat=fields.count("@")):
        told = fields
        for value in values:
            told = told.replace("@", value, 1)
        body = f'{{"usage": {{"prompt_tokens": 300, "completion_tokens": 128}}, {told}}}'.encode()
        whole, streamed = Answer(), Answer()
        dialect.read_body(body, whole)
        dialect.event_reader(streamed)(body)
        deep = any(value.startswith("[[") for value in values)
        for answer in (whole, streamed):
            assert deep or (answer.usage is not None and answer.usage.output == 128)
            assert all(0 <= phase.ns < 10**18 for phase in answer.phases.values()), told
