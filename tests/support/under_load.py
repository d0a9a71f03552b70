"""Senders that come again until they are told that a collector has kept what they sent, and what is then true.

Every request is sent until it is acknowledged, also when the collector is killed, restarted or full. The
ledger knows what was acknowledged; `judge` compares it with the file.
"""

from __future__ import annotations

import gzip
import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.collect_process import Ports
from support.collecting import GRPC_METHOD, JSON, PROTOBUF, TRACES

from agentprof import attributes as names
from agentprof.rollup import tasks_in
from agentprof_collector.recompute import pairs_of, recompute
from agentprof_collector.stores import Store, open_store

T0_NS = 1_790_000_000_000_000_000
_RETRY_CODES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
_AGAIN_S = 0.02
_TIMEOUT_S = 30.0


class SentTask(NamedTuple):
    """A task as it was sent: what its summary has to say if all of it was acknowledged."""

    task_id: str
    calls: int
    input_tokens: int


class Ledger:
    """What the senders were told."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.spans: set[tuple[str, str]] = set()
        """Acknowledged, by trace id and span id."""
        self.outcomes: dict[str, str] = {}
        """Acknowledged, by task."""
        self.whole: list[SentTask] = []
        """Tasks of which everything was acknowledged."""
        self.requests = 0
        self.put_off = 0
        """Answers that asked to come again."""
        self.cut_off = 0
        """Requests without an answer."""
        self.wrong: list[str] = []
        """Answers that no sender may get."""

    def note(self, what: str, detail: str = "") -> None:
        """One answer, or none."""
        with self.changed:
            if what == "wrong":
                self.wrong.append(detail)
            else:
                setattr(self, what, getattr(self, what) + 1)
            self.changed.notify_all()

    def wait_for(self, what: str, more: int, patience_s: float = 60.0) -> None:
        """Until there are so many more of it than now."""
        with self.changed:
            goal = getattr(self, what) + more
            assert self.changed.wait_for(lambda: getattr(self, what) >= goal or self.wrong, patience_s), what
            assert self.wrong == []


class Load:
    """Several senders, over HTTP and gRPC, from `start` to `finish`.

    Args:
        ports: of the collector.
        seed: of what they send.
        senders: how many.
    """

    def __init__(self, ports: Ports, seed: int, senders: int = 4) -> None:
        self.ledger = Ledger()
        self._ports = ports
        self._finishing = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(random.Random(f"{seed} {at}"), at), daemon=True)
            for at in range(senders)
        ]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Each sender ends with the task it is sending; the collector has to run."""
        self._finishing.set()
        for thread in self._threads:
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive(), "a sender is still waiting for an answer"
        assert self.ledger.wrong == []

    def _send(self, rng: random.Random, at: int) -> None:
        sender: _Http | _Grpc = (
            _Grpc(self._ports, self.ledger) if at % 2 else _Http(self._ports, self.ledger, rng)
        )
        try:
            number = 0
            while not self._finishing.is_set() and not self.ledger.wrong:
                number += 1
                self._send_task(sender, rng, f"{at}-{number}")
        except Exception as error:  # noqa: BLE001 (a thread of a test)
            self.ledger.note("wrong", repr(error))
        finally:
            sender.close()

    def _send_task(self, sender: _Http | _Grpc, rng: random.Random, name: str) -> None:
        """A task in one trace or two, its spans in any order, cut into requests, some of them sent twice."""
        task_id = f"task-{name}"
        spans, sent = _task(rng, task_id)
        rng.shuffle(spans)
        cuts = sorted(rng.sample(range(len(spans) + 1), rng.randrange(0, 3)))
        parts = [spans[a:b] for a, b in zip([0, *cuts], [*cuts, len(spans)], strict=True) if a < b]
        if rng.random() < 0.3:
            parts.append(rng.choice(parts))
        for part in parts:
            sender.send(part)
            with self.ledger.changed:
                self.ledger.spans.update((span["traceId"], span["spanId"]) for span in part)
        outcome = rng.choice(["success", "failure", *[None] * 6])
        if outcome is not None and isinstance(sender, _Http):
            sender.judge(task_id, outcome)
            with self.ledger.changed:
                self.ledger.outcomes[task_id] = outcome
        with self.ledger.changed:
            self.ledger.whole.append(sent)


class _Http:
    def __init__(self, ports: Ports, ledger: Ledger, rng: random.Random) -> None:
        self._ports, self._ledger, self._rng = ports, ledger, rng
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def send(self, spans: Sequence[dict[str, Any]]) -> None:
        headers = {"content-type": PROTOBUF}
        body = _protobuf(spans)
        if self._rng.random() < 0.3:
            headers, body = {"content-type": JSON}, _json(spans)
        if self._rng.random() < 0.5:
            headers["content-encoding"], body = "gzip", gzip.compress(body, 1)
        self._until_taken(self._ports.otlp_http, TRACES, headers, body)

    def judge(self, task_id: str, outcome: str) -> None:
        body = json.dumps({"outcome": outcome}).encode()
        path = f"/api/v1/tasks/{task_id}/outcome"
        self._until_taken(self._ports.page, path, {"content-type": JSON}, body)

    def _until_taken(self, port: int, path: str, headers: dict[str, str], body: bytes) -> None:
        while True:
            try:
                status, said = self._ask(port, path, headers, body)
            except (OSError, http.client.HTTPException):
                self._ledger.note("cut_off")
                time.sleep(_AGAIN_S)
                continue
            if status == 200:
                self._ledger.note("requests")
                return
            if status != 503:
                self._ledger.note("wrong", f"{path}: {status} {said!r}")
                raise AssertionError(status)
            self._ledger.note("put_off")
            time.sleep(_AGAIN_S)

    def _ask(self, port: int, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        connection = self._connections.setdefault(
            port, http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        )
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class _Grpc:
    def __init__(self, ports: Ports, ledger: Ledger) -> None:
        self._ledger = ledger
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 100),
        ]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{ports.otlp_grpc}", options)
        self._export = self._channel.unary_unary(GRPC_METHOD.format("trace", "Trace"))

    def send(self, spans: Sequence[dict[str, Any]]) -> None:
        body = _protobuf(spans)
        while True:
            try:
                self._export(body, timeout=_TIMEOUT_S)
            except grpc.RpcError as error:
                code = error.code()  # type: ignore[attr-defined]
                if code not in _RETRY_CODES:
                    self._ledger.note("wrong", repr(error))
                    raise
                told = "grpc-status-details-bin" in dict(error.trailing_metadata() or ())  # type: ignore[attr-defined]
                self._ledger.note("put_off" if told else "cut_off")
                time.sleep(_AGAIN_S)
                continue
            self._ledger.note("requests")
            return

    def close(self) -> None:
        self._channel.close()


