"""What a user knows of energy and of machines by the hour: two lists of agentprof.yaml."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec

Boundary = Literal["gpu", "server", "facility"]
"""What a figure of energy includes: the accelerators only, the whole server, or also its share of cooling and
power distribution."""


class Range(msgspec.Struct, frozen=True):
    """A figure known as an interval; a single figure has two equal bounds."""

    low: Decimal
    high: Decimal

    def __post_init__(self) -> None:
        if self.low > self.high:
            msg = f"expected the smaller number first, got [{self.low}, {self.high}]"
            raise ValueError(msg)


class EnergyRate(msgspec.Struct, frozen=True, kw_only=True):
    """Energy of calls, by token or by the second; of the entries that match the first holds."""

    provider: str = "*"
    """Pattern with `*` and `?`, in any case, for the provider."""
    model: str = "*"
    """Pattern for the model."""
    server: str = "*"
    """Pattern for the address of the endpoint, `host` or `host:port`."""
    boundary: Boundary
    j_per_input_token: Range | None = None
    """Joules per token of input that was not read from a cache."""
    j_per_cached_token: Range | None = None
    """Per token of input read from a cache. None: anything from 0 to the rate of input."""
    j_per_output_token: Range | None = None
    """Per generated token, reasoning included."""
    busy_watts: Range | None = None
    """Watts for every second in which a call is worked on: of a machine that serves several calls at once, what
    one of them draws."""

    def __post_init__(self) -> None:
        by_token = (self.j_per_input_token, self.j_per_cached_token, self.j_per_output_token)
        if self.busy_watts is not None and any(rate is not None for rate in by_token):
            msg = "an entry has rates per token or `busy_watts`, not both"
            raise ValueError(msg)
        if self.busy_watts is None and self.j_per_input_token is None and self.j_per_output_token is None:
            msg = "an entry needs `j_per_output_token`, `j_per_input_token` or `busy_watts`"
            raise ValueError(msg)
        if self.j_per_cached_token is not None and self.j_per_input_token is None:
            msg = "`j_per_cached_token` needs `j_per_input_token` beside it"
            raise ValueError(msg)
        if self.provider == self.model == self.server == "*":
            msg = "an entry needs `provider`, `model` or `server`"
            raise ValueError(msg)


class GpuHours(msgspec.Struct, frozen=True, kw_only=True):
    """What the GPUs of an endpoint cost by the hour, busy or idle: for the report over many tasks."""

    server: str = "*"
    """Pattern for the address of the endpoint, `host` or `host:port`."""
    model: str = "*"
    """Pattern for the model."""
    gpu_hour_usd: Decimal
    gpus: Annotated[int, msgspec.Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        if self.server == self.model == "*":
            msg = "an entry needs `server` or `model`"
            raise ValueError(msg)
