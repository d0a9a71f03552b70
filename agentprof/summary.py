"""The summary of one task: the object that `agentprof report TASK --json` prints.

Fields may be added, never renamed. Absent evidence is None, never 0. Costs are Decimals here and decimal
strings in JSON; times are integer nanoseconds.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypedDict

import msgspec

from agentprof.model import EnergySource, Outcome, TaskSource
from agentprof.money import with_plain_amounts

SCHEMA = 1

TIMELINE = (
    "queue",
    "prefill",
    "wait",
    "generation",
    "model",
    "backoff",
    "failed_attempt",
    "network",
    "tool",
    "human",
    "step",
    "other",
)
"""The parts of a task's wall, in the order they are shown."""

BUSY = TIMELINE[:-1]
EVIDENCED = ("queue", "prefill", "wait", "generation", "model", "network", "tool")
"""The parts of the timeline for which a summary says how they are known."""

TOKENS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "reasoning")

Tokens = dict[str, int | None]
Joules = dict[str, float]
"""`low` and `high`."""
Quantiles = dict[str, int | None]


class Wasted(TypedDict):
    """What was billed and thrown away."""

    cost_usd: Decimal | None
    input_tokens: int | None
    output_tokens: int | None
    time_ns: int


class Rate(TypedDict):
    """Tokens per second over the calls that tell; the slowest call is `min`."""

    n: int
    min: float
    p50: float
    max: float


class NodeTotals(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one row of the profile owns itself, or with all rows below it."""

    path_ns: int
    """Time on the timeline."""
    busy_ns: int
    """Plain sum over its spans, whether or not something else ran at the same time."""
    calls: int
    tokens: Tokens
    cost_usd: Decimal | None
    cost_complete: bool = False
    """Nothing is missing from the cost, as far as the spans say that are here."""


class NodeRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of the profile: all runs with the same path of names."""

    path: list[str]
    kind: str
    """`task`, `agent`, `step`, `tool` or `model`."""
    runs: int
    errors: int
    self: NodeTotals
    total: NodeTotals
    inferred_ns: int = 0
    """Of the time of its own what is a tool's that no span tells of."""


class ToolRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All runs of one tool."""

    runs: int
    """Those that a span tells of."""
    errors: int
    busy_ns: int
    inferred_ns: int = 0
    """Of `busy_ns` what lies between an answer that asks for the tool and the request that carries its result."""
    cost_usd: Decimal | None


class ModelRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All calls of one model."""

    provider: str | None
    calls: int
    errors: int
    attempts: int | None
    tokens: Tokens
    cost_usd: Decimal | None
    first_token_ns: Quantiles | None
    output_tokens_per_s: float | None
    """Over the generation time of the calls that have both."""


class EnergyRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The calls whose energy is known in one way, of one boundary."""

    source: EnergySource
    boundary: str
    """`gpu`, `server`, or `facility` with cooling and power distribution."""
    covers: str
    """What of the calls is in it: `tokens`, `input tokens`, `output tokens`, `busy time`."""
    basis: str | None
    """Name and version of the rates or of the formula."""
    low_j: float
    high_j: float
    calls: int


class Warn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A doubt about the numbers, and how often it arose."""

    code: str
    count: int
    detail: str


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything known of one task; the meaning of each field is in `docs/summary.md`."""

    schema: int = SCHEMA
    task_id: str
    name: str
    task_source: TaskSource
    parent_task_id: str | None
    sub_tasks: int
    labels: dict[str, str]
    run: dict[str, str] | None
    services: list[str]
    trace_ids: list[str]
    weight: float
    outcome: Outcome | None
    score: float | None
    complete: bool
    start_ns: int
    end_ns: int
    wall_ns: int
    first_output_ns: int | None
    timeline_ns: dict[str, int]
    overlap_ns: dict[str, int]
    busy_ns: dict[str, int]
    evidence_ns: dict[str, dict[str, int]]
    estimates: list[dict[str, Any]]
    calls: int
    attempts: int | None
    calls_without_attempts: int
    errors: dict[str, int]
    retries: dict[str, int | None]
    repeats: dict[str, int | None]
    nodes: list[NodeRow]
    tools: dict[str, ToolRow]
    models: dict[str, ModelRow]
    tokens: Tokens
    server_tools: dict[str, int]
    calls_without_usage: int
    usage_estimated_calls: int
    cost_usd: Decimal | None
    cost_complete: bool
    cost_by_class_usd: dict[str, Decimal]
    tool_cost_usd: Decimal | None
    unpriced: dict[str, int]
    pricing: list[dict[str, str | None]]
    wasted: Wasted
    first_token_ns: Quantiles | None
    first_content_ns: Quantiles | None
    inter_token_ns: Quantiles | None
    energy_j: Joules | None
    warnings: list[Warn]
    advice: list[Warn] = []
    """What would tell more; `count` calls would have it."""
    energy: list[EnergyRow] = []
    """Sums to `energy_j`."""
    calls_without_energy: int | None = None
    """None: added up before energy was."""
    token_rates: dict[str, Rate | None] = {}
    """`prefill`: input not read from a cache; `generation`: output after the first token. What the calls got of
    their engines, beside other requests. Empty: added up before rates were."""

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON types: costs as decimal strings."""
        found: dict[str, Any] = with_plain_amounts(msgspec.to_builtins(self, builtin_types=(Decimal,)))
        return found

    def __str__(self) -> str:
        from agentprof._render import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from agentprof._render import as_html

        return as_html(self)
