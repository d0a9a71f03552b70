"""vLLM: `metrics`, in a stream on the usage chunk (docs/features/per_request_metrics.md, read in 0.33).

Since 0.25 every whole answer has the field, null where it is not switched on; before that answers of vLLM are known
by `kv_transfer_params` and `prompt_logprobs`. `time_to_first_token_ms` counts from when the request was scheduled,
so it is a prefill time. The queue time begins in the engine's core: what passes before it is not in any field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentprof.engines._times import MILLISECONDS, note_fields, object_at

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "vllm"
_CERTAIN: Final = (b'"time_to_first_token_ms"', b'"kv_transfer_params"', b'"prompt_logprobs"', b'"vllm-')
MARKERS: Final = (*_CERTAIN, b'"stop_reason"')
ADVICE: Final = (
    "vLLM answers without its times: from 0.25 on, `vllm serve --enable-per-request-metrics` adds them; a stream "
    'carries them if the request has `"stream_options": {"include_usage": true}`'
)
_FIELDS: Final = {
    "queue_time_ms": "queue",
    "time_to_first_token_ms": "prefill",
    "generation_time_ms": "generation",
}
_OTHERS: Final = (b'"disaggregated_params"', b'"stats"')
"""TensorRT-LLM and LM Studio have a `stop_reason` too."""


def read(body: bytes, answer: Answer) -> bool:
    """Queue, prefill and generation."""
    metrics = object_at(body, "metrics")
    if metrics is not None and "time_to_first_token_ms" in metrics:
        note_fields(answer, metrics, "metrics", _FIELDS, MILLISECONDS)
        return True
    return any(marker in body for marker in _CERTAIN) or not any(other in body for other in _OTHERS)
