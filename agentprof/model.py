"""The values that cross a boundary: a span as received, a span as understood, and the parts of both.

Structs of msgspec rather than dataclasses: the store keeps them as JSON, and encoding and decoding
them is on the path of every span. None of them can hold itself, so the garbage collector need not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec

PhaseName = Literal["queue", "prefill", "wait", "generation", "model", "connect", "network", "client"]
"""A part of a call's last attempt; `connect` counts as network and `client` as other on a timeline.

`wait` is queue and prefill together, `model` the server's whole time where nobody says how it divides.
"""

Source = Literal["reported", "joined", "derived", "observed", "inferred", "estimated"]
"""How a number is known, strongest first."""

SOURCES: tuple[Source, ...] = ("reported", "joined", "derived", "observed", "inferred", "estimated")

SpanKind = Literal["task", "agent", "step", "tool", "model", "human", "evidence", "other"]
"""What a span stands for. `evidence` only gives its times to a call; `other` is transparent."""

EngineStage = Literal["frontend", "queue", "prefill", "chunk", "generation", "request", "model"]
"""What a span inside an engine is a stretch of: work before its queue, the queue, all of the prefill or a chunk of it,
what follows the first token; or of a server of any models the whole request and the computing in it."""

TaskSource = Literal["declared", "run", "framework", "trace"]
Outcome = Literal["success", "failure"]


EnergySource = Literal["measured", "config", "ecologits"]
"""How energy is known, strongest first: counted on the machine, by rates of agentprof.yaml, by EcoLogits' formula."""

ENERGY_SOURCES: tuple[EnergySource, ...] = ("measured", "config", "ecologits")

UNPRICED = ("no_usage", "unknown_model", "unknown_server_tool")
"""Why a call has no price, or not a whole one."""


MEDIA = ("input_audio", "input_image", "output_audio", "output_image")
"""Tokens that are sound or images, which may have prices of their own."""


NO_ID = "-"
"""Stands for a tool call without an id; such a call is known by the name of its tool."""


