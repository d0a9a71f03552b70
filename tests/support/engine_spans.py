"""Spans of engines as they send them, and the call they serve.

The request of every engine: 8 ms of work before the queue, 50 ms in it, 150 ms of prefill, 1,270 ms of decoding.
"""

from __future__ import annotations

from typing import Any

from agentprof import attributes as a
from agentprof.model import RawSpan
from agentprof.rollup import roll_up, tasks_in
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.vocabularies import normalise

MS = 1_000_000
START = 1_790_000_000_000 * MS
TRACE = "a" * 32
SKEW = 3_600_000
"""ms by which the engine's clock is ahead of the client's: none is shared."""


def sent(name: str, begin: float, end: float | None, parent: str | None, **fields: Any) -> RawSpan:
    """A span from and to these ms; its id is its name unless `span_id` says otherwise."""
    return RawSpan(
        **{"trace_id": TRACE, "span_id": name, **fields},
        parent_id=parent,
        name=name,
        start_ns=START + round(begin * MS),
        end_ns=None if end is None else START + round(end * MS),
    )


def inside(name: str, begin: float, end: float, parent: str | None, **fields: Any) -> RawSpan:
    """The same by the engine's clock."""
    return sent(name, SKEW + begin, SKEW + end, parent, **fields)


def client(
    duration: float = 1_490, first_token: float | None = 212, parent: str | None = None, **more: Any
) -> RawSpan:
    """A call as agentprof writes it."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", a.ATTEMPTS: 1, **more}
    if first_token is not None:
        attributes[a.FIRST_TOKEN] = first_token / 1000
    return sent("call", 0, duration, parent, kind=3, scope="agentprof", attributes=attributes)


def rows(*spans: RawSpan) -> list[CallRow]:
    """The calls of the only task, whose time its summary conserves."""
    read = [normalise(span) for span in spans]
    ((task_id, own),) = tasks_in(read).items()
    summary = roll_up(task_id, own)
    assert sum(summary.timeline_ns.values()) == summary.wall_ns
    return call_rows(task_id, own)


def the_call(*spans: RawSpan) -> CallRow:
    """The only call."""
    (row,) = rows(*spans)
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row


def in_ms(row: CallRow) -> dict[str, tuple[float, str]]:
    """The phases of a call with their sources."""
    return {name: (ns / MS, row.phase_sources[name]) for name, ns in row.phases_ns.items()}


def vllm(parent: str | None, **changed: Any) -> RawSpan:
    """`llm_request` of vLLM 0.33, which misses 8 of 50 ms of queueing in `time_in_queue`."""
    attributes = {
        "gen_ai.latency.time_in_queue": 0.042,
        "gen_ai.latency.time_in_model_prefill": 0.150,
        "gen_ai.latency.time_in_model_decode": 1.270,
        "gen_ai.latency.time_in_model_inference": 1.420,
        "gen_ai.latency.time_to_first_token": 0.200,
        "gen_ai.latency.e2e": 1.478,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.usage.completion_tokens": 128,
        "gen_ai.request.id": "chatcmpl-97a83321a8b7d1a3",
        **changed,
    }
    return inside("llm_request", 3, 1_481, parent, kind=2, scope="vllm.tracing.otel", attributes=attributes)


def sglang(parent: str | None, *, unseen: float = 0, levels: int = 3) -> list[RawSpan]:
    """A request of SGLang 0.5.23, with its threads and slices; `unseen` ms pass before the scheduler takes it in."""

    def part(name: str, begin: float, end: float, parent: str, **more: Any) -> RawSpan:
        return inside(name, begin, end, parent, kind=1, scope="sglang server", **more)

    latencies = {
        "gen_ai.latency.time_to_first_token": (208 + unseen) / 1000,
        "gen_ai.latency.time_in_model_prefill": (201 + unseen) / 1000,
        "gen_ai.latency.time_in_model_decode": 1.270,
        "gen_ai.latency.e2e": (1_478 + unseen) / 1000,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.usage.completion_tokens": 128,
    }
    root = inside(
        " Req 0f3a9c1d",
        0,
        1_478 + unseen,
        parent,
        scope="sglang server",
        kind=1,
        span_id="root",
        attributes={"rid": "0f3a9c1d" * 4, "module": "sglang::request", **latencies},
    )
    if levels == 0:
        return [root]
    late = unseen
    return [
        root,
        part("tokenizer (host:1 | pid:1)", 0, 7, "root", span_id="api", attributes={"pid": 1}),
        part("tokenize", 0, 5, "api"),
        part("api_server_dispatch", 5, 7, "api"),
        part("scheduler [TP 0] (host:1 | pid:2)", 7 + late, 1_478 + late, "root", span_id="tp0"),
        part("request_process", 7 + late, 8 + late, "tp0"),
        part("prefill_waiting", 8 + late, 58 + late, "tp0"),
        part("prefill_forward", 58 + late, 208 + late, "tp0"),
        part("chunked_prefill", 58 + late, 120 + late, "prefill_forward", span_id="chunk1"),
        part("chunked_prefill", 120 + late, 208 + late, "prefill_forward", span_id="chunk2"),
        part("decode_forward", 208 + late, 1_478 + late, "tp0"),
        part("decode_loop", 208 + late, 220 + late, "decode_forward"),
    ]


def tensorrt_llm(parent: str | None, **changed: Any) -> RawSpan:
    """A request of trtllm-serve."""
    attributes = {
        "gen_ai.latency.time_in_queue": 0.050,
        "gen_ai.latency.time_to_first_token": 0.200,
        "gen_ai.latency.e2e": 1.470,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.request.id": "17",
        **changed,
    }
    return inside("llm_request", 0, 1_470, parent, kind=2, scope="trt.llm", attributes=attributes)


def claude(name: str, begin: float, end: float, parent: str, **attributes: Any) -> RawSpan:
    """A span of the platform of the Claude API."""
    return inside(
        name,
        begin,
        end,
        parent,
        kind=2,
        scope="com.anthropic.claude-platform",
        resource={"service.name": "claude-platform"},
        attributes=attributes,
    )
