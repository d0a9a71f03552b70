"""Spans that inference engines make of the requests they serve.

vLLM: one span `llm_request` a request (vllm/v1/engine/output_processor.py, read in 0.33.0).
"""

from __future__ import annotations

from agentprof.vocabularies.shape import Vocabulary

VLLM = Vocabulary(
    name="vllm",
    kind_by_presence=(("gen_ai.latency.time_in_model_prefill", "model"), ("gen_ai.latency.e2e", "model")),
    server_scopes=("vllm.",),
)

VLLM_QUEUE = "gen_ai.latency.time_in_queue"
"""Seconds from the engine core's own queue to the first scheduling: begins after the request's arrival."""
VLLM_PREFILL = "gen_ai.latency.time_in_model_prefill"
"""Seconds from the first scheduling to the first token."""
VLLM_GENERATION = "gen_ai.latency.time_in_model_decode"
"""Seconds from the first to the last token."""
VLLM_FIRST_TOKEN = "gen_ai.latency.time_to_first_token"
"""Seconds from arrival at the frontend to the first token: less the prefill it is the whole wait."""

LATENCIES = frozenset((VLLM_QUEUE, VLLM_PREFILL, VLLM_GENERATION, VLLM_FIRST_TOKEN))
"""All attributes here that say how long something took."""
