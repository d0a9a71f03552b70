"""The engines that tell their times in bodies, one line each; loaded when the first answer has a field of theirs."""

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
