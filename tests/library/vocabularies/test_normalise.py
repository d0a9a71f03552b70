"""Spans of each vocabulary, as understood."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentprof import attributes as a
from agentprof.model import Phase, RawSpan, Span, Usage
from agentprof.rollup.quantiles import histogram_quantiles
from agentprof.vocabularies import VOCABULARIES, _reading, is_read, normalise


def raw(attributes: dict[str, Any], **fields: Any) -> RawSpan:
    """A span with these attributes."""
    return RawSpan(
        **{"trace_id": "1" * 32, "span_id": "2" * 16, "name": "n", "start_ns": 0, "end_ns": 1000, **fields},
        attributes=attributes,
    )


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


def test_labels_are_bounded_as_the_library_bounds_them() -> None:
    """64 of a task, with keys of 256 and values of 1,024 characters, whoever sent them."""
    sent = {f"{a.LABEL}{n:04}{'k' * 1000}": "v" * 5000 for n in range(1500)}
    mark = normalise(raw({a.TASK_ID: "t", a.TASK_NAME: "job", **sent})).task
    assert mark is not None
    assert list(mark.labels) == [f"{n:04}{'k' * 252}" for n in range(64)]
    assert set(mark.labels.values()) == {"v" * 1024}


def test_long_ids_of_tasks_stay_distinct() -> None:
    """What is cut is in a hash; the same id gives the same text, as a task and as the task above."""
    ids = ["x" * 5000 + end for end in "ab"]
    marks = [
        normalise(raw({a.TASK_ID: one, a.TASK_NAME: "job", a.TASK_PARENT_ID: other})).task
        for one, other in (ids, ids[::-1])
    ]
    first, second = marks
    assert first is not None
    assert second is not None
    assert first.id != second.id
    assert (first.id, second.id) == (second.parent_id, first.parent_id)
    assert len(first.id) == len(second.id) == 1024
    assert first.id.startswith("x" * 900)


def test_content_goes_no_further() -> None:
    """Whatever the instrumentation recorded: the span as understood holds no prompt, answer or header."""
    secrets = {
        "gen_ai.input.messages": "SECRET",
        "gen_ai.prompt.0.content": "SECRET",
        "input.value": "SECRET",
        "llm.input_messages.0.message.content": "SECRET",
        "gen_ai.headers": "SECRET",
        "traceloop.entity.input": "SECRET",
        "gen_ai.tool.call.arguments": "SECRET",
    }
    for kind in ({"gen_ai.operation.name": "chat"}, {"openinference.span.kind": "TOOL"}, {}):
        assert "SECRET" not in repr(normalise(raw({**kind, **secrets})))


@pytest.mark.parametrize(
    "amount", ["1e-50000000", "1e-300", "1e400", "9" * 100, "NaN", "-1", "free", float("inf")]
)
def test_an_amount_no_bill_can_hold_is_absent(amount: Any) -> None:
    """So that no sum or table has to print it."""
    found = normalise(raw({"openinference.span.kind": "LLM", "llm.cost.total": amount}))
    assert found.call is not None
    assert found.call.reported_cost_usd is None


@pytest.mark.parametrize("amount", ["0e-999999999", "0e999999999"])
def test_nothing_is_charged_in_few_digits(amount: str) -> None:
    """The digits of a zero would fill the memory of whoever prints them."""
    found = normalise(raw({"openinference.span.kind": "LLM", "llm.cost.total": amount}))
    assert found.call is not None
    assert format(found.call.reported_cost_usd, "f") == "0"


def test_gaps_that_no_clock_can_count() -> None:
    """A bucket whose bound would fit into no integer of 64 bits is left out."""
    written = {a.OPERATION: "chat", a.INTER_TOKEN_HISTOGRAM: "-80:1,344:2,-81:3,345:4,1000:5,x:6,7:0"}
    call = normalise(raw(written)).call
    assert call is not None
    assert call.inter_token_histogram == {-80: 1, 344: 2}
    bounds = histogram_quantiles(call.inter_token_histogram, None)
    assert bounds is not None
    assert bounds["max"] < 2**63


def test_an_error_type_is_one_word() -> None:
    """A sentence may hold content."""
    assert normalise(raw({"error.type": "openai.RateLimitError"})).error_type == "openai.RateLimitError"
    assert normalise(raw({"error.type": "429"})).error_type == "429"
    assert normalise(raw({"error.type": "invalid prompt: SECRET"})).error_type is None


def test_long_texts_are_cut() -> None:
    """At a kilobyte: names are short, what is longer is content."""
    found = normalise(
        raw({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m" * 5000}, name="n" * 5000)
    )
    assert len(found.title) == len(found.name) == 1024


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    sorted(
        {name for vocabulary in VOCABULARIES for names in vocabulary.fields.values() for name in names}
        | {rule.attribute for vocabulary in VOCABULARIES for rule in vocabulary.kinds}
        | {value for value in vars(a).values() if isinstance(value, str) and value.startswith("agentprof.")}
        | {a.PHASE + "queue", a.SERVER_TOOLS + "x", a.LABEL + "x", a.COST_CLASS + "x"}
    )
)


@given(st.dictionaries(names, anything, max_size=12), st.integers(0, 6))
def test_whatever_the_values_are_a_span_comes_out(attributes: dict[str, Any], kind: int) -> None:
    """Hostile values are absent, never an error."""
    assert isinstance(normalise(raw(attributes, kind=kind)), Span)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("[" * 20_000, id="lists too deep"),
        pytest.param('{"a":' * 20_000, id="objects too deep"),
        pytest.param("[\ud800", id="half a character in a list"),
        pytest.param("{\ud800", id="half a character in an object"),
        pytest.param(10**5000, id="more digits than are written"),
        pytest.param([10**5000], id="such digits in a list"),
    ],
)
def test_what_no_decoder_takes_is_absent(value: Any) -> None:
    """Wherever it stands, the rest of the span is understood."""
    for name in NAMES:
        for kind, attributes in (
            ("model", {a.OPERATION: "chat"}),
            ("tool", {a.OPERATION: "execute_tool"}),
            ("task", {a.TASK_ID: "t", a.TASK_NAME: "n"}),
        ):
            if name not in attributes:
                assert (name, normalise(raw({**attributes, name: value})).kind) == (name, kind)


NAMES = sorted(
    {name for table in VOCABULARIES for names in table.fields.values() for name in names}
    | {rule.attribute for table in VOCABULARIES for rule in table.kinds}
    | {name for table in VOCABULARIES for name, _ in table.kind_by_presence}
    | {value for key, value in vars(a).items() if key.isupper()}
    | {"http.method", "http.request.method", "http.status_code", "http.response.status_code"}
    | {"gen_ai.latency.time_in_queue", "gen_ai.latency.time_to_first_token", "app.detail", "input.value"}
)


@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.sampled_from(["chat", "LLM", "tool", "GET", "", "0.5", 0.25, 7, True, None, ["a"], "task-1"]),
        max_size=12,
    ),
    st.integers(0, 5),
)
def test_attributes_that_are_not_read_can_be_left_out(attributes: dict[str, Any], kind: int) -> None:
    """A span is understood alike without what `is_read` says is not looked at, if it says how many there were."""
    read = {name: value for name, value in attributes.items() if is_read(name)}
    lean = raw(read, kind=kind, attributes_count=len(attributes))
    assert normalise(lean) == normalise(raw(attributes, kind=kind))


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


def test_spans_with_ever_new_attributes_are_understood_alike() -> None:
    """What is remembered of sets of attributes has a bound, and changes nothing."""
    for number in range(1_500):
        found = normalise(raw({"gen_ai.tool.name": f"t{number}", f"agentprof.label.{number}": "x"}))
        assert (found.kind, found.title) == ("tool", f"t{number}")
    assert len(_reading._readings) <= 1_000
    normalise(raw({"agentprof.label." + "x" * 20_000: "x"}))
    assert sum(map(len, max(_reading._readings, key=lambda names: sum(map(len, names))))) <= 10_000
