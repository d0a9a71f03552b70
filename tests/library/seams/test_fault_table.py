"""Calls whose times mislead: each through a real seam over loopback, with the phases it must have."""

from __future__ import annotations

import httpx2
import pytest
from support.model_server import CHAT, DONE, ROLE, ModelServer, Reply, chunk
from support.timed_calls import (
    ASKED,
    USAGE,
    about,
    exactly,
    faults,
    metrics,
    row_of,
    saying,
    streamed,
    whole,
    with_queue,
)

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")


# --- what the engine says ------------------------------------------------------------------------
def test_a_wrong_clock(server: ModelServer, captured: Captured) -> None:
    """Stamps of an engine whose clock is years off: only their differences count."""
    meta = {
        "queue_time": 0.1,
        "forward_entry_time": 1000.1,
        "prefill_finished_time": 1000.15,
        "first_token_latency": 0.15,
        "e2e_latency": 0.25,
    }
    choice = CHAT["choices"][0] | {"matched_stop": None, "meta_info": meta}
    whole(server, {"choices": [choice]}, wait_s=0.3)
    assert row_of(captured).phases_ns == {
        "connect": about(0),
        "network": about(0.05),
        "queue": exactly(0.1),
        "prefill": exactly(0.05),
        "generation": exactly(0.1),
    }
    assert row_of(captured).engine == "sglang"
    assert row_of(captured).phase_fields["queue"] == "choices[0].meta_info.queue_time"
    assert faults(captured) == ""


def test_a_clock_that_was_set_back(server: ModelServer, captured: Captured) -> None:
    """A difference of stamps below zero is named and is no prefill."""
    meta = {"queue_time": 0.1, "forward_entry_time": 1000.1, "prefill_finished_time": 999.0}
    choice = CHAT["choices"][0] | {"matched_stop": None, "meta_info": meta}
    whole(server, {"choices": [choice]}, wait_s=0.3)
    phases = row_of(captured).phases_ns
    assert "prefill" not in phases
    assert (phases["queue"], phases["model"]) == (exactly(0.1), about(0.2))
    assert "prefill_finished_time - choices[0].meta_info.forward_entry_time: negative" in faults(captured)


def test_no_first_token(server: ModelServer, captured: Captured) -> None:
    """A stream that ends without a token is divided by what the engine says; the rest of it waited."""
    last = chunk(usage=USAGE | {"completion_tokens": 0}, **metrics(0.05, 0.1, 0.0))
    streamed(server, [0.2, ROLE, chunk({}, "stop"), last, DONE])
    row = row_of(captured)
    assert row.first_token_ns is None
    assert row.phases_ns["prefill"] == exactly(0.1)
    assert row.phases_ns["queue"] == about(0.1)
    assert row.phase_sources["queue"] == "derived"
    assert "generation" not in row.phases_ns


def test_a_cached_prompt(server: ModelServer, captured: Captured) -> None:
    """Hardly any prefill is what the engine says, and the wait is still the wait."""
    timings = {"cache_n": 298, "prompt_n": 2, "prompt_ms": 2.0, "predicted_n": 20, "predicted_ms": 200.0}
    last = chunk({}, "stop", usage=USAGE, timings=timings)
    streamed(server, [ROLE, 0.2, chunk({"content": "1"}), 0.2, chunk({"content": "2"}), last, DONE])
    row = row_of(captured)
    assert row.phases_ns["prefill"] == exactly(0.002)
    # The headers came at once: by them the prefill was no part of the 0.2 s, so they say nothing of a queue.
    assert row.phases_ns["wait"] == about(0.198)
    assert "queue" not in row.phases_ns
    assert row.phases_ns["generation"] == about(0.2)


def test_a_slot_that_came_free(server: ModelServer, captured: Captured) -> None:
    """Headers of llama.cpp that leave when the slot starts say how long the request had waited for it."""
    timings = {"cache_n": 0, "prompt_n": 300, "prompt_ms": 100.0, "predicted_n": 20, "predicted_ms": 200.0}
    last = chunk({}, "stop", usage=USAGE, timings=timings)
    pieces = [0.1, ROLE, chunk({"content": "1"}), 0.2, chunk({"content": "2"}), last, DONE]
    row = with_queue(captured, lambda: streamed(server, pieces, wait_s=0.3))
    assert row.phases_ns["queue"] == about(0.3)
    assert row.phase_sources["queue"] == "derived"
    assert saying(captured, attributes.PHASE_FIELD + "queue") == "headers - request"
    assert row.phases_ns["prefill"] == exactly(0.1)
    assert "wait" not in row.phases_ns


def test_hidden_reasoning(server: ModelServer, captured: Captured) -> None:
    """What is thought and not shown is generation, although the client had seen no token yet."""
    usage = USAGE | {"completion_tokens_details": {"reasoning_tokens": 15}}
    last = chunk(usage=usage, **metrics(0.0, 0.05, 0.4))
    streamed(server, [ROLE, 0.35, chunk({"content": "1"}), 0.1, chunk({"content": "2"}, "stop"), last, DONE])
    row = row_of(captured)
    assert row.first_token_ns == about(0.35)
    assert row.phases_ns["generation"] == exactly(0.4)
    assert row.phases_ns["prefill"] == exactly(0.05)
    assert row.phase_sources["generation"] == "reported"
    assert row.tokens["reasoning"] == 15


