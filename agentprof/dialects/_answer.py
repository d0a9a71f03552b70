"""What a dialect fills in about one answer, and what it says of each event."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import msgspec

from agentprof.model import Phase, Usage

if TYPE_CHECKING:
    from agentprof.dialects._received import Received


class Asked(msgspec.Struct):
    """What is known of a request."""

    model: str | None = None
    stream: bool | None = None


NOTHING: Final = 0
"""An event that carries no generated token, such as a role, a ping or usage."""
THINKING: Final = 1
"""An event with generated tokens of visible reasoning only."""
CONTENT: Final = 2
"""An event with text or tool-call tokens."""

EventReader = Callable[[bytes], int]
"""Reads the data of one event of a stream and says which tokens it carried."""


class Answer:
    """What is known of the answer to one call, filled while it arrives."""

    __slots__ = (
        "cost_usd",
        "engine",
        "error_type",
        "finish_reasons",
        "model",
        "phases",
        "received",
        "response_id",
        "server_tools",
        "service_tier",
        "timing_faults",
        "tool_calls",
        "tool_ids",
        "usage",
        "usage_of_engine",
        "whole",
    )

    def __init__(self) -> None:
        self.response_id: str | None = None
        self.model: str | None = None
        self.usage: Usage | None = None
        self.usage_of_engine: Usage | None = None
        """The same, while it is only what the engine counted beside its times."""
        self.cost_usd: Decimal | None = None
        """As the provider or gateway reports it."""
        self.finish_reasons: dict[int, str] = {}
        """By position of the choice."""
        self.tool_calls: dict[object, str] = {}
        """Names of the tools asked for, by a key of their own, in order."""
        self.tool_ids: dict[object, str] = {}
        """Their ids, by the same keys, of those that have one."""
        self.server_tools: dict[str, int] = {}
        self.service_tier: str | None = None
        self.phases: dict[str, Phase] = {}
        """What the engine reports of its own time."""
        self.engine: str | None = None
        """Which one it is, by its fields."""
        self.timing_faults: tuple[str, ...] = ()
        """What of its times cannot be: `field: what is wrong`."""
        self.whole = False
        """A stream has said that it is complete, in a format that has no finish reasons."""
        self.error_type: str | None = None
        """Kind of an error the body reports although the status was 200."""
        self.received: Received | None = None
        """What was generated, where that is counted."""

    @property
    def is_complete(self) -> bool:
        """Whether it has said that it is, by a finish reason or else."""
        return bool(self.finish_reasons) or self.whole
