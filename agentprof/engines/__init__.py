"""What inference engines report about their own time in the bodies of their answers."""

from __future__ import annotations

from typing import Final, Protocol

from agentprof.engines import cerebras, groq, llama_cpp, vllm
from agentprof.model import Phase

LATE_QUEUE_FIELDS: Final = frozenset(
    {"metrics.queue_time_ms", "gen_ai.latency.time_in_queue", "load_duration"}
)
"""Fields whose queue time begins after the request's arrival, or ends before a further wait that is in no field:
what else passed before the prompt was read was queueing too."""


class Engine(Protocol):
    """Reads the times one engine puts into its answers."""

    MARKER: bytes
    """Bytes every such answer contains: a cheap test before anything is decoded."""

    def phases_in(self, body: bytes) -> dict[str, Phase]:
        """The phases a body or the data of an event reports, by name."""


ENGINES: Final[tuple[Engine, ...]] = (llama_cpp, vllm, groq, cerebras)


def read_body(body: bytes, phases: dict[str, Phase]) -> None:
    """Add to `phases` what the engine that made a body or an event reports in it."""
    for engine in ENGINES:
        if engine.MARKER in body:
            phases.update(engine.phases_in(body))
