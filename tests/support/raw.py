"""Spans as received, in few words: a task with calls and a tool, with whatever names a test gives them."""

from __future__ import annotations

from typing import Any

from agentprof.model import RawSpan

T0 = 1_790_000_000_000_000_000
SECOND = 1_000_000_000


def raw(attributes: dict[str, Any], **fields: Any) -> RawSpan:
    """A span with these attributes."""
    return RawSpan(
        **{"trace_id": "1" * 32, "span_id": "2" * 16, "name": "n", "start_ns": 0, "end_ns": 1000, **fields},
        attributes=attributes,
    )


def task_span(trace: str, task: str, *, name: str = "answer", start: int = T0, **attributes: Any) -> RawSpan:
    """The span that starts a task, ten seconds long."""
    own = {"agentprof.task.id": task, "agentprof.task.name": name, "agentprof.task.source": "declared"}
    return RawSpan(
        trace_id=trace,
        span_id="root",
        name=name,
        start_ns=start,
        end_ns=start + 10 * SECOND,
        attributes=own | attributes,
        resource={"service.name": "worker"},
    )


def call_span(
    trace: str,
    task: str,
    span_id: str,
    *,
    at: float = 1.0,
    seconds: float = 1.0,
    start: int = T0,
    **more: Any,
) -> RawSpan:
    """A call of 1,000 tokens in and 100 out.

    Args:
        at: seconds after the start of the task.
        more: attributes; dots in names are written as double underscores.
    """
    own = {
        "agentprof.task.id": task,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.response.model": "gpt-4o-2024-08-06",
        "gen_ai.usage.input_tokens": 1000,
        "gen_ai.usage.output_tokens": 100,
    }
    begin = start + round(at * SECOND)
    return RawSpan(
        trace_id=trace,
        span_id=span_id,
        parent_id="root",
        name="chat",
        kind=3,
        start_ns=begin,
        end_ns=begin + round(seconds * SECOND),
        attributes=own | {key.replace("__", "."): value for key, value in more.items()},
        resource={"service.name": "worker"},
    )


def tool_span(
    trace: str,
    task: str,
    span_id: str,
    *,
    name: str = "search",
    at: float = 3.0,
    seconds: float = 1.0,
    start: int = T0,
    error: bool = False,
) -> RawSpan:
    """A run of a tool."""
    begin = start + round(at * SECOND)
    return RawSpan(
        trace_id=trace,
        span_id=span_id,
        parent_id="root",
        name=f"execute_tool {name}",
        start_ns=begin,
        end_ns=begin + round(seconds * SECOND),
        status=2 if error else 0,
        attributes={
            "agentprof.task.id": task,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
        },
        resource={"service.name": "worker"},
    )
