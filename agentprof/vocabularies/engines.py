"""Spans that inference engines, their routers and model platforms make of the requests they serve.

One entry of `ENGINE_SPANS` for each. The same attribute means different things in different engines, so that
values are read only after the engine is known. Read in: vLLM 0.33.0 (v1/engine/output_processor.py), SGLang 0.5.23
(srt/observability/{req_time_stats,trace}.py), TensorRT-LLM (llmapi/otel_tracing.py, executor/result.py), TGI 3
(router/src/server.rs), Triton (src/tracer.cc), Dynamo (kv_router), and the span documentation of the Claude API.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from agentprof.model import EngineStage, Phase, Source
from agentprof.vocabularies import values
from agentprof.vocabularies.shape import KindRule, Vocabulary

QUEUE: Final = "gen_ai.latency.time_in_queue"
PREFILL: Final = "gen_ai.latency.time_in_model_prefill"
GENERATION: Final = "gen_ai.latency.time_in_model_decode"
FIRST_TOKEN: Final = "gen_ai.latency.time_to_first_token"
WHOLE: Final = "gen_ai.latency.e2e"

VLLM = Vocabulary(
    name="vllm",
    fields={"request_id": ("gen_ai.request.id",)},
    kind_by_presence=((PREFILL, "model"), (WHOLE, "model")),
)
SGLANG = Vocabulary(
    name="sglang",
    fields={"request_id": ("rid",)},
    kinds=(KindRule("module", {"sglang::request": "model"}),),
)


class Times(NamedTuple):
    """What the attributes of an engine's span say about its request."""

    phases: dict[str, Phase]
    queue_starts_late: bool = False
    faults: tuple[str, ...] = ()
    """Times that cannot be, by attribute."""


class EngineSpans(msgspec.Struct, frozen=True, kw_only=True):
    """How the spans of one engine are recognised and read."""

    name: str
    scopes: tuple[str, ...] = ()
    """Prefixes of the names of its instrumentation scopes."""
    marks: tuple[str, ...] = ()
    """Attributes that together only its spans have, where the scope says nothing."""
    attributes: tuple[str, ...] = ()
    """What `read` looks at, beside `marks`."""
    read: Callable[[Mapping[str, Any]], Times] | None = None
    stages: Mapping[str, EngineStage] = {}
    """Spans that are a stage of a request, by their name."""
    marked: EngineStage | None = None
    """The stage of a span with the marks."""
    whole: bool = False
    """Its outermost span lasts as long as the platform had the request: what the client waited longer is network."""


_UNITS: Final = 100
"""How many times longer than all it tells of a span may be: of other units it would be a thousand times."""
_SHORT_NS: Final = 100_000_000


def checked(times: Times, length_ns: int | None) -> Times:
    """The times without those that are no seconds, as the length of their span tells, by the same clock.

    Where they are too long the call they served tells; too short they would pass for time on the way.

    Args:
        times: As an engine's `read` gives them.
        length_ns: Of the span; None: it has not ended.
    """
    told = sum(phase.ns for phase in times.phases.values())
    if length_ns is None or not told or length_ns < max(told * _UNITS, _SHORT_NS):
        return times
    fields = " + ".join(phase.field or name for name, phase in times.phases.items())
    return Times({}, faults=(*times.faults, f"{fields}: too short for the length of the span, no seconds"))


def _vllm(found: Mapping[str, Any]) -> Times:
    """Prefill runs from the first scheduling to the first token, generation from there to the last.

    `time_in_queue` begins in the engine's core. `time_to_first_token` begins at the request's arrival, so that less
    the prefill it is the whole wait: a request that comes while the core is inside a step waits unseen.
    """
    read = _Seconds(found)
    queue, prefill, first_token = read(QUEUE), read(PREFILL), read(FIRST_TOKEN)
    if prefill is None:
        # Version 0 counts the queue from arrival, like TensorRT-LLM.
        return _from_first_token(read)
    phases = {"prefill": _joined(prefill, PREFILL)}
    late = False
    if first_token is not None and first_token >= prefill:
        phases["queue"] = _derived(first_token - prefill, f"{FIRST_TOKEN} - prefill")
    elif queue is not None:
        phases["queue"] = _joined(queue, QUEUE)
        late = True
        if first_token is not None:
            read.faults.append(f"{FIRST_TOKEN}: less than the prefill")
    if (generation := read(GENERATION)) is not None:
        phases["generation"] = _joined(generation, GENERATION)
    return Times(phases, late, tuple(read.faults))


def _tensorrt_llm(found: Mapping[str, Any]) -> Times:
    """Queue and first token both count from arrival; what lies between is prefill. -1 is "not measured"."""
    return _from_first_token(_Seconds(found, absent=-1))


def _sglang(found: Mapping[str, Any]) -> Times:
    """The root's own figures, as its API server saw them: they hold only where the stages are missing.

    Its `time_in_model_prefill` contains the queue and is not read.
    """
    read = _Seconds(found)
    first_token, generation = read(FIRST_TOKEN), read(GENERATION)
    phases = {}
    if first_token is not None:
        phases["wait"] = _joined(first_token, FIRST_TOKEN)
    if generation is not None:
        phases["generation"] = _joined(generation, GENERATION)
    return Times(phases, faults=tuple(read.faults))


