"""Spans of each vocabulary, as understood."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support.raw import raw

from agentprof import attributes as a
from agentprof.model import Phase, Usage
from agentprof.vocabularies import normalise


def usage_of(attributes: dict[str, Any]) -> Usage | None:
    """The tokens of a call with these attributes."""
    found = normalise(raw({"gen_ai.operation.name": "chat", **attributes}))
    assert found.call is not None
    return found.call.usage


USAGE = Usage(input=100, output=20, cache_read=30, cache_write=5, reasoning=7)
GENERATIONS: dict[str, dict[str, Any]] = {
    "v0.1.0": {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_write.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 7,
    },
    "1.37 to 1.41": {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 30,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 7,
    },
    "OpenInference": {
        "llm.token_count.prompt": 100,
        "llm.token_count.completion": 20,
        "llm.token_count.prompt_details.cache_read": 30,
        "llm.token_count.prompt_details.cache_write": 5,
        "llm.token_count.completion_details.reasoning": 7,
    },
    "OpenLLMetry": {
        "llm.usage.prompt_tokens": 100,
        "llm.usage.completion_tokens": 20,
        "gen_ai.usage.cache_read_input_tokens": 30,
        "gen_ai.usage.cache_creation_input_tokens": 5,
        "gen_ai.usage.reasoning_tokens": 7,
    },
}


@pytest.mark.parametrize("attributes", GENERATIONS.values(), ids=GENERATIONS.keys())
@pytest.mark.parametrize(
    "spelled",
    [int, float, str, lambda n: f'{{"intValue": "{n}"}}'],
    ids=["int", "double", "text", "wrapped"],
)
def test_tokens_of_every_vocabulary_and_spelling(attributes: dict[str, Any], spelled: Any) -> None:
    """The same call in another vocabulary is the same call."""
    assert usage_of({name: spelled(value) for name, value in attributes.items()}) == USAGE


def test_tokens_of_the_oldest_generation() -> None:
    """Up to 1.36: `gen_ai.system` and prompt and completion tokens."""
    found = normalise(
        raw({"gen_ai.system": "vertex_ai", "gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": 3})
    )
    assert found.call is not None
    assert (found.kind, found.call.provider) == ("model", "gcp.vertex_ai")
    assert found.call.usage == Usage(input=3)


def test_an_input_smaller_than_its_cached_part_excludes_it() -> None:
    """The input is made whole; a part cannot be larger than the whole."""
    assert usage_of(
        {"gen_ai.usage.input_tokens": 3, "gen_ai.usage.cache_read.input_tokens": 13_216}
    ) == Usage(input=13_219, cache_read=13_216)


@pytest.mark.parametrize("value", [-1, "many", float("nan"), float("inf"), True, None, [1], 1.5, "", 10**30])
def test_a_count_that_is_none_is_absent(value: Any) -> None:
    """Never 0, never an error."""
    assert usage_of({"gen_ai.usage.input_tokens": value}) is None


KINDS: list[tuple[dict[str, Any], str, str]] = [
    ({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, "model", "m"),
    ({"gen_ai.operation.name": "embeddings", "gen_ai.response.model": "e"}, "model", "e"),
    ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}, "tool", "look"),
    ({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}, "agent", "shop"),
    ({"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "flow"}, "agent", "flow"),
    ({"gen_ai.operation.name": "create_agent", "gen_ai.request.model": "m"}, "step", "n"),
    ({"gen_ai.operation.name": "retrieval"}, "step", "n"),
    ({"gen_ai.operation.name": "fetch_response", "gen_ai.request.model": "m"}, "step", "n"),
    ({"mcp.method.name": "tools/call", "gen_ai.tool.name": "look"}, "tool", "look"),
    ({"openinference.span.kind": "LLM", "llm.model_name": "m"}, "model", "m"),
    ({"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e"}, "model", "e"),
    ({"openinference.span.kind": "TOOL", "tool.name": "look"}, "tool", "look"),
    ({"openinference.span.kind": "AGENT"}, "agent", "n"),
    ({"openinference.span.kind": "CHAIN"}, "step", "n"),
    ({"traceloop.span.kind": "workflow", "traceloop.entity.name": "flow"}, "agent", "flow"),
    ({"traceloop.span.kind": "task", "traceloop.entity.name": "part"}, "step", "part"),
    ({"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}, "tool", "look"),
    ({"llm.request.type": "chat", "gen_ai.request.model": "m"}, "model", "m"),
    ({"gen_ai.request.model": "m"}, "model", "m"),
    ({"gen_ai.tool.name": "look"}, "tool", "look"),
    ({a.STEP_NAME: "plan"}, "step", "plan"),
    ({a.HUMAN: True, a.STEP_NAME: "approve"}, "human", "approve"),
    ({a.TASK_ID: "t", a.TASK_NAME: "job"}, "task", "job"),
    ({"db.system": "postgresql"}, "other", "n"),
]


@pytest.mark.parametrize(("attributes", "kind", "title"), KINDS)
def test_kind_and_name_of_a_span(attributes: dict[str, Any], kind: str, title: str) -> None:
    """From the attribute that says it best."""
    found = normalise(raw(attributes))
    assert (found.kind, found.title) == (kind, title)


def test_http_client_spans_are_evidence_and_server_spans_are_not() -> None:
    """By kind and the attribute every HTTP instrumentation writes."""
    client = normalise(raw({"http.request.method": "POST", "http.response.status_code": 429}, kind=3))
    assert client.evidence is not None
    assert (client.kind, client.evidence.role) == ("evidence", "http")
    served = normalise(raw({"http.request.method": "POST"}, kind=2))
    assert (served.kind, served.server_side) == ("other", True)


def test_an_engine_span_of_vllm_gives_its_phases() -> None:
    """First token less prefill is the whole wait, of which the reported queue is a part."""
    found = normalise(
        raw(
            {
                "gen_ai.latency.time_in_queue": 0.01,
                "gen_ai.latency.time_to_first_token": 0.5,
                "gen_ai.latency.time_in_model_prefill": 0.2,
                "gen_ai.latency.time_in_model_decode": 0.4,
                "gen_ai.usage.prompt_tokens": 9,
            },
            scope="vllm.tracing.otel",
            kind=2,
        )
    )
    assert found.call is not None
    assert (found.kind, found.server_side) == ("model", True)
    assert {name: (phase.ns, phase.source) for name, phase in found.call.phases.items()} == {
        "queue": (300_000_000, "derived"),
        "prefill": (200_000_000, "joined"),
        "generation": (400_000_000, "joined"),
    }


def test_what_agentprof_writes_is_read_back() -> None:
    """Task marks, labels, phases, attempts, first tokens, cost."""
    found = normalise(
        raw(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                a.TASK_ID: "t",
                a.ATTEMPTS: 2,
                a.ATTEMPT_DURATION: [0.5],
                a.ATTEMPT_BACKOFF: [0.25],
                a.ATTEMPT_STATUS: ["429"],
                a.FIRST_TOKEN: 0.9,
                a.FIRST_CONTENT: 1.1,
                a.PHASE + "queue": 0.04,
                a.PHASE_SOURCE + "queue": "reported",
                a.PHASE_FIELD + "queue": "metrics.queue_time_ms",
                a.PHASE + "wait": 3.0,
                a.SERVER_TOOLS + "web_search": 2,
                a.TOOL_CALLS: ["look"],
                a.STREAM_END: "complete",
                a.INTER_TOKEN_HISTOGRAM: "3:2,8:1",
                a.COST: "0.0012",
                a.COST_SOURCE: "table",
                a.COST_CLASS + "input": "0.0002",
                a.COST_CLASS + "output": "0.0010",
                a.COST_UNPRICED: ["unknown_server_tool", "nonsense"],
            },
            scope="agentprof",
        )
    )
    call = found.call
    assert call is not None
    assert found.task is not None
    assert (found.task.id, found.task.starts) == ("t", False)
    assert (call.attempts, call.failed_attempts[0].duration_ns, call.failed_attempts[0].backoff_ns) == (
        2,
        500_000_000,
        250_000_000,
    )
    assert (call.first_token_ns, call.first_content_ns) == (900_000_000, 1_100_000_000)
    assert call.phases == {"queue": Phase(ns=40_000_000, source="reported", field="metrics.queue_time_ms")}
    assert call.queue_starts_late
    assert call.usage is not None
    assert call.usage.server_tools == {"web_search": 2}
    assert call.inter_token_histogram == {3: 2, 8: 1}
    assert call.cost is not None
    assert call.cost.amount_usd == Decimal("0.0012")
    assert call.cost.by_class_usd == {"input": Decimal("0.0002"), "output": Decimal("0.0010")}
    assert call.cost.unpriced == ("unknown_server_tool",)


def test_the_task_span_has_all_its_marks() -> None:
    """Labels by key, the outcome, the count of spans."""
    mark = normalise(
        raw(
            {
                a.TASK_ID: "t",
                a.TASK_NAME: "job",
                a.TASK_OUTCOME: "failure",
                a.TASK_SPANS: 7,
                a.TASK_SOURCE: "run",
                a.LABEL + "customer": "acme",
            }
        )
    ).task
    assert mark is not None
    assert (mark.starts, mark.name, mark.outcome, mark.spans, mark.source) == (
        True,
        "job",
        "failure",
        7,
        "run",
    )
    assert mark.labels == {"customer": "acme"}


def test_the_best_name_of_a_field_wins_in_any_order() -> None:
    """Of two names of one field that have a value the earlier in the tables holds, however they are sent."""
    names = {"gen_ai.provider.name": "openai", "gen_ai.system": "other", "gen_ai.request.model": "m"}
    for attributes in (names, dict(reversed(names.items()))):
        found = normalise(raw(attributes))
        assert found.call is not None
        assert found.call.provider == "openai"
    found = normalise(raw(names | {"gen_ai.provider.name": ""}))
    assert found.call is not None
    assert found.call.provider == "other"
