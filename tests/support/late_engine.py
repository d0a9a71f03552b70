"""A call as agentprof sends it, and what its engine says of it later, as export requests in JSON."""

from __future__ import annotations

import json
from typing import Any

from agentprof import attributes as a

CLIENT, ENGINE = "c" * 32, "e" * 32
ROOT, CALL, SERVED = "1" * 16, "2" * 16, "3" * 16
T0 = 1_790_000_000_000_000_000
MS = 1_000_000
ID = "chatcmpl-97a83321a8b7d1a3"

# A call of 1,490 ms with its first token at 212 ms; vLLM's span says 200 ms to the first token, 150 of them prefill.
JOINED = [
    ("network", 12, "derived"),
    ("queue", 50, "derived"),
    ("prefill", 150, "joined"),
    ("generation", 1_278, "observed"),
]


def sent(trace: str, span: str, parent: str, ms: tuple[int, int], scope: str, **attributes: Any) -> bytes:
    """An export request with one span."""
    pairs = [
        {"key": key.replace("__", "."), "value": {_kind(value): value}} for key, value in attributes.items()
    ]
    made = {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "name": scope,
        "startTimeUnixNano": T0 + ms[0] * MS,
        "endTimeUnixNano": T0 + ms[1] * MS,
        "attributes": pairs,
    }
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [made]}]}]}
    ).encode()


def _kind(value: object) -> str:
    return "stringValue" if isinstance(value, str) else "doubleValue"


def the_client(trace: str = CLIENT, task: str = "t") -> list[bytes]:
    """A task with one call, as agentprof sends them."""
    named = {a.TASK_ID: task}
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        a.RESPONSE_ID: ID,
        a.FIRST_TOKEN: 0.212,
        **named,
    }
    return [
        sent(trace, CALL, ROOT, (0, 1_490), "agentprof", **call),
        sent(trace, ROOT, "", (0, 1_500), "agentprof", **named, **{a.TASK_NAME: "task"}),
    ]


def the_engine(trace: str, parent: str) -> bytes:
    """What vLLM says of it, by a clock of its own."""
    return sent(
        trace,
        SERVED,
        parent,
        (90_000, 91_478),
        "vllm.tracing.otel",
        gen_ai__request__id=ID,
        gen_ai__latency__time_in_queue=0.04,
        gen_ai__latency__time_in_model_prefill=0.15,
        gen_ai__latency__time_in_model_decode=1.27,
        gen_ai__latency__time_to_first_token=0.2,
        gen_ai__latency__e2e=1.478,
    )
