"""Rows of the catalogue of failures seen in comparable tools, each a test: tokens, cost and retries."""

from __future__ import annotations

from decimal import Decimal

import openai
import pytest
from opentelemetry import trace
from support.model_server import CHAT, DONE, ModelServer, Reply, chunk
from support.pitfalls import INPUT_USD, MODEL, OUTPUT_USD, chat, repeat_as_another_scope, summed, using
from support.recorded import said
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


# --- tokens and cost -----------------------------------------------------------------------------
def test_t1_cached_tokens_are_part_of_the_input(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Of every call, also the second equal one."""
    server.replies = [
        using(prompt_tokens=1999, completion_tokens=1, prompt_tokens_details={"cached_tokens": 1792})
    ]
    summary = summed(lambda: [chat(client), chat(client)])
    assert (summary["tokens"]["input"], summary["tokens"]["cache_read"]) == (2 * 1999, 2 * 1792)
    cost = 2 * (207 * INPUT_USD + 1792 * INPUT_USD / 2 + OUTPUT_USD)
    assert Decimal(summary["cost_usd"]) == cost


def test_t2_reasoning_is_part_of_the_output(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """1970 output tokens with 956 of reasoning cost 1970 output tokens."""
    details = {"reasoning_tokens": 956}
    server.replies = [using(prompt_tokens=0, completion_tokens=1970, completion_tokens_details=details)]
    summary = summed(lambda: chat(client))
    assert (summary["tokens"]["output"], summary["tokens"]["reasoning"]) == (1970, 956)
    assert Decimal(summary["cost_usd"]) == 1970 * OUTPUT_USD


def test_t4_a_rejected_request_costs_nothing(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """However long its prompt was; the cost is complete."""
    server.replies = [Reply.json({"error": {"message": "too long"}}, 400)]

    def ask() -> None:
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "x" * 1_000_000}]
            )

    summary = summed(ask)
    assert (Decimal(summary["cost_usd"]), summary["cost_complete"]) == (0, True)
    assert summary["errors"]["call"] == 1


def test_t5_usage_on_every_chunk_is_not_added(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Of several snapshots the largest holds."""
    pieces = [chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in (1, 2, 3)]
    server.replies = [Reply.stream([*pieces, chunk({}, "stop"), DONE])]
    tokens = summed(lambda: list(chat(client, stream=True)))["tokens"]
    assert (tokens["input"], tokens["output"]) == (9, 3)


@pytest.mark.parametrize(
    ("response_id", "tokens"), [("chatcmpl-1", (100, 6)), ("chatcmpl-1", None), (None, (100, 6))]
)
def test_t10_two_spans_of_one_call_count_once(
    server: ModelServer, client: openai.OpenAI, captured: Captured, response_id: str, tokens: tuple[int, int]
) -> None:
    """Told by the id of the response, else by model and counts."""
    server.replies = [Reply.json(CHAT)]

    def ask() -> None:
        again = repeat_as_another_scope(response_id, tokens)
        with trace.use_span(again, end_on_exit=True):
            chat(client)

    summary = summed(ask)
    assert len(captured.spans) == 3
    assert (summary["calls"], summary["tokens"]["input"], summary["tokens"]["output"]) == (1, 100, 6)


def test_t11_usage_of_streams_is_read(server: ModelServer, client: openai.OpenAI, captured: Captured) -> None:
    """The last chunk of a chat that was asked for it, and the end of a streamed response."""
    server.replies = [Reply.stream()]
    tokens = summed(lambda: list(chat(client, stream=True, stream_options={"include_usage": True})))["tokens"]
    assert (tokens["input"], tokens["output"]) == (100, 6)
    server.replies = [Reply.stream(EVENTS["responses"])]
    tokens = summed(lambda: list(client.responses.create(model=MODEL, input="hi", stream=True)))["tokens"]
    assert (tokens["input"], tokens["output"], tokens["cache_read"], tokens["reasoning"]) == (11, 7, 4, 2)


def test_t12_null_details_lose_nothing_else(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A detail that is null or of a wrong type leaves the counts beside it."""
    usage = {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": "many"},
        "output_tokens": 7,
        "output_tokens_details": None,
        "total_tokens": 18,
    }
    server.replies = [Reply.json(WHOLE["responses"] | {"usage": usage})]
    tokens = summed(lambda: client.responses.create(model=MODEL, input="hi"))["tokens"]
    assert (tokens["input"], tokens["output"]) == (11, 7)
    assert (tokens["cache_read"], tokens["reasoning"]) == (None, None)


def test_t13_a_dated_model_has_the_price_of_its_model(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A date nobody has listed is no reason not to price."""
    server.replies = [Reply.json(CHAT | {"model": "gpt-4o-mini-2099-12-31"})]
    summary = summed(lambda: chat(client))
    assert Decimal(summary["cost_usd"]) == 100 * INPUT_USD + 6 * OUTPUT_USD


def test_t14_unknown_usage_is_not_zero(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Neither tokens nor cost of a successful call without usage are numbers."""
    server.replies = [Reply.json({name: value for name, value in CHAT.items() if name != "usage"})]
    summary = summed(lambda: chat(client))
    assert (summary["tokens"]["input"], summary["tokens"]["output"], summary["cost_usd"]) == (
        None,
        None,
        None,
    )
    assert (summary["calls_without_usage"], summary["unpriced"]["no_usage"]) == (1, 1)
    assert summary["errors"]["call"] == 0


# --- retries -------------------------------------------------------------------------------------
def test_r1_attempts_and_pauses_are_told_apart(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """Two refusals then an answer: entries of one span with status and pause, which is no model time."""
    refusal = Reply.json({}, 429, retry_after_ms="60")
    server.replies = [refusal, refusal, Reply.json(CHAT)]
    summary = summed(lambda: chat(client))
    found = said(captured.spans[0])
    assert (found[attributes.ATTEMPTS], found[attributes.ATTEMPT_STATUS]) == (3, ("429", "429"))
    assert all(pause >= 0.06 for pause in found[attributes.ATTEMPT_BACKOFF])
    assert (summary["calls"], summary["attempts"], summary["retries"]["transport"]) == (1, 3, 2)
    assert summary["timeline_ns"]["backoff"] >= 120e6


def test_r2_every_paid_answer_counts_and_what_was_wasted_is_shown(
    server: ModelServer, client: openai.OpenAI, captured: Captured
) -> None:
    """A tool whose whole, billed answer was of no use is run again: both are paid, the first is waste."""
    server.replies = [Reply.json(CHAT | {"id": "chatcmpl-0"}), Reply.json(CHAT)]
    good = iter([False, True])

    @agentprof.tool
    def ask(question: str) -> None:
        chat(client)
        if not next(good):
            raise LookupError

    def work() -> None:
        with pytest.raises(LookupError):
            ask("why")
        ask("why")

    summary = summed(work)
    once = 100 * INPUT_USD + 6 * OUTPUT_USD
    assert (summary["calls"], Decimal(summary["cost_usd"])) == (2, 2 * once)
    assert Decimal(summary["wasted"]["cost_usd"]) == once
