"""What engines report of their own time in the bodies of their answers, and which engine made an answer.

An engine is known by fields that only it sends. What each figure means is said where it is read, and in
`docs/phases.md`: the same name means different things in different engines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentprof.dialects import Answer

LATE_QUEUE_FIELDS: Final = frozenset(
    {"metrics.queue_time_ms", "gen_ai.latency.time_in_queue", "load_duration", "stats.time_in_queue_in_ms"}
)
"""Fields whose queue time begins after the request's arrival, or ends before a further wait that is in no field:
what else passed before the prompt was read was queueing too."""

LLAMA_CPP: Final = "llama.cpp"

HEADERS: Final = frozenset(
    {
        "openai-processing-ms",
        "server-timing",
        "x-litellm-response-duration-ms",
        "x-litellm-overhead-duration-ms",
        "x-total-time",
        "x-queue-time",
        "x-inference-time",
        "x-compute-time",
        "fireworks-tokenizer-queue-duration",
        "fireworks-prefill-queue-duration",
        "fireworks-generation-queue-duration",
        "fireworks-prefill-duration",
        "fireworks-generation-duration",
        "fireworks-server-time-to-first-token",
        "fireworks-server-processing-time",
    }
)
"""Headers that say how long a server took, in small letters; `agentprof.engines.headers` reads them."""

_marked: Final = re.compile(
    rb'"(?:timings"|t(?:ime_info|otal_latency|iming_prompt_processing|ime_to_first_token_ms)"'
    rb'|completion_time"|perf_metrics"|prompt_logprobs"|gen_tokens"|nvext"|NIM LLM Model Stats"'
    rb'|m(?:atched_stop|eta_info)"|s(?:glext|top_reason)"|weight_version"|disaggregated_params"'
    rb'|avg_decoded_tokens_per_iter"|kv_transfer_params"|vllm-)'
).search
"""The markers of all engines at once: the last events of most streams have none, and no engine is loaded."""


def read_body(body: bytes, answer: Answer) -> None:
    """Note what the engine that made a body or an event reports in it, and which one it was."""
    if _marked(body) is None:
        return
    from agentprof.engines.table import ENGINES

    for engine in ENGINES:
        for marker in engine.MARKERS:
            if marker in body:
                if engine.read(body, answer) and answer.engine is None:
                    answer.engine = engine.NAME
                break
