"""TensorRT-LLM: nothing in its answers; times come with its spans, or are asked of `GET /perf_metrics` there.

The ids of that list are the engine's own, so they cannot be told apart by an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "tensorrt_llm"
MARKERS: Final = (b'"disaggregated_params"', b'"avg_decoded_tokens_per_iter"')
ADVICE: Final = (
    "TensorRT-LLM answers without times: `trtllm-serve` with `return_perf_metrics: true` and `--otlp_traces_endpoint` "
    "sends them as spans, which join the calls that carry `traceparent`"
)


def read(body: bytes, answer: Answer) -> bool:
    """Nothing."""
    return True
