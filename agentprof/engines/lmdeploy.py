"""LMDeploy: nothing of a single request; its times are in its Prometheus metrics alone (lmdeploy 0.18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agentprof.dialects import Answer

NAME: Final = "lmdeploy"
MARKERS: Final = (b'"gen_tokens"',)


def read(body: bytes, answer: Answer) -> bool:
    """Nothing."""
    return True