def _tgi(found: Mapping[str, Any]) -> Times:
    """The queue begins after validation and tokenisation; inference is prefill and decode together, in the total."""
    phases: dict[str, Phase] = {}
    faults: list[str] = []
    for name, phase in (("queue_time", "queue"), ("total_time", "model")):
        ns = _debug_duration_ns(found.get(name))
        if ns is None:
            faults.append(f"{name}: no duration")
        else:
            phases[phase] = _joined(ns, name)
    return Times(phases, faults=tuple(faults))


_LATENCIES: Final = (QUEUE, PREFILL, GENERATION, FIRST_TOKEN, WHOLE)
_TGI: Final = ("total_time", "validation_time", "queue_time", "inference_time")

ENGINE_SPANS: Final = (
    EngineSpans(
        name="sglang",
        scopes=("sglang",),
        attributes=_LATENCIES,
        read=_sglang,
        # Slices of the threads that work on a request. With a prompt in chunks `prefill_forward` holds them all;
        # after a retraction both names come again, after the first token.
        stages={
            "tokenize": "frontend",
            "api_server_dispatch": "frontend",
            "dpc_dispatch": "frontend",
            "request_process": "frontend",
            "prefill_waiting": "queue",
            "prefill_forward": "prefill",
            "prefill_chunked_forward": "chunk",
            "chunked_prefill": "chunk",
            "decode_forward": "generation",
        },
    ),
    EngineSpans(name="vllm", scopes=("vllm.",), marks=(PREFILL, QUEUE), attributes=_LATENCIES, read=_vllm),
    EngineSpans(
        name="tensorrt_llm",
        scopes=("trt.llm",),
        marks=(QUEUE, WHOLE),
        attributes=_LATENCIES,
        read=_tensorrt_llm,
    ),
    EngineSpans(name="tgi", marks=_TGI, read=_tgi),
    # A model's span begins when the request is put into its queue, `compute` when it leaves it.
    EngineSpans(
        name="triton",
        scopes=("triton-server",),
        marks=("triton.model_name", "triton.model_version"),
        stages={"compute": "model"},
        marked="request",
    ),
    # Where a request goes: how long the router took is in no span of its own.
    EngineSpans(name="dynamo", marks=("worker_id", "overlap_blocks")),
    EngineSpans(name="claude_platform", scopes=("com.anthropic.claude-platform",), whole=True),
)

ATTRIBUTES: Final = frozenset(name for engine in ENGINE_SPANS for name in (*engine.marks, *engine.attributes))
"""All attributes that are looked at here."""


@lru_cache(maxsize=1000)
def engine_of_scope(scope: str) -> EngineSpans | None:
    """The engine whose instrumentation has this name."""
    return next(
        (engine for engine in ENGINE_SPANS if engine.scopes and scope.startswith(engine.scopes)), None
    )


def engine_of_marks(names: frozenset[str]) -> EngineSpans | None:
    """The engine whose spans have attributes of these names."""
    return next((engine for engine in ENGINE_SPANS if engine.marks and names.issuperset(engine.marks)), None)


class _Seconds:
    """Reads durations in seconds; what cannot be one is noted."""

    def __init__(self, found: Mapping[str, Any], absent: float | None = None) -> None:
        self._found = found
        self._absent = absent
        self.faults: list[str] = []

    def __call__(self, name: str) -> int | None:
        """In ns."""
        number = values.number(self._found.get(name))
        if number is None or number == self._absent:
            return None
        ns = values.seconds_as_ns(number)
        if ns is None:
            self.faults.append(f"{name}: {'negative' if number < 0 else 'too long'}")
        return ns


def _from_first_token(read: _Seconds) -> Times:
    queue, first_token, whole = read(QUEUE), read(FIRST_TOKEN), read(WHOLE)
    phases: dict[str, Phase] = {}
    if queue is not None:
        phases["queue"] = _joined(queue, QUEUE)
    if first_token is not None and queue is not None:
        if first_token < queue:
            read.faults.append(f"{FIRST_TOKEN}: less than the queue")
        else:
            phases["prefill"] = _derived(first_token - queue, f"{FIRST_TOKEN} - queue")
    elif first_token is not None:
        phases["wait"] = _joined(first_token, FIRST_TOKEN)
    if whole is not None and first_token is not None:
        if whole < first_token:
            read.faults.append(f"{WHOLE}: less than the time to the first token")
        else:
            phases["generation"] = _derived(whole - first_token, f"{WHOLE} - first token")
    return Times(phases, faults=tuple(read.faults))


def _joined(ns: int, field: str) -> Phase:
    return _phase(ns, "joined", field)


def _derived(ns: int, field: str) -> Phase:
    return _phase(ns, "derived", field)


def _phase(ns: int, source: Source, field: str) -> Phase:
    return Phase(ns=ns, source=source, field=field)


_DEBUG_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|µs|μs|us|ms|s)")
_UNIT_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def _debug_duration_ns(value: Any) -> int | None:
    """A duration as Rust prints it: `1.48s`, `45.2ms`, `130µs`."""
    found = _DEBUG_DURATION.fullmatch(value.strip()) if isinstance(value, str) and len(value) < 40 else None
    return round(float(found[1]) * _UNIT_NS[found[2]]) if found else None
