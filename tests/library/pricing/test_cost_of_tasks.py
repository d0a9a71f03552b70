"""From spans as sent to the cost of their task: what is priced, and what the summary says is missing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from agentprof import attributes as a
from agentprof.config import parse_config
from agentprof.model import RawSpan
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.vocabularies import normalise

START_NS = 1_795_000_000 * 10**9
SECOND = 10**9


def a_span(number: int, attributes: dict[str, Any], *, error: bool = False) -> RawSpan:
    return RawSpan(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_id=f"{0:016x}" if number else None,
        name=f"span {number}",
        start_ns=START_NS + number * SECOND,
        end_ns=START_NS + (number + 1 if number else 100) * SECOND,
        status=2 if error else 0,
        attributes={a.TASK_ID: "t", **attributes},
    )


def a_call(number: int, provider: str, model: str, *, error: bool = False, **more: Any) -> RawSpan:
    attributes = {a.OPERATION: "chat", a.PROVIDER: provider, a.RESPONSE_MODEL: model}
    return a_span(number, attributes | more.pop("attributes", {}), error=error)


def summary_of(*raws: RawSpan, config: str = "") -> TaskSummary:
    """The summary of a task of these spans, priced as the first reader of spans does."""
    pricer = Pricer(parse_config(config))
    task = a_span(0, {a.TASK_NAME: "job"})
    tasks = tasks_in([pricer.price(normalise(raw)) for raw in (task, *raws)])
    return roll_up("t", tasks["t"])


def test_a_task_of_priced_calls_has_a_complete_cost() -> None:
    """Cache writes of both kinds, server-side tools and output add up, to the last digit."""
    claude = {
        a.INPUT_TOKENS: 5000,
        a.OUTPUT_TOKENS: 200,
        a.CACHE_READ_TOKENS: 3000,
        a.CACHE_WRITE_TOKENS: 1500,
        a.CACHE_WRITE_1H_TOKENS: 1000,
        a.SERVER_TOOLS + "web_search": 2,
    }
    found = summary_of(a_call(1, "anthropic", "claude-sonnet-4-5-20250929", attributes=claude))
    parts = {
        "input": Decimal(500) * 3 / 10**6,
        "cache_read": Decimal(3000) * Decimal("0.3") / 10**6,
        "cache_write": Decimal(500) * Decimal("3.75") / 10**6,
        "cache_write_1h": Decimal(1000) * 6 / 10**6,
        "output": Decimal(200) * 15 / 10**6,
        "server_tools": Decimal("0.02"),
    }
    assert found.cost_by_class_usd == parts
    assert found.cost_usd == sum(parts.values())
    assert found.cost_complete
    assert found.server_tools == {"web_search": 2}


def test_a_task_says_what_its_cost_leaves_out() -> None:
    """One call is priced; of the others the model, the usage, the tool's price or an attempt is not known."""
    tokens = {a.INPUT_TOKENS: 1000, a.OUTPUT_TOKENS: 0}
    timed_out = {
        a.ATTEMPTS: 2,
        a.ATTEMPT_DURATION: [0.1],
        a.ATTEMPT_BACKOFF: [0.1],
        a.ATTEMPT_STATUS: ["timeout"],
    }
    found = summary_of(
        a_call(1, "openai", "gpt-4o-mini", attributes=tokens | timed_out),
        a_call(2, "openai", "gpt-nobody-knows", attributes=tokens),
        a_call(3, "openai", "gpt-4o-mini"),
        a_call(4, "anthropic", "claude-sonnet-4-5", attributes=tokens | {a.SERVER_TOOLS + "bash": 1}),
    )
    assert found.cost_usd == Decimal("0.00015") + Decimal("0.003")
    assert not found.cost_complete
    assert found.unpriced == {
        "no_usage": 1,
        "unknown_model": 1,
        "abandoned_attempts": 1,
        "unknown_server_tool": 1,
    }


def test_a_call_that_only_timed_out_is_missing_once() -> None:
    """Its attempts are counted as abandoned; its lack of usage is the same lack."""
    attempts = {
        a.ATTEMPTS: 2,
        a.ATTEMPT_DURATION: [0.1, 0.1],
        a.ATTEMPT_BACKOFF: [0.1, 0.0],
        a.ATTEMPT_STATUS: ["timeout", "timeout"],
    }
    found = summary_of(a_call(1, "openai", "gpt-4o-mini", error=True, attributes=attempts))
    assert found.cost_usd is None
    assert not found.cost_complete
    assert found.unpriced["abandoned_attempts"] == 2
    assert found.unpriced["no_usage"] == 0


def test_a_refused_call_leaves_the_cost_complete() -> None:
    """A prompt that was too long costs nothing, whatever its size."""
    refused = {a.ATTEMPTS: 1, a.ATTEMPT_DURATION: [0.1], a.ATTEMPT_BACKOFF: [0.0], a.ATTEMPT_STATUS: ["400"]}
    found = summary_of(a_call(1, "openai", "gpt-4o-mini", error=True, attributes=refused))
    assert found.cost_usd == 0
    assert found.cost_complete


def test_tool_prices_are_part_of_the_cost() -> None:
    """A tool with a price in the configuration adds it for each run."""
    runs = [a_span(n, {a.OPERATION: "execute_tool", a.TOOL_NAME: "search_web"}) for n in (1, 2)]
    found = summary_of(*runs, config="tools: {search_*: 0.005}")
    assert found.cost_usd == found.tool_cost_usd == Decimal("0.010")
    assert found.cost_by_class_usd == {"tool": Decimal("0.010")}
