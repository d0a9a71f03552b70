"""Spans of Langfuse's SDKs, of Vercel's AI SDK and of RAAF, as they send them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from agentprof.model import RawSpan, Span, Usage
from agentprof.pricing import Pricer
from agentprof.rollup import roll_up, tasks_in
from agentprof.summary import TaskSummary
from agentprof.vocabularies import normalise
from agentprof.vocabularies.langfuse import cost_in, usage_in

SECOND = 10**9


def read(span_id: str, parent: str | None = None, start: int = 0, end: int = 10, **attributes: Any) -> Span:
    """A span understood; seconds, and names with dots as double underscores."""
    return normalise(
        RawSpan(
            trace_id="a" * 32,
            span_id=span_id,
            parent_id=parent,
            name=span_id,
            start_ns=start * SECOND,
            end_ns=end * SECOND,
            attributes={name.replace("__", "."): value for name, value in attributes.items()},
        )
    )


def summary_of(*spans: Span) -> TaskSummary:
    """Of the task their trace is."""
    ((task, members),) = tasks_in(list(spans)).items()
    return roll_up(task, members)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param({"input": 10, "output": 5, "total": 15}, {"input": 10, "output": 5}, id="plain"),
        pytest.param(
            {"input": 10, "input_cached_tokens": 90, "output": 5, "output_reasoning": 7, "total": 112},
            {"input": 100, "output": 12, "cache_read": 90, "reasoning": 7},
            id="parts beside each other",
        ),
        pytest.param(
            {"input": 100, "input_cached_tokens": 90, "output": 12, "output_reasoning": 7, "total": 112},
            {"input": 100, "output": 12, "cache_read": 90, "reasoning": 7},
            id="parts in the whole, as the total says",
        ),
        pytest.param(
            {"input": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 10, "output": 4},
            {"input": 33, "output": 4, "cache_read": 20, "cache_write": 10},
            id="names of Anthropic",
        ),
        pytest.param({"input": 1195, "total": 1195}, {"input": 1195}, id="no output is unknown"),
        pytest.param({"total": 9}, {}, id="a total alone says nothing"),
        pytest.param({"input": "x", "output": -1, "seconds": 4}, {}, id="what is no count"),
    ],
)
def test_usage_of_langfuse(counts: dict[str, Any], expected: dict[str, int]) -> None:
    """One attribute holds all counts, under keys of anybody's choice."""
    assert usage_in(json.dumps(counts)) == expected


@pytest.mark.parametrize("value", ["", "{", "[1]", "7", None, 3, "[" * 100_000])
def test_what_is_no_object(value: Any) -> None:
    """Nothing, and no error."""
    assert usage_in(value) == {}
    assert cost_in(value) is None


def test_cost_of_langfuse() -> None:
    """The total, else the sum of the parts, to the last digit."""
    assert cost_in('{"input": 0.0002352, "output": 0.0002538, "total": 0.000489}') == Decimal("0.000489")
    assert cost_in('{"input": 0.0002352, "output": 0.0002538}') == Decimal("0.0004890")


def test_a_trace_of_langfuse() -> None:
    """A generation is a call, a tool a tool; a span without other names is a step, with another one that."""
    usage = '{"input": 10, "output": 5, "total": 15}'
    generation = {
        "langfuse__observation__type": "generation",
        "langfuse__observation__model__name": "gpt-4o",
        "langfuse__observation__usage_details": usage,
        "langfuse__observation__cost_details": '{"total": 0.5}',
    }
    span = {"langfuse__observation__type": "span"}
    spans = [
        read("agent", langfuse__observation__type="agent", langfuse__observation__usage_details=usage),
        read("retrieve", "agent", 0, 1, **span),
        read("generate", "agent", 1, 4, **generation),
        read("search", "agent", 4, 6, langfuse__observation__type="tool"),
        read("add", "agent", 6, 7, **span, gen_ai__tool__name="adder"),
    ]
    assert [one.kind for one in spans] == ["agent", "step", "model", "tool", "tool"]
    found = summary_of(*spans)
    assert (found.calls, found.tokens["input"], found.tokens["output"]) == (1, 10, 5)
    assert (found.cost_usd is None, sorted(found.tools)) == (
        True,
        ["adder", "search"],
    )  # nobody has priced it
    assert spans[2].call is not None
    assert (spans[2].call.model, spans[2].call.reported_cost_usd) == ("gpt-4o", Decimal("0.5"))


def test_attributes_of_its_own_hold() -> None:
    """Counts that stand in attributes of another tool on the same span are not mixed with those of the object."""
    call = read(
        "chat",
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=7,
        langfuse__observation__usage_details='{"input": 10, "output": 5}',
    ).call
    assert call is not None
    assert call.usage == Usage(input=7)


def test_a_trace_of_vercel() -> None:
    """The outer span repeats what the inner says, and counts as the agent."""
    counts = {
        "ai__usage__promptTokens": 10,
        "ai__usage__completionTokens": 5,
        "ai__usage__cachedInputTokens": 4,
    }
    found = summary_of(
        read("ai.generateText", ai__operationId="ai.generateText", **counts),
        read(
            "ai.generateText.doGenerate",
            "ai.generateText",
            0,
            4,
            ai__operationId="ai.generateText.doGenerate",
            ai__model__id="gpt-4o",
            ai__model__provider="openai.chat",
            **counts,
        ),
        read(
            "ai.toolCall",
            "ai.generateText",
            4,
            7,
            ai__operationId="ai.toolCall",
            ai__toolCall__name="weather",
        ),
    )
    assert (found.calls, list(found.models), list(found.tools)) == (1, ["gpt-4o"], ["weather"])
    assert {name: found.tokens[name] for name in ("input", "output", "cache_read")} == {
        "input": 10,
        "output": 5,
        "cache_read": 4,
    }
    assert (found.timeline_ns["model"], found.timeline_ns["tool"]) == (4 * SECOND, 3 * SECOND)


def test_providers_as_vercel_names_them_have_prices() -> None:
    """With the endpoint behind the name of the provider."""
    call = read(
        "ai.streamText.doStream",
        ai__operationId="ai.streamText.doStream",
        ai__model__id="gpt-4o",
        ai__model__provider="openai.responses",
        ai__usage__inputTokens=1000,
        ai__usage__outputTokens=0,
        start=1_795_000_000,
        end=1_795_000_001,
    )
    priced = Pricer().price(call).call
    assert priced is not None
    assert priced.cost is not None
    assert (priced.cost.amount_usd, priced.cost.priced_as) == (Decimal("0.0025"), "openai/gpt-4o")


def test_a_trace_of_raaf() -> None:
    """A call above the tool it asked for and the next call: two, and the usage of each its own."""
    llm = {"raaf__span__kind": "llm", "llm__model": "gpt-4"}
    found = summary_of(
        read("agent", raaf__span__kind="agent", agent__name="Maths"),
        read("one", "agent", 0, 9, **llm, llm__usage__prompt_tokens=90, llm__usage__completion_tokens=21),
        read("calculator", "one", 2, 8, raaf__span__kind="tool", tool__name="calculator"),
        read("two", "calculator", 4, 7, **llm, llm__usage__prompt_tokens=10, llm__usage__completion_tokens=1),
    )
    assert (found.calls, found.tokens["input"], found.tokens["output"]) == (2, 100, 22)
    assert {name: tool.runs for name, tool in found.tools.items()} == {"calculator": 1}
