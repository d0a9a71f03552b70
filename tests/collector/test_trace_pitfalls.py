"""Failures seen in comparable tools, of traces that others made: named after the rows of the catalogue."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pytest

from agentprof.pricing import Pricer
from agentprof.summary import TaskSummary
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.stores import open_store

INPUT_USD, OUTPUT_USD = Decimal("0.15") / 1_000_000, Decimal("0.60") / 1_000_000
"""Of one token of gpt-4o-mini in the table."""


def span(span_id: int, parent: int | None, start_s: int, end_s: int, **attributes: Any) -> dict[str, Any]:
    """A span in OTLP/JSON; two underscores in names of attributes are a dot."""
    begin = 1_700_000_000
    pairs = [
        {
            "key": key.replace("__", "."),
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in attributes.items()
    ]
    return {
        "traceId": "7" * 32,
        "spanId": f"{span_id:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": f"span {span_id}",
        "startTimeUnixNano": str((begin + start_s) * 10**9),
        "endTimeUnixNano": str((begin + end_s) * 10**9),
        "attributes": pairs,
    }


def summed(*spans: dict[str, Any]) -> TaskSummary:
    """The summary of the one task these spans are."""
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})
    with open_store(None) as store:
        pipeline = Pipeline(store, Pricer())
        pipeline.read(io.BytesIO(line.encode()), "trace.jsonl")
        pipeline.recompute()
        (task,) = store.tasks()
    return task


@pytest.mark.parametrize(
    ("kind", "model", "tokens_in", "tokens_out"),
    [
        (
            {"gen_ai__operation__name": "chat"},
            "gen_ai__request__model",
            "gen_ai__usage__input_tokens",
            "gen_ai__usage__output_tokens",
        ),
        (
            {"gen_ai__operation__name": "chat"},
            "gen_ai__request__model",
            "gen_ai__usage__prompt_tokens",
            "gen_ai__usage__completion_tokens",
        ),
        (
            {"openinference__span__kind": "LLM"},
            "llm__model_name",
            "llm__token_count__prompt",
            "llm__token_count__completion",
        ),
    ],
)
def test_t6_usage_counts_under_whatever_key_it_stands(
    kind: dict[str, str], model: str, tokens_in: str, tokens_out: str
) -> None:
    """A generation below an agent, in the names of three producers: the task has its tokens and its cost."""
    usage = {model: "gpt-4o-mini", tokens_in: 100, tokens_out: 6, **kind}
    task = summed(
        span(1, None, 0, 3, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="Assistant"),
        span(2, 1, 1, 2, **usage),
    )
    assert (task.calls, task.tokens["input"], task.tokens["output"]) == (1, 100, 6)
    assert (task.cost_usd, task.cost_complete) == (100 * INPUT_USD + 6 * OUTPUT_USD, True)


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT"])
def test_t8_the_usage_that_a_kickoff_repeats_is_not_added(kind: str) -> None:
    """The call below counts, once; of the span around it only the time is used."""
    repeated = {"llm__token_count__prompt": 100, "llm__token_count__completion": 6}
    task = summed(
        span(1, None, 0, 4, openinference__span__kind=kind, llm__token_count__total=106, **repeated),
        span(2, 1, 1, 3, openinference__span__kind="AGENT", **repeated),
        span(3, 2, 1, 2, openinference__span__kind="LLM", llm__model_name="gpt-4o-mini", **repeated),
    )
    assert (task.calls, task.tokens["input"], task.tokens["output"]) == (1, 100, 6)
    assert task.cost_usd == 100 * INPUT_USD + 6 * OUTPUT_USD
    assert task.wall_ns == 4 * 10**9
