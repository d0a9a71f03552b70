"""What engines report of their own time in the bodies of their answers, and which engine made an answer.

An engine is known by fields that only it sends. What each figure means is said where it is read, and in
`docs/phases.md`: the same name means different things in different engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from agentprof.engines import (
    cerebras,
    dynamo,
    fireworks,
    groq,
    llama_cpp,
    lmdeploy,
    localai,
    nim,
    sambanova,
    sglang,
    tensorrt_llm,
    vllm,
)

if TYPE_CHECKING:
    from agentprof.dialects import Answer

LATE_QUEUE_FIELDS: Final = frozenset(
    {"metrics.queue_time_ms", "gen_ai.latency.time_in_queue", "load_duration", "stats.time_in_queue_in_ms"}
)
"""Fields whose queue time begins after the request's arrival, or ends before a further wait that is in no field:
what else passed before the prompt was read was queueing too."""


class Engine(Protocol):
    """Reads what one engine puts into its answers."""

    @property
    def NAME(self) -> str:
        """What it is called."""

    @property
    def MARKERS(self) -> tuple[bytes, ...]:
        """Each only in its answers: a cheap test before anything is decoded."""

    def read(self, body: bytes, answer: Answer) -> bool:
        """Note the times in a body or in the data of an event; whether it is one of this engine at all."""


# Of two that both know an answer the one that serves the tokens comes before the one that passes them on.
ENGINES: Final[tuple[Engine, ...]] = (
    llama_cpp,
    groq,
    cerebras,
    sambanova,
    fireworks,
    sglang,
    tensorrt_llm,
    localai,
    lmdeploy,
    nim,
    dynamo,
    vllm,
)


ADVICE: Final[dict[str, str]] = {
    engine.NAME: engine.ADVICE for engine in (sglang, tensorrt_llm, dynamo, vllm)
}
"""What switches the times of an engine on, by its name; the others send theirs always, or have none."""


def read_body(body: bytes, answer: Answer) -> None:
    """Note what the engine that made a body or an event reports in it, and which one it was."""
    for engine in ENGINES:
        for marker in engine.MARKERS:
            if marker in body:
                if engine.read(body, answer) and answer.engine is None:
                    answer.engine = engine.NAME
                break