class RawSpan(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A span with its attributes as sent, from OTLP or from the SDK of this process."""

    trace_id: str
    """Lower-case hex as a rule; other texts are kept as they came."""
    span_id: str
    parent_id: str | None = None
    name: str = ""
    kind: int = 0
    """OTLP number: 0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer."""
    start_ns: int
    end_ns: int | None = None
    """None: the span has not ended, or its end was not sent."""
    status: int = 0
    """OTLP number: 0 unset, 1 ok, 2 error."""
    attributes: Mapping[str, Any] = {}
    attributes_count: int | None = None
    """How many there were where `attributes` are only those that `normalise` reads; None: these are all."""
    scope: str = ""
    """Name of the instrumentation scope."""
    resource: Mapping[str, Any] = {}


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Tokens of one call, normalised: input includes cache reads and writes, output includes reasoning.

    None is "not reported", never 0.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    """All cache writes, `cache_write_1h` among them."""
    cache_write_1h: int | None = None
    reasoning: int | None = None
    server_tools: dict[str, int] = {}
    """Uses of tools that ran at the provider, by kind."""
    media: dict[str, int] = {}
    """The parts of input and output that are sound or images, of `MEDIA`; nobody reports those of cached input."""
    estimated: bool = False
    billed_input: int | None = None
    """What is billed of the input where the provider says that it is not all of it; at one price, caches included."""
    billed_output: int | None = None
    total_differs: bool = False
    """The provider's own total is not the sum of its counts."""


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a call or a tool cost, how that is known, and what is missing from it."""

    amount_usd: Decimal | None = None
    """None: not priced; `unpriced` says why."""
    by_class_usd: dict[str, Decimal] = {}
    """Sums to the amount: `input` (neither read from nor written to a cache), `cache_read`, `cache_write`
    (without those kept for an hour), `cache_write_1h`, `output`, those of `MEDIA`, which are then not in input and
    output, `request` (a fee a call), `server_tools`, `self_hosted` (time of an own machine), `tool`, or `reported`
    for a total without classes."""
    source: str | None = None
    """`reported`, `table`, `config` or `given`."""
    priced_as: str | None = None
    """The entry of the price table, as `provider/model`."""
    table: str | None = None
    """Version of the price table."""
    unpriced: tuple[str, ...] = ()
    """Of `UNPRICED`."""


class Energy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The energy of one call as an interval, and how that is known.

    In whole microjoules, so that a sum does not depend on the order of its parts.
    """

    low_uj: int
    high_uj: int
    source: EnergySource
    boundary: str
    """What is in it: `gpu`, `server`, or `facility` with cooling and power distribution."""
    covers: str
    """What of the call is in it: `tokens`, `input tokens`, `output tokens`, `busy time`."""
    basis: str | None = None
    """Name and version of the rates or of the formula."""


class Phase(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A measured part of a call."""

    ns: int
    source: Source
    field: str | None = None
    """Path of the raw field it was read from."""


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One HTTP exchange that did not give the answer, and the pause after it."""

    duration_ns: int
    backoff_ns: int = 0
    status: str = ""
    """HTTP status, or `timeout`, `connection`, `cancelled`, `cut`."""


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of one model operation. Times count from the start of its span."""

    model: str | None = None
    """As answered, else as asked for."""
    request_model: str | None = None
    provider: str | None = None
    server: str | None = None
    """Address of the endpoint, `host` or `host:port`."""
    operation: str | None = None
    response_id: str | None = None
    request_id: str | None = None
    """What the server calls the exchange; on an engine's own span its name for the request."""
    usage: Usage | None = None
    cost: Cost | None = None
    """None: nobody has priced it yet."""
    reported_cost_usd: Decimal | None = None
    """What the provider or gateway says it charged."""
    energy: Energy | None = None
    """None: nobody knows."""
    finish_reasons: tuple[str, ...] = ()
    tool_calls: tuple[str, ...] = ()
    """Names of the tools the answer asks for."""
    tool_call_ids: tuple[str, ...] = ()
    """Of each of them the hash of its id, or `NO_ID`; empty: none has one."""
    tool_result_ids: tuple[str, ...] = ()
    """Hashes of the ids whose results the request carries since the last answer; `=name` of a result without id."""
    stream: bool | None = None
    stream_end: str | None = None
    service_tier: str | None = None
    attempts: int | None = None
    failed_attempts: tuple[FailedAttempt, ...] = ()
    first_token_ns: int | None = None
    first_content_ns: int | None = None
    phases: dict[str, Phase] = {}
    """Measured parts by phase name; what is not measured is absent."""
    queue_starts_late: bool = False
    """The engine's queue figure begins after the request's arrival, so that time before it is queueing too."""
    engine: str | None = None
    """What served the call (`vllm`, `llama.cpp`, `groq`, ...), recognised by the fields of its answer."""
    timing_faults: tuple[str, ...] = ()
    """`field: what is wrong with it`: reported times that cannot be, and are no phases."""
    inter_token_histogram: dict[int, int] = {}
    """Gaps between token chunks: bucket index -> count, upper bound 2^(index/8) ms."""
    inter_token_max_ns: int | None = None
    input_bytes: dict[str, int] = {}
    """Size of the sections of the request that it has: `system`, `tools`, `tool_results`, `user`, `assistant`."""
    tools_offered: int | None = None
    fingerprint: str | None = None
    """Hash of what was asked; alike in one task = the same."""
    prefixes: tuple[str, ...] = ()
    """`items:hash`: the same of the request up to some items of its conversation."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is known of one tool run."""

    call_id: str | None = None
    cost: Cost | None = None
    fingerprint: str | None = None
    """Hash of the arguments; alike in one task = the same."""
    mcp: bool = False
    """Its span tells of a message to an MCP server, sent or received: one run has several."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a span that is neither call, tool nor step knows about the call above it."""

    role: Literal["phase", "attempt", "http", "engine"]
    phases: dict[str, Phase] = {}
    queue_starts_late: bool = False
    stage: EngineStage | None = None
    """The span itself is this stretch of a request."""
    timing_faults: tuple[str, ...] = ()


class TaskMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a span says about its task. Only the span that starts the task has more than the id."""

    id: str
    starts: bool = False
    name: str | None = None
    parent_id: str | None = None
    outcome: Outcome | None = None
    score: float | None = None
    source: TaskSource = "declared"
    labels: dict[str, str] = {}
    spans: int | None = None
    """Spans of the task that had ended in its process before it."""
    cut: int = 0
    """Of a run: processes that ended without handing over what they had last."""


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A span as understood, whatever vocabulary it came in."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    start_ns: int
    end_ns: int | None = None
    kind: SpanKind = "other"
    title: str = ""
    """Its name in the profile: of the model, tool, agent, step or task."""
    error: bool = False
    error_type: str | None = None
    scope: str = ""
    service: str | None = None
    attributes_count: int = 0
    task: TaskMark | None = None
    call: Call | None = None
    tool: Tool | None = None
    evidence: Evidence | None = None
    server_side: bool = False
    """Made by an engine, proxy or platform that served the call: evidence where a model span stands above."""
    engine: str | None = None
    """Of a span of an engine, router or platform that is known: which."""
    whole: bool = False
    """It lasts as long as the platform had the request."""
    run: dict[str, str] = {}
    """Of the resource: git commit, host, Python and SDK versions of the run."""
    content: dict[str, str] = {}
    """What was said, by the attribute it stood in: of other tools' spans, where a user has it kept."""

    @property
    def key(self) -> tuple[str, str]:
        """The identity of a span: (trace id, span id)."""
        return (self.trace_id, self.span_id)


class OutcomeFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An outcome recorded after the task's spans; of several the one recorded last holds."""

    task_id: str
    outcome: Outcome
    score: float | None = None
    recorded_ns: int
    """Wall clock of the recording, ns since the epoch."""


class EnergyWindow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the accelerators of an endpoint took in a stretch of time, and how many requests it worked on meanwhile."""

    server: str
    """The endpoint as calls name it, `host` or `host:port`."""
    node: str
    """The machine it was measured on; of several machines of one endpoint each has windows of its own."""
    start_ns: int
    """Wall clock of the machine, ns since the epoch."""
    end_ns: int
    energy_uj: int
    """Microjoules of all accelerators together."""
    running_low: int
    """The fewest requests that were seen running, by the engine's own count."""
    running_high: int
    tokens: int | None = None
    """Prompt and generated tokens of all requests, where the engine counts them step by step."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a summary needs beside spans."""

    outcomes: tuple[OutcomeFact, ...] = ()
    windows: tuple[EnergyWindow, ...] = ()
    """Measured energy of the endpoints that the task called; others are ignored."""
