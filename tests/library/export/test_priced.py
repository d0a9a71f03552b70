"""Costs on exported spans: the worker writes what `Pricer` says of the whole span, whatever way it reads it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

import agentprof
from agentprof import _guard, _runtime
from agentprof import attributes as a
from agentprof._priced import PricedSpan, cost_attributes, priced
from agentprof._prices import Prices
from agentprof._readable import to_raw
from agentprof.config import parse_config
from agentprof.model import Cost
from agentprof.pricing import Pricer
from agentprof.vocabularies import normalise

START_NS = 1_795_000_000 * 10**9
CONFIG = """
prices:
  - {provider: openai, model: own-*, input: 1.5, output: 6, reasoning: 7, server_tools: {web_search: 0.01}}
tools: {search: 0.005}
self_hosted:
  - {server: "gpu:8000", model: "llama*", usd_per_hour: 3.6}
"""
PRICER = Pricer(parse_config(CONFIG, "agentprof.yaml"))


def span(attributes: dict[str, Any], scope: str = _runtime.SCOPE, error: bool = False) -> ReadableSpan:
    return ReadableSpan(
        "chat m",
        context=SpanContext(1, 2, is_remote=False),
        attributes=attributes,
        kind=SpanKind.CLIENT,
        start_time=START_NS,
        end_time=START_NS + 2 * 10**9,
        status=Status(StatusCode.ERROR if error else StatusCode.UNSET),
        instrumentation_scope=InstrumentationScope(scope),
    )


def call(**fields: Any) -> dict[str, Any]:
    said = {
        a.OPERATION: "chat",
        a.PROVIDER: "openai",
        a.SERVER_ADDRESS: "api.openai.com",
        a.REQUEST_MODEL: "gpt-4o-mini",
        a.RESPONSE_MODEL: "gpt-4o-mini-2024-07-18",
        a.INPUT_TOKENS: 1000,
        a.OUTPUT_TOKENS: 100,
        a.ATTEMPTS: 1,
    }
    return said | {name: value for name, value in fields.items() if value is not None}


def test_a_call() -> None:
    """Amount, parts, source, entry and table version, as attributes that read back to the same cost."""
    found = priced(span(call()), PRICER)
    assert isinstance(found, PricedSpan)
    said = dict(found.attributes or {})
    for name in said.keys() & {a.COST, a.COST_CLASS + "input", a.COST_CLASS + "output"}:
        said[name] = Decimal(said[name])
    assert {name: said[name] for name in said if name not in call()} == {
        a.COST: Decimal("0.00021"),
        a.COST_CLASS + "input": Decimal("0.00015"),
        a.COST_CLASS + "output": Decimal("0.00006"),
        a.COST_SOURCE: "table",
        a.COST_PRICED_AS: "openai/gpt-4o-mini",
        a.COST_TABLE: PRICER.table_version,
    }


counts = st.one_of(st.none(), st.integers(0, 200_000))
calls = st.fixed_dictionaries(
    {
        a.OPERATION: st.sampled_from(["chat", "embeddings", "text_completion", "fetch_response", "other"]),
    },
    optional={
        a.PROVIDER: st.sampled_from(
            ["openai", "vllm", "azure.ai.openai", "az.ai.openai", "vertex_ai", "who"]
        ),
        a.SERVER_ADDRESS: st.sampled_from(["api.openai.com", "gpu"]),
        a.SERVER_PORT: st.sampled_from([8000, 443]),
        a.REQUEST_MODEL: st.sampled_from(["gpt-4o-mini", "own-model", "llama-3"]),
        a.RESPONSE_MODEL: st.sampled_from(["gpt-4o-mini-2024-07-18", "own-model", "", "llama-3", "nobody"]),
        a.INPUT_TOKENS: st.integers(-1, 200_000),
        a.OUTPUT_TOKENS: st.integers(0, 5000),
        a.CACHE_READ_TOKENS: st.integers(0, 5000),
        a.CACHE_WRITE_TOKENS: st.integers(0, 5000),
        a.CACHE_CREATION_TOKENS: st.integers(0, 5000),
        a.CACHE_WRITE_1H_TOKENS: st.integers(0, 500),
        a.REASONING_TOKENS: st.integers(0, 5000),
        a.SERVICE_TIER: st.sampled_from(["default", "flex", "priority"]),
        a.SERVER_TOOLS + "web_search": st.integers(0, 3),
        a.SERVER_TOOLS + "strange": st.integers(0, 3),
        a.ATTEMPTS: st.integers(1, 3),
        a.ATTEMPT_DURATION: st.just((0.5,)),
        a.ATTEMPT_BACKOFF: st.just((0.25,)),
        a.ATTEMPT_STATUS: st.sampled_from([("429",), ("timeout",)]),
        a.ERROR_TYPE: st.sampled_from(["RateLimitError", "APITimeoutError"]),
        a.STREAM_END: st.sampled_from(["complete", "abandoned"]),
    },
)


@given(attributes=calls, error=st.booleans(), scope=st.sampled_from([_runtime.SCOPE, "theirs"]))
def test_equals_the_pricing_of_the_whole_span(attributes: dict[str, Any], error: bool, scope: str) -> None:
    """For any call, tool or other span, the cost that is written is that of `Pricer` for the span as read."""
    ended = span(attributes, scope, error)
    whole = PRICER.price(normalise(to_raw(ended)))
    expected = whole.call.cost if whole.call is not None else None
    exported = normalise(to_raw(priced(ended, PRICER)))
    found = exported.call.cost if exported.call is not None else None
    if expected is not None and expected.amount_usd is None:
        # Without an amount only the reasons are on the wire.
        assert (found.unpriced if found is not None else ()) == expected.unpriced
    else:
        assert found == expected
    assert (exported.kind, whole.kind) == (whole.kind, exported.kind)


@pytest.mark.parametrize(
    "cost",
    [
        Cost(
            amount_usd=Decimal("0.0000000001"),
            by_class_usd={"input": Decimal("0.0000000001")},
            source="config",
        ),
        Cost(amount_usd=Decimal("1E+3"), by_class_usd={"tool": Decimal("1E+3")}, source="given"),
        Cost(amount_usd=Decimal(0)),
    ],
)
def test_amounts_are_written_in_digits(cost: Cost) -> None:
    """No exponent, nothing rounded."""
    said = cost_attributes(cost)
    assert "E" not in said[a.COST]
    assert Decimal(said[a.COST]) == cost.amount_usd


def test_what_has_a_cost_already_is_left() -> None:
    """Reported by the provider or given by the program; and what has none to be found."""
    for said in (
        call(**{a.COST: "0.5", a.COST_SOURCE: "reported"}),
        {a.OPERATION: "execute_tool", a.TOOL_NAME: "search", a.COST: "1", a.COST_SOURCE: "given"},
        {a.STEP_NAME: "step"},
        {a.TASK_ID: "t", a.TASK_NAME: "t"},
        {a.OPERATION: "execute_tool", a.TOOL_NAME: "free"},
        {},
    ):
        ended = span(said)
        assert priced(ended, PRICER) is ended


def test_a_tool_by_configuration() -> None:
    """With the price of agentprof.yaml."""
    found = priced(span({a.OPERATION: "execute_tool", a.TOOL_NAME: "search"}), PRICER)
    said = found.attributes or {}
    assert (said[a.COST], said[a.COST_SOURCE], said[a.COST_PRICED_AS]) == ("0.005", "config", "search")


def test_unknown_is_never_free() -> None:
    """A model nobody knows has a reason and no amount."""
    said = priced(span(call(**{a.RESPONSE_MODEL: "nobody-knows"})), PRICER).attributes or {}
    assert a.COST not in said
    assert said[a.COST_UNPRICED] == ["unknown_model"]


def test_everything_else_of_the_span_stays() -> None:
    """Names, times, events, links, dropped counts: an exporter cannot tell it from the span that ended."""
    ended: list[ReadableSpan] = []

    class Keep(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            ended.extend(spans)
            return SpanExportResult.SUCCESS

    from opentelemetry.sdk.trace import SpanLimits
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    limits = SpanLimits(max_events=1, max_links=1, max_span_attributes=8)
    provider = TracerProvider(shutdown_on_exit=False, span_limits=limits)
    provider.add_span_processor(SimpleSpanProcessor(Keep()))
    tracer = provider.get_tracer(_runtime.SCOPE)
    from opentelemetry.trace import Link

    links = [Link(SpanContext(3, 4, is_remote=True))] * 2
    with tracer.start_as_current_span("above"):
        made = tracer.start_span(
            "chat", kind=SpanKind.CLIENT, links=links, attributes={"dropped": 1} | call()
        )
    made.add_event("one")
    made.add_event("two")
    made.set_status(Status(StatusCode.ERROR, "text"))
    made.end()
    before = ended[-1]
    after = priced(before, PRICER)
    assert isinstance(after, PricedSpan)
    for name in (
        *(
            "name",
            "context",
            "parent",
            "resource",
            "kind",
            "status",
            "start_time",
            "end_time",
            "events",
            "links",
        ),
        *("instrumentation_scope", "dropped_attributes", "dropped_events", "dropped_links"),
    ):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.dropped_attributes, after.dropped_events, after.dropped_links) == (1, 1, 1)
    assert after.get_span_context() is before.get_span_context()
    assert dict(before.attributes or {}).items() < dict(after.attributes or {}).items()
    assert '"gen_ai.usage.input_tokens": 1000' in after.to_json()


def test_an_exporter_of_ones_own_gets_costs() -> None:
    """Through the whole library; its spans are spans of the SDK."""
    got: list[ReadableSpan] = []

    class Keep(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            got.extend(spans)
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    agentprof.instrument(tracer_provider=provider, exporter=Keep())
    try:
        provider.get_tracer(_runtime.SCOPE).start_span("chat", attributes=call()).end()
        with agentprof.tool("search", cost_usd="0.25"):
            pass
        assert agentprof.flush()
    finally:
        agentprof.uninstrument()
    assert all(isinstance(one, ReadableSpan) for one in got)
    costs = [Decimal(str((one.attributes or {})[a.COST])) for one in got]
    assert costs == [Decimal("0.00021"), Decimal("0.25")]


def test_in_haste_no_table_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the program waits for its end the receiver's table has to do; agentprof.yaml is known only here."""
    monkeypatch.chdir(tmp_path)
    prices = Prices(None)
    assert prices(True) is None
    loaded = prices(False)
    assert isinstance(loaded, Pricer)
    assert prices(True) is loaded
    (tmp_path / "agentprof.yaml").write_text(CONFIG)
    assert isinstance(Prices(None)(True), Pricer)


def test_a_broken_configuration(tmp_path: Path) -> None:
    """Said once, and prices of the table hold."""
    (tmp_path / "agentprof.yaml").write_text("price: []")
    assert isinstance(Prices(str(tmp_path / "agentprof.yaml"))(False), Pricer)
    assert _guard.counts() == {"configuration": 1}


def test_sound_is_priced_with_care() -> None:
    """A call that counts sound apart leaves with the cost of sound."""
    said = call() | {a.RESPONSE_MODEL: "gpt-audio", a.MEDIA_TOKENS + "input_audio": 60}
    found = priced(span(said), PRICER).attributes or {}
    assert Decimal(str(found[a.COST_CLASS + "input_audio"])) == 60 * Decimal("32e-6")
