"""A program that asks again by itself, seen in the summary of its task."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from support.model_server import CHAT, STREAM, ModelServer, Reply

import agentprof
from agentprof.testing import capture

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
OTHER: Any = [{"role": "user", "content": "Say goodbye."}]


def ask(to: openai.OpenAI, messages: Any = MESSAGES, **more: Any) -> Any:
    return to.chat.completions.create(model="m", messages=messages, **more)


def test_retries_and_repeats_of_a_program(server: ModelServer) -> None:
    """A failed call asked again is a retry, one that succeeded a repeat, streamed or not, by SDK or without."""
    server.replies = [Reply.json({}, 500), Reply.json(CHAT), Reply.stream(STREAM), Reply.json(CHAT)]
    with openai.OpenAI(base_url=server.url, api_key="x", max_retries=0) as to, capture():
        with agentprof.task("t") as task:
            with pytest.raises(openai.InternalServerError):
                ask(to)
            ask(to)
            list(ask(to, stream=True))
            ask(to, OTHER)
            body = {"messages": MESSAGES, "model": "m"}
            httpx.post(server.url + "/chat/completions", json=body).raise_for_status()
        summary = task.summary()
    assert summary.calls == 5
    assert (summary.retries["call"], summary.repeats["call"]) == (1, 2)
    assert summary.errors["call"] == 1
    assert summary.wasted["time_ns"] > 0


def test_a_tool_run_again(server: ModelServer) -> None:
    """After a failure with the same arguments it is a retry; the calls of the failed run are waste."""
    server.replies = [Reply.json(CHAT)]
    failures = iter([True, False, False])
    with openai.OpenAI(base_url=server.url, api_key="x") as to, capture():

        @agentprof.tool
        def look(up: str) -> str:
            ask(to)
            if next(failures):
                raise KeyError
            return up

        with agentprof.task("t") as task:
            with pytest.raises(KeyError):
                look("a")
            look("a")
            look("b")
        summary = task.summary()
    assert (summary.retries["tool"], summary.repeats["tool"]) == (1, 0)
    assert (summary.wasted["input_tokens"], summary.wasted["output_tokens"]) == (100, 6)
    assert summary.repeats["call"] == 2


def test_two_tasks_that_ask_the_same(server: ModelServer) -> None:
    """Are no repeats of each other, and their fingerprints tell nobody that they asked the same."""
    server.replies = [Reply.json(CHAT)]
    with openai.OpenAI(base_url=server.url, api_key="x") as to, capture() as captured:
        for _ in range(2):
            with agentprof.task("t") as task:
                ask(to)
            assert task.summary().repeats["call"] == 0
    first, second = ((span.attributes or {}) for span in captured.named("chat"))
    assert first["agentprof.fingerprint.request"] != second["agentprof.fingerprint.request"]
