"""Real requests, and what becomes of them when something in them is changed: seeded, endless."""

from __future__ import annotations

import base64
import contextlib
import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentprof_collector.receive.exchange import Media, Request, Signal

_SPANS = 4
"""Of each real request only so many are taken: small requests are mutated where it matters."""
_ID_BYTES = {"traceId", "spanId", "parentSpanId"}
_MESSAGES: dict[Signal, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    -(2**63),
    2**64,
    10**30,
    0.1,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "0",
    "-5",
    "NaN",
    "Infinity",
    "9" * 400,
    "1e5",
    "\x00",
    "\u202e\x1b[2J",
    "😀" * 100,
    "<script>alert(1)</script>",
    "'; DROP TABLE spans; --",
    "../../../../etc/passwd",
    "a" * 5000,
    "0" * 32,
    [],
    {},
    [[[[]]]],
    {"stringValue": "x"},
    {"intValue": "x"},
    {"arrayValue": {"values": [{}]}},
    {"kvlistValue": {"values": [{"key": "a"}]}},
    {"bytesValue": "!"},
)
_INTERESTING = (
    b"",
    b"\x00",
    b"\xff",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 12,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x0b",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"[" * 200,
    b'{"a":' * 200,
    b'"\\ud800"',
    b"1e999",
    b"-",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
)


class Seeds(NamedTuple):
    """Real requests as trees of OTLP/JSON."""

    trees: dict[Signal, list[Any]]


def seeds(shared: Path | None) -> Seeds:
    """Requests made here and, where they are, recorded ones."""
    traces = [_own_traces()]
    for file in sorted(shared.glob("data/traces/otlp/*/*.jsonl")) if shared else ():
        with file.open(encoding="utf8") as lines:
            traces.append(_cut(json.loads(next(lines))))
    return Seeds({"traces": traces, "logs": [_own_logs()], "metrics": [_own_metrics()]})


class Mutator:
    """Makes requests from seeds.

    Args:
        seeds: what they are made from.
        rng: decides everything.
    """

    def __init__(self, seeds: Seeds, rng: random.Random) -> None:
        self._rng = rng
        self._texts = {signal: [json.dumps(tree) for tree in trees] for signal, trees in seeds.trees.items()}
        self._messages = {
            signal: [_message(signal, tree) for tree in trees] for signal, trees in seeds.trees.items()
        }

    def request(self, media: Media | None = None) -> Request:
        """A request of any signal, changed in some places."""
        rng = self._rng
        signal: Signal = rng.choices(("traces", "logs", "metrics"), (8, 2, 1))[0]
        media = media or rng.choice(("protobuf", "json"))
        body = self._json(signal) if media == "json" else self._protobuf(signal)
        for _ in range(rng.choice((0, 0, 0, 0, 1, 2))):
            body = self.bytes(body)
        encoding = ""
        if rng.random() < 0.3:
            encoding, body = "gzip", gzip.compress(body, 1)
            if rng.random() < 0.3:
                body = self.bytes(body)
        return Request(signal, media, encoding, body)

    def bytes(self, body: bytes) -> bytes:
        """The same with one change that knows nothing of what the bytes mean."""
        rng = self._rng
        at = rng.randrange(len(body) + 1)
        end = min(len(body), at + rng.choice((1, 1, 2, 4, 8, 64)))
        changes: tuple[Callable[[], bytes], ...] = (
            lambda: body[:at],
            lambda: body[:at] + body[end:],
            lambda: body[:at] + rng.randbytes(end - at) + body[end:],
            lambda: body[:at] + bytes(byte ^ (1 << rng.randrange(8)) for byte in body[at:end]) + body[end:],
            lambda: body[:at] + rng.choice(_INTERESTING) + body[at:],
            lambda: body[:at] + rng.choice(_INTERESTING) + body[end:],
            lambda: body[:end] + body[at:],
            lambda: body[:at] + body[at:end] * rng.choice((2, 3, 50)) + body[end:],
        )
        return rng.choice(changes)()

    def text(self) -> str:
        """A short text that somebody may send."""
        value = self._rng.choice(NASTY)
        return value if isinstance(value, str) else json.dumps(value)

    def _json(self, signal: Signal) -> bytes:
        tree = json.loads(self._rng.choice(self._texts[signal]))
        # Found once: what was changed since may have taken some of them with it.
        places = list(_places(tree))
        for _ in range(self._rng.choice((0, 1, 1, 2, 4))):
            with contextlib.suppress(LookupError):
                self._change(places)
        return json.dumps(tree, ensure_ascii=self._rng.random() < 0.5).encode("utf-8", "surrogatepass")

    def _change(self, places: list[tuple[Any, Any]]) -> None:
        rng = self._rng
        holder, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(rng.choice(NASTY))
        elif kind < 0.7:
            del holder[key]
        elif kind < 0.8 and isinstance(holder, dict):
            holder[rng.choice(("", "x", str(key) + "s", str(key).upper()))] = holder.pop(key)
        elif kind < 0.9 and isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 3, 30))))
        else:
            other_holder, other_key = rng.choice(places)
            holder[key] = copy.deepcopy(other_holder[other_key])

    def _protobuf(self, signal: Signal) -> bytes:
        rng = self._rng
        kept = rng.choice(self._messages[signal])
        if rng.random() < 0.5:
            return kept.SerializeToString()
        message = type(kept)()
        message.CopyFrom(kept)
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change_field(message, rng)
        return message.SerializeToString()


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in a tree, as the dict or list it is in and its key there."""
    todo = [tree] if isinstance(tree, (dict, list)) else []
    while todo:
        holder = todo.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, value in items:
            yield holder, key
            if isinstance(value, (dict, list)):
                todo.append(value)


def _change_field(message: Any, rng: random.Random) -> None:
    """One field somewhere in a message gets another value of its type."""
    while True:
        fields = message.ListFields()
        if not fields:
            return
        field, value = rng.choice(fields)
        is_message = field.message_type is not None
        if field.is_repeated:
            if not is_message or not value:
                return
            if rng.random() < 0.2:
                value.add().CopyFrom(rng.choice(list(value)))
                return
            message = rng.choice(list(value))
        elif is_message:
            message = value
        else:
            setattr(message, field.name, _other(field, value, rng))
            return


def _other(field: Any, value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, bytes):
        return rng.choice((b"", b"\0" * 16, b"\0" * 8, value[:3], value * 5, rng.randbytes(16)))
    if isinstance(value, str):
        return rng.choice([nasty for nasty in NASTY if isinstance(nasty, str)])
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan")))
    unsigned = field.type in (field.TYPE_FIXED64, field.TYPE_UINT64, field.TYPE_UINT32, field.TYPE_FIXED32)
    is_long = field.type in (field.TYPE_FIXED64, field.TYPE_UINT64, field.TYPE_INT64, field.TYPE_SFIXED64)
    bits = (64 if is_long else 32) - (0 if unsigned else 1)
    low = 0 if unsigned else -(2**bits)
    return rng.choice((0, 1, low, 2**bits - 1, 2**bits // 2, rng.randrange(2**bits)))


def _cut(tree: Any) -> Any:
    for resource in tree["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            del scope["spans"][_SPANS:]
            for span in scope["spans"]:
                for pair in span.get("attributes", ()):
                    value = pair["value"]
                    if "stringValue" in value:
                        value["stringValue"] = value["stringValue"][:200]
        del resource["scopeSpans"][_SPANS:]
    del tree["resourceSpans"][2:]
    return tree


def _message(signal: Signal, tree: Any) -> Message:
    """The same request in protobuf; ids are base64 in what protobuf takes for JSON."""
    tree = copy.deepcopy(tree)
    for holder, key in list(_places(tree)):
        if key in _ID_BYTES:
            holder[key] = base64.b64encode(bytes.fromhex(holder[key])).decode()
    return json_format.ParseDict(tree, _MESSAGES[signal](), ignore_unknown_fields=True)


def _pairs(**known: Any) -> list[dict[str, Any]]:
    names = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    return [
        {"key": key.replace("__", "."), "value": {names[type(value)]: value}} for key, value in known.items()
    ]


def _own_traces() -> Any:
    """A task with a call that was tried twice, a tool and a step."""
    trace, task = "5b8efff798038103d269b633813fc60c", "4711"
    begin = 1_790_000_000_000_000_000
    mark = {"agentprof__task__id": task}
    known: list[tuple[str, dict[str, Any]]] = [
        (
            "task",
            {"agentprof__task__name": "n", "agentprof__task__source": "declared", "agentprof__label__k": "v"},
        ),
        (
            "chat m",
            {
                "gen_ai__operation__name": "chat",
                "gen_ai__provider__name": "openai",
                "gen_ai__request__model": "gpt-4o-mini",
                "gen_ai__response__id": "r1",
                "gen_ai__usage__input_tokens": 1000,
                "gen_ai__usage__output_tokens": 50,
                "agentprof__attempts": 2,
                "agentprof__first_token": 0.5,
                "agentprof__phase__generation": 1.5,
                "agentprof__phase_source__generation": "observed",
                "agentprof__cost__usd": "0.00018",
                "agentprof__inter_token__histogram": "3:5,7:1",
            },
        ),
        ("execute_tool t", {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "t"}),
        ("step", {"agentprof__step__name": "s", "agentprof__human": True}),
    ]
    spans: list[dict[str, Any]] = [
        {
            "traceId": trace,
            "spanId": f"{at + 1:016x}",
            **({"parentSpanId": f"{1:016x}"} if at else {}),
            "name": name,
            "kind": 3 if at == 1 else 1,
            "startTimeUnixNano": str(begin + at * 10**9),
            "endTimeUnixNano": str(begin + at * 10**9 + 2 * 10**9),
            "attributes": _pairs(**mark, **attributes),
            "status": {"code": at % 3},
        }
        for at, (name, attributes) in enumerate(known)
    ]
    for key, values in (("agentprof.attempt.duration", [0.5]), ("agentprof.attempt.backoff", [0.1])):
        array = {"arrayValue": {"values": [{"doubleValue": value} for value in values]}}
        spans[1]["attributes"].append({"key": key, "value": array})
    scope = {"scope": {"name": "agentprof", "version": "1"}, "spans": spans}
    resource = {"attributes": _pairs(service__name="agent", process__pid=7)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _own_logs() -> Any:
    evaluated = {
        "timeUnixNano": "1790000000000000000",
        "eventName": "gen_ai.evaluation.result",
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": f"{1:016x}",
        "severityNumber": 9,
        "body": {"stringValue": "b"},
        "attributes": [
            {"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "pass"}},
            {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.5}},
        ],
    }
    named = evaluated | {"attributes": [*evaluated["attributes"], *_pairs(agentprof__task__id="4711")]}  # type: ignore[misc]
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [evaluated, named]}]}]}


def _own_metrics() -> Any:
    point = {"timeUnixNano": "1790000000000000000", "asInt": "5", "attributes": _pairs(a="b")}
    buckets = {"timeUnixNano": "1790000000000000000", "count": "3", "sum": 1.5, "bucketCounts": ["1", "2"]}
    metrics = [
        {"name": "g", "unit": "1", "gauge": {"dataPoints": [point]}},
        {"name": "s", "sum": {"dataPoints": [point], "aggregationTemporality": 2, "isMonotonic": True}},
        {"name": "h", "histogram": {"dataPoints": [buckets], "aggregationTemporality": 2}},
    ]
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}
