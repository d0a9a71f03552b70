"""The form of every answer, for the document that describes the API; reports make the answers themselves."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import msgspec

from agentprof.model import EnergyWindow, Outcome
from agentprof.rollup.calls import CallRow
from agentprof.rollup.gpu_hours import GpuHourRow
from agentprof.rollup.waterfall import SpanRow
from agentprof.summary import TaskSummary, Tokens
from agentprof_collector.api.answers import ErrorAnswer
from agentprof_collector.reports.content import ContentRow
from agentprof_collector.reports.estimates import EstimateRow
from agentprof_collector.reports.parts import PartRow
from agentprof_collector.reports.rates import RateRow

SCHEMAS = "#/components/schemas/"


class Outcomes(msgspec.Struct, kw_only=True):
    """How many tasks ended how."""

    success: int
    failure: int
    unknown: int


class WallSpread(msgspec.Struct, kw_only=True):
    """Of the walls of a group, in nanoseconds; quantiles are absent where they would say nothing."""

    mean: int | None
    p50: int | None
    p95: int | None
    p99: int | None
    """From 100 tasks on."""
    n: int
    """Tasks it is made from."""


class CostSpread(msgspec.Struct, kw_only=True):
    """Of the known costs of a group, in US dollars."""

    mean: Decimal | None
    p50: Decimal | None
    p95: Decimal | None
    p99: Decimal | None
    n: int


class Interval(msgspec.Struct, kw_only=True):
    """Low as if all tasks of unknown outcome had succeeded, high as if they had failed."""

    low: Decimal
    high: Decimal


class JoulesInterval(msgspec.Struct, kw_only=True):
    """Energy in joules; of successes low as if all tasks of unknown outcome had succeeded, high as if failed."""

    low: float
    high: float


class Group(msgspec.Struct, kw_only=True):
    """Sums and spreads over tasks that have no parent among the selected."""

    key: dict[str, str | None]
    """Empty: all tasks."""
    tasks: int
    outcomes: Outcomes
    wall_ns: WallSpread
    cost_usd: CostSpread
    cost_per_success_usd: Interval | None
    cost_complete: bool
    timeline_ns: dict[str, int]
    calls: int
    attempts: int | None
    transport_retries: int | None
    errors: dict[str, int]
    tokens: Tokens
    total_cost_usd: Decimal | None
    wasted_usd: Decimal | None
    unpriced: dict[str, int]
    energy_j: JoulesInterval | None
    """The known part."""
    energy_per_success_j: JoulesInterval | None
    calls_without_energy: int | None


class ReportAnswer(msgspec.Struct, kw_only=True):
    """What every report begins with."""

    schema: int
    selection: dict[str, Any]
    """What was asked for."""


class GroupsLeftOut(msgspec.Struct, kw_only=True):
    """What is in the groups that are not in the answer."""

    tasks: int
    total_cost_usd: Decimal | None
    hint: str
    """How to see more of them."""


class TasksAnswer(ReportAnswer, kw_only=True):
    """Many tasks: one row each, latest start first, and groups of all that were selected."""

    tasks: list[TaskSummary]
    groups: list[Group]
    """Of very many those that cost most, in the order of their keys."""
    groups_left_out: GroupsLeftOut | None
    """Null: all are there."""
    next: str | None
    """The value of `after` for what follows; null at the end."""


class CallsAnswer(ReportAnswer, kw_only=True):
    """Model calls in the order they started, task by task."""

    count: int
    """Calls there are; those beyond the limit are not among `calls`."""
    calls: list[CallRow]
    next: str | None
    """The value of `after` for what follows; null at the end."""


class PartsAnswer(ReportAnswer, kw_only=True):
    """Steps, agents, tools or models, those with the most time first."""

    by: str
    count: int
    rows: list[PartRow]


class RatesAnswer(ReportAnswer, kw_only=True):
    """How fast calls were, by endpoint and by the length of their context or by how many ran at once."""

    by: str
    calls: int
    """Calls that were looked at, those of the latest tasks first."""
    calls_left_out: bool
    """There are more."""
    count: int
    rows: list[RateRow]


class EstimatesAnswer(ReportAnswer, kw_only=True):
    """What waits and whole calls were made of where no server says it, by endpoint: estimates, never measured."""

    validated: dict[str, str]
    """By `divides`: what they were compared with, and how far they were off; to be shown beside them."""
    confidence: float
    """Of the interval of a single call from `low_ns` to `high_ns`; sums add the bounds up."""
    reasons: dict[str, str]
    """In words, those of this answer."""
    count: int
    rows: list[EstimateRow]


class GpuHoursAnswer(ReportAnswer, kw_only=True):
    """Endpoints whose GPUs are paid by the hour, as `gpu_hours` in agentprof.yaml says."""

    entries: int
    """In the file of the collector; a row is of those that were called."""
    tasks: int
    """That were looked at."""
    start_ns: int | None
    """The span of time: of the selection, and where it is open of its tasks."""
    end_ns: int | None
    count: int
    rows: list[GpuHourRow]


class WaterfallAnswer(ReportAnswer, kw_only=True):
    """The runs of a task in the order of its tree; of more than the limit the longest."""

    task_id: str
    start_ns: int
    wall_ns: int
    count: int
    """Runs there are."""
    spans: list[SpanRow]


class ContentAnswer(ReportAnswer, kw_only=True):
    """What was said in a task, span by span, where the collector keeps it."""

    task_id: str
    count: int
    """Spans that have content."""
    spans: list[ContentRow]


class OutcomeBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a task ended."""

    outcome: Outcome
    score: float | None = None
    """How good it was, on a scale of your own."""


class OutcomeAnswer(msgspec.Struct, kw_only=True):
    """What was recorded."""

    schema: int
    task_id: str
    outcome: Outcome
    score: float | None = None
    """Absent where none was given."""
    recorded_ns: int


class EnergyBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Measured energy of endpoints, as `agentprof energy` sends it."""

    windows: Annotated[list[EnergyWindow], msgspec.Meta(max_length=200)]


class EnergyAnswer(msgspec.Struct, kw_only=True):
    """What was kept."""

    schema: int
    windows: int


ANSWERS: tuple[type[msgspec.Struct], ...] = (
    TaskSummary,
    TasksAnswer,
    CallsAnswer,
    PartsAnswer,
    RatesAnswer,
    EstimatesAnswer,
    GpuHoursAnswer,
    WaterfallAnswer,
    ContentAnswer,
    OutcomeBody,
    OutcomeAnswer,
    EnergyBody,
    EnergyAnswer,
    ErrorAnswer,
)


def components() -> dict[str, Any]:
    """The schemas by name, as in `components.schemas` of OpenAPI."""
    _, found = msgspec.json.schema_components(ANSWERS, ref_template=SCHEMAS + "{name}")
    whole = found["TaskSummary"]
    found["TaskRow"] = {
        "title": "TaskRow",
        "description": "A task without its profile.",
        "type": "object",
        "properties": {name: schema for name, schema in whole["properties"].items() if name != "nodes"},
        "required": [name for name in whole["required"] if name != "nodes"],
    }
    found["TasksAnswer"]["properties"]["tasks"]["items"] = {"$ref": SCHEMAS + "TaskRow"}
    return found