def test_visible_reasoning(server: ModelServer, captured: Captured) -> None:
    """The first thought is the first token; what it says comes later."""
    pieces = [
        ROLE,
        0.1,
        chunk({"reasoning_content": "Hm."}),
        0.2,
        chunk({"content": "1"}),
        0.1,
        chunk({"content": "2"}, "stop"),
        DONE,
    ]
    streamed(server, pieces)
    row = row_of(captured)
    assert (row.first_token_ns, row.first_content_ns) == (about(0.1), about(0.3))
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.1), about(0.3))


def test_a_tool_call_and_nothing_else(server: ModelServer, captured: Captured) -> None:
    """Its first piece is the first token, and content."""
    begun = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "count", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": "{}"}}]
    pieces = [ROLE, 0.1, chunk({"tool_calls": begun}), 0.2, chunk({"tool_calls": more}, "tool_calls"), DONE]
    streamed(server, pieces)
    row = row_of(captured)
    assert (row.first_token_ns, row.first_content_ns) == (about(0.1), about(0.1))
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.1), about(0.2))


def test_an_empty_completion(server: ModelServer, captured: Captured) -> None:
    """Nothing was generated: no generation, and no time is invented for it."""
    empty = {"choices": [CHAT["choices"][0] | {"message": {"role": "assistant", "content": ""}}]}
    whole(server, empty | {"usage": USAGE | {"completion_tokens": 0}}, wait_s=0.1)
    row = row_of(captured)
    assert row.phases_ns["model"] == about(0.1)
    assert "generation" not in row.phases_ns


def test_figures_that_contradict_the_call(server: ModelServer, captured: Captured) -> None:
    """An engine that says it took longer than the client waited is not believed, and named."""
    whole(server, {"kv_transfer_params": None} | metrics(0.4, 0.5, 2.0), wait_s=0.1)
    row = row_of(captured)
    assert set(row.phases_ns) == {"connect", "model"}
    assert "metrics.generation_time_ms: longer than the call" in faults(captured)


# --- what lies between ---------------------------------------------------------------------------
def test_a_buffering_proxy(server: ModelServer, captured: Captured) -> None:
    """All chunks in one burst: generation keeps the length the engine says, times between tokens are none."""
    tokens = [chunk({"content": str(number)}) for number in range(20)]
    last = chunk(usage=USAGE, **metrics(0.02, 0.05, 0.4))
    streamed(server, [0.5, b"".join([ROLE, *tokens, chunk({}, "stop"), last, DONE])])
    row = row_of(captured)
    assert row.phases_ns["generation"] == exactly(0.4)
    assert row.phases_ns["prefill"] == exactly(0.05)
    assert row.phases_ns["queue"] == about(0.05)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None
    assert "inter_token: all tokens came at once" in faults(captured)


def test_a_buffering_proxy_before_an_engine_that_says_nothing(
    server: ModelServer, captured: Captured
) -> None:
    """Twenty tokens within a millisecond were not generated in it: the time is not divided by them."""
    tokens = [chunk({"content": str(number)}) for number in range(20)]
    streamed(server, [0.3, b"".join([ROLE, *tokens, chunk({}, "stop"), chunk(usage=USAGE), DONE])])
    row = row_of(captured)
    assert row.phases_ns["wait"] == about(0.3)
    assert saying(captured, attributes.INTER_TOKEN_HISTOGRAM) is None
    assert "inter_token: all tokens came at once" in faults(captured)


def test_comments_that_keep_a_connection_open(server: ModelServer, captured: Captured) -> None:
    """They are no chunk and no token."""
    comment = b": keep-alive\n\n"
    pieces = [
        comment,
        0.1,
        comment,
        0.1,
        ROLE,
        chunk({"content": "1"}),
        0.1,
        chunk({"content": "2"}, "stop"),
        DONE,
    ]
    streamed(server, pieces)
    row = row_of(captured)
    assert row.first_token_ns == about(0.2)
    assert (row.phases_ns["wait"], row.phases_ns["generation"]) == (about(0.2), about(0.1))
    assert saying(captured, attributes.TIME_TO_FIRST_CHUNK) >= 0.2


def test_empty_lines_that_keep_a_connection_open(server: ModelServer, captured: Captured) -> None:
    """A whole answer after empty lines is read like any other."""
    body = b'{"id": "1", "choices": [{"index": 0, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}'
    server.replies = [Reply([b"\n", 0.05, b"\n", 0.05, body], framing="chunked")]
    with (
        httpx2.Client() as client,
        client.stream("POST", f"{server.url}/chat/completions", json=ASKED) as answer,
    ):
        answer.read()
    row = row_of(captured)
    assert row.tokens["input"] == 3
    assert row.finish_reasons == ["stop"]
