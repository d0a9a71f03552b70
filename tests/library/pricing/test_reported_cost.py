"""What a provider or gateway says it charged, from its recorded bytes through the SDK to the summary of the task."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from support import odd_senders
from support.model_server import ModelServer, Reply
from support.recordings import Recordings, send

import agentprof
from agentprof.config import parse_config
from agentprof.model import Span
from agentprof.pricing import Pricer
from agentprof.summary import TaskSummary
from agentprof.testing import capture

pytestmark = pytest.mark.filterwarnings("ignore")

_OPENROUTER = "openrouter.openai_chat.pydantic_ai.test_openrouter_"
_XAI = "xai.openai_responses.ruby_llm.chat_"
CHARGED = {
    # `cost`, in full, in a stream, of the other endpoints, and beside it tools of the provider
    _OPENROUTER + "web_search_annotations.fa223.0": "0.007637029",
    _OPENROUTER + "web_search_tool_usage_stream.b0fe9.0": "0.0133176",
    _OPENROUTER + "advisor_tool_stream.e9201.0": "0.0145476",
    "openrouter.openai_responses.llm_openrouter.test_prompt.fbe74.0": "0.0000825",
    "openrouter.openai_embeddings.ruby_llm.embedding_basic_functionality_openrouter_openai_text_embeddi.eb04d.0": (
        "0.00000014"
    ),
    # with a key of one's own the gateway charges nothing, and the provider what `cost_details` says
    "openrouter.openai_chat.dd_trace_py.completion_openrouter_byok.4e203.0": "0.00417",
    # an object of amounts with a total, in Perplexity's own units
    "perplexity.openai_chat.ruby_llm.chat_basic_chat_functionality_perplexity_sonar_can_handle_mu.af08d.0": "0.00507",
    "perplexity.openai_embeddings.ruby_llm.embedding_perplexity_int8_embeddings_perplexity_pplx_embed_v.aba39.0": (
        "0.000000012"
    ),
    # ticks of 1e-10 dollars, searches among them
    _XAI + "basic_chat_functionality_xai_grok_4_1_fast_non_reasonin.03f8b.0": "0.0006306",
    _XAI + "web_search_with_xai_grok_4_3_searches_cites_and_counts_.9d5ff.0": "0.01615085",
    "xai.openai_chat.ai.xai_text_chunks.8a117.0": "0.000172125",
}
"""By recording: USD."""

NOT_CHARGED = (
    # no ticks beside tokens: it is sold by another, who bills in another way
    "azure.openai_chat.ruby_llm.chat_function_calling_azure_grok_4_1_fast_non_reasoning_can_.aa86f.0",
    # an estimate of a gateway is no charge
    "pydantic_gateway.openai_responses.logfire.test_instrument_langchain.08d2f.0",
)


@pytest.fixture(scope="module")
def server(shared: Path) -> Iterator[Any]:
    """The recorded traffic of model APIs, served again."""
    with Recordings(shared / "data" / "recordings").served() as running:
        yield running


def summary_of(server: Any, *names: str) -> TaskSummary:
    """Of a task that makes recorded calls through the SDK."""
    with (
        openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0, timeout=20) as client,
        capture(),
        agentprof.task("spend") as task,
    ):
        for name in names:
            send(client.copy(base_url=server.url(name, "/v1")), server.store.by_name[name])
    found = task.summary()
    assert found is not None
    return found


def test_what_was_charged_is_the_cost(server: Any) -> None:
    """Of all of them together, to the last digit; no part of it comes from a table."""
    found = summary_of(server, *CHARGED)
    total = sum(map(Decimal, CHARGED.values()), Decimal(0))
    assert found.calls == len(CHARGED)
    assert (found.cost_usd, found.cost_complete) == (total, True)
    assert found.cost_by_class_usd == {"reported": total}
    assert found.pricing == [{"source": "reported", "version": None}]


@pytest.mark.parametrize("name", CHARGED)
def test_each_charge(server: Any, name: str) -> None:
    """The span of the call says it, and how it is known, through the SDK and without."""
    with capture() as captured:
        odd_senders.by_sdk(server.url(name, ""), server.store.by_name[name])
        odd_senders.by_http(server.url(name, ""), server.store.by_name[name])
        said = [span.attributes or {} for span in captured.spans]
    assert [Decimal(str(one["agentprof.cost.usd"])) for one in said] == [Decimal(CHARGED[name])] * 2
    assert [one["agentprof.cost.source"] for one in said] == ["reported"] * 2


def test_it_wins_over_own_prices_and_the_table(server: Any) -> None:
    """A model that both have prices for costs what was charged."""
    from agentprof._readable import to_raw
    from agentprof.vocabularies import normalise

    name = _OPENROUTER + "web_search_annotations.fa223.0"
    with capture() as captured:
        odd_senders.by_sdk(server.url(name, ""), server.store.by_name[name])
    config = parse_config("prices: [{model: deepseek*, input: 1000, output: 1000}]")
    span: Span = Pricer(config).price(normalise(to_raw(captured.spans[0])))
    assert span.call is not None
    assert span.call.cost is not None
    assert (span.call.cost.amount_usd, span.call.cost.source) == (Decimal("0.007637029"), "reported")


def test_what_is_no_charge(server: Any) -> None:
    """No reported part: of ticks that are 0 beside tokens, and of an estimate."""
    found = summary_of(server, *NOT_CHARGED)
    assert "reported" not in found.cost_by_class_usd


LITELLM = "litellm_proxy.openai_chat.dd_trace_py.completion_multiple_choices_proxy.a45e6.0"


@pytest.mark.parametrize("by", [odd_senders.by_sdk, odd_senders.by_http])
def test_a_gateway_says_it_in_a_header(server: Any, by: Any) -> None:
    """LiteLLM's proxy, through the SDK and through plain HTTP, up to the summary."""
    with capture(), agentprof.task("spend") as task:
        by(server.url(LITELLM, ""), server.store.by_name[LITELLM])
    found = task.summary()
    assert found is not None
    assert (found.cost_usd, found.cost_complete) == (Decimal("0.00007099999999999999"), True)
    assert list(found.cost_by_class_usd) == ["reported"]


@pytest.mark.parametrize("said", ["0.0", "None", "", "-1", "nan", "1e400", "x" * 1000])
def test_a_header_that_says_nothing(said: str) -> None:
    """No cost is reported, and the answer is recorded."""
    with ModelServer() as other:
        reply = Reply.json({"usage": {"prompt_tokens": 7, "completion_tokens": 1}})
        other.replies = [Reply(reply.body, headers=reply.headers | {"x-litellm-response-cost": said})]
        with capture() as captured, httpx2.Client() as client:
            client.post(f"{other.url}/chat/completions", json={"model": "m", "messages": []})
    found = captured.spans[0].attributes or {}
    assert "agentprof.cost.usd" not in found
    assert found["gen_ai.usage.input_tokens"] == 7


def test_the_body_is_before_the_header() -> None:
    """Where both say something, what the provider says of this answer holds."""
    with ModelServer() as other:
        reply = Reply.json({"usage": {"prompt_tokens": 7, "completion_tokens": 1, "cost": 0.25}})
        other.replies = [Reply(reply.body, headers=reply.headers | {"x-litellm-response-cost": "0.5"})]
        with capture() as captured, httpx2.Client() as client:
            client.post(f"{other.url}/chat/completions", json={"model": "m", "messages": []})
    assert (captured.spans[0].attributes or {})["agentprof.cost.usd"] == "0.25"
