"""Spans with whatever attributes and values: what cannot be is absent, what is long is cut, no content goes further."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.raw import raw

from agentprof import attributes as a
from agentprof.model import Span
from agentprof.rollup.quantiles import histogram_quantiles
from agentprof.vocabularies import VOCABULARIES, _reading, is_read, normalise


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


def test_spans_with_ever_new_attributes_are_understood_alike() -> None:
    """What is remembered of sets of attributes has a bound, and changes nothing."""
    for number in range(1_500):
        found = normalise(raw({"gen_ai.tool.name": f"t{number}", f"agentprof.label.{number}": "x"}))
        assert (found.kind, found.title) == ("tool", f"t{number}")
    assert len(_reading._readings) <= 1_000
    normalise(raw({"agentprof.label." + "x" * 20_000: "x"}))
    assert sum(map(len, max(_reading._readings, key=lambda names: sum(map(len, names))))) <= 10_000