def _task(rng: random.Random, task_id: str) -> tuple[list[dict[str, Any]], SentTask]:
    """The spans of a task in the form of OTLP/JSON."""
    traces = [f"{rng.getrandbits(128):032x}" for _ in range(rng.choice([1, 1, 1, 2]))]
    root = f"{rng.getrandbits(64) | 1:016x}"
    mark = {names.TASK_ID: task_id, names.TASK_NAME: "under load", names.TASK_SOURCE: "declared"}
    spans = [_span(traces[0], root, None, "task", 0, 1000, mark)]
    calls = rng.randrange(1, 8)
    tokens = 0
    for at in range(calls):
        input_tokens = rng.randrange(1, 5000)
        tokens += input_tokens
        known: dict[str, Any] = {
            names.TASK_ID: task_id,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.id": f"{rng.getrandbits(64):x}",
            "gen_ai.usage.input_tokens": input_tokens,
            "gen_ai.usage.output_tokens": 5,
        }
        trace_id = rng.choice(traces)
        parent = root if trace_id == traces[0] else None
        spans.append(
            _span(trace_id, f"{rng.getrandbits(64) | 1:016x}", parent, "chat", at * 10, at * 10 + 9, known)
        )
    return spans, SentTask(task_id, calls, tokens)


def _span(
    trace_id: str, span_id: str, parent: str | None, name: str, begin: int, end: int, known: dict[str, Any]
) -> dict[str, Any]:
    pairs = [
        {"key": key, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}
        for key, value in known.items()
    ]
    span = {
        "traceId": trace_id,
        "spanId": span_id,
        "name": name,
        "startTimeUnixNano": str(T0_NS + begin),
        "endTimeUnixNano": str(T0_NS + end),
        "attributes": pairs,
    }
    return span if parent is None else span | {"parentSpanId": parent}


def _json(spans: Sequence[dict[str, Any]]) -> bytes:
    return json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "agentprof"}, "spans": spans}]}]}
    ).encode()


def _protobuf(spans: Sequence[dict[str, Any]]) -> bytes:
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    scope.scope.name = "agentprof"
    for span in spans:
        sent = scope.spans.add(
            trace_id=bytes.fromhex(span["traceId"]),
            span_id=bytes.fromhex(span["spanId"]),
            parent_span_id=bytes.fromhex(span.get("parentSpanId", "")),
            name=span["name"],
            start_time_unix_nano=int(span["startTimeUnixNano"]),
            end_time_unix_nano=int(span["endTimeUnixNano"]),
        )
        for pair in span["attributes"]:
            value = sent.attributes.add(key=pair["key"]).value
            if "stringValue" in pair["value"]:
                value.string_value = pair["value"]["stringValue"]
            else:
                value.int_value = int(pair["value"]["intValue"])
    return message.SerializeToString()


class Verdict(NamedTuple):
    """What a file holds, beside what was acknowledged."""

    spans: int
    """Distinct ones."""
    tasks: int
    copies: int
    """Spans that are stored a second time, because their sender was not told that they had been stored."""


def judge(database: Path, ledger: Ledger) -> Verdict:
    """Nothing acknowledged is missing, nothing counts twice, and every summary is what the file adds up to.

    The collector must have ended.
    """
    with open_store(database, read_only=True) as store:
        traces = store.arrived_since(-1)
        spans = store.spans_of(traces)
        keys = {span.key for span in spans}
        lost = ledger.spans - keys
        assert not lost, f"{len(lost)} of {len(ledger.spans)} acknowledged spans are lost"
        kept = {task.task_id: task for task in store.tasks()}
        assert kept == _afresh(store, traces)
        for sent in ledger.whole:
            task = kept[sent.task_id]
            assert (task.calls, task.tokens["input"]) == (sent.calls, sent.input_tokens)
        for task_id, outcome in ledger.outcomes.items():
            assert kept[task_id].outcome == outcome
        assert set(kept) == set(tasks_in(spans))
        return Verdict(len(keys), len(kept), len(spans) - len(keys))


def _afresh(store: Store, traces: set[str]) -> dict[str, Any]:
    """The summaries of a file made anew from its spans and outcomes."""
    with open_store(None) as fresh:
        spans = store.spans_of(traces)
        fresh.add_spans(spans, pairs_of(spans))
        for fact in store.outcomes_of([task.task_id for task in store.tasks()]):
            fresh.add_outcomes([fact])
        recompute(fresh, traces)
        return {task.task_id: task for task in fresh.tasks()}
