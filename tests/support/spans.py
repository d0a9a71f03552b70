"""Spans for tests in few words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from agentprof.model import Call, Cost, Evidence, FailedAttempt, Phase, Span, TaskMark, Tool, Usage

TRACE = "0" * 31 + "1"
TASK = "t"


def span(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """A transparent span, unless `fields` say otherwise."""
    fields.setdefault("trace_id", TRACE)
    fields.setdefault("title", span_id)
    return Span(span_id=span_id, parent_id=parent, start_ns=start, end_ns=end, name=span_id, **fields)


def task(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """A span that starts a task, `t` unless `id` says otherwise."""
    mark = {
        name: fields.pop(name) for name in TaskMark.__struct_fields__ if name in fields and name != "starts"
    }
    mark = {"id": TASK, "name": span_id, **mark}
    return span(span_id, start, end, parent, kind="task", task=TaskMark(starts=True, **mark), **fields)


def call(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """A model span; fields of `Call` may stand beside fields of `Span`."""
    known = {name: fields.pop(name) for name in Call.__struct_fields__ if name in fields}
    fields.setdefault("title", known.get("model") or "m")
    return span(span_id, start, end, parent, kind="model", call=Call(**{"model": "m", **known}), **fields)


def tool(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """A tool span."""
    known = Tool(cost=fields.pop("cost", None), fingerprint=fields.pop("fingerprint", None))
    return span(span_id, start, end, parent, kind="tool", tool=known, **fields)


def step(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """A step span."""
    return span(span_id, start, end, parent, kind="step", **fields)


def http(span_id: str, start: int, end: int | None, parent: str | None = None, **fields: Any) -> Span:
    """An HTTP client span."""
    return span(span_id, start, end, parent, kind="evidence", evidence=Evidence(role="http"), **fields)


def usage(tokens_in: int | None, tokens_out: int | None, **more: Any) -> Usage:
    """Token counts of a call."""
    return Usage(input=tokens_in, output=tokens_out, **more)


def cost(amount: str | None, *unpriced: str) -> Cost:
    """A price of one class."""
    if amount is None:
        return Cost(unpriced=unpriced)
    usd = Decimal(amount)
    return Cost(amount_usd=usd, by_class_usd={"output": usd}, source="table", table="1", unpriced=unpriced)


def reported(ns: int) -> Phase:
    """A phase the server reported."""
    return Phase(ns=ns, source="reported")


def observed(ns: int) -> Phase:
    """A phase the client saw."""
    return Phase(ns=ns, source="observed")


def failed(duration_ns: int, backoff_ns: int = 0, status: str = "429") -> FailedAttempt:
    """An attempt that did not give the answer."""
    return FailedAttempt(duration_ns=duration_ns, backoff_ns=backoff_ns, status=status)
