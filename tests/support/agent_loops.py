"""Agent loops written by hand, with tools that take a known time, and the answers of a model that drive them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.model_server import CHAT, ROLE, Reply, chunk

USER = {"role": "user", "content": "What is the weather?"}
MODEL = "gpt-4o-mini"


class Clock:
    """What tools took, by the test's own clock."""

    def __init__(self) -> None:
        self.took_ns: list[int] = []

    def run(self, seconds: float) -> str:
        """A tool."""
        began = time.perf_counter_ns()
        time.sleep(seconds)
        self.took_ns.append(time.perf_counter_ns() - began)
        return "rain"


def use(id: str, name: str) -> dict[str, Any]:
    """A tool call in a message."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def asking(*calls: tuple[str, str]) -> Reply:
    """A whole answer that asks for tools, as (id, name)."""
    message = {"role": "assistant", "content": None, "tool_calls": [use(*call) for call in calls]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return Reply.json(CHAT | {"choices": [choice]})


def asking_streamed(*calls: tuple[str, str]) -> Reply:
    """The same as a stream."""
    pieces = [chunk({"tool_calls": [{"index": place, **use(*call)}]}) for place, call in enumerate(calls)]
    return Reply.stream([ROLE, *pieces, chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


def asking_responses(number: int, *calls: tuple[str, str]) -> Reply:
    """An answer of the responses API; without calls its last."""
    output = [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": name,
            "arguments": "{}",
            "status": "completed",
        }
        for id, name in calls
    ]
    return Reply.json(
        {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1700000000,
            "model": MODEL,
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        }
    )


Tools = Callable[[Sequence[Any]], Sequence[str]]
"""From tool calls to their results."""


def chat_loop(client: Any, tools: Tools, stream: bool = False) -> None:
    """Until the model asks for nothing any more."""
    messages: list[Any] = [USER]
    while True:
        calls = _streamed(client, messages) if stream else _whole(client, messages)
        if not calls:
            return
        messages.append(
            {"role": "assistant", "tool_calls": [use(call["id"], call["name"]) for call in calls]}
        )
        for call, result in zip(calls, tools(calls), strict=True):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def _whole(client: Any, messages: list[Any]) -> list[dict[str, Any]]:
    answer = client.chat.completions.create(model=MODEL, messages=messages)
    return called(answer.choices[0].message)


def called(message: Any) -> list[dict[str, Any]]:
    """Id and name of each call in a message."""
    return [{"id": call.id, "name": call.function.name} for call in message.tool_calls or ()]


def _streamed(client: Any, messages: list[Any]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for event in client.chat.completions.create(model=MODEL, messages=messages, stream=True):
        for delta in event.choices:
            for call in delta.delta.tool_calls or ():
                if call.id:
                    calls.append({"id": call.id, "name": call.function.name})
    return calls


def responses_loop(client: Any, tools: Tools) -> None:
    """With the conversation kept at the provider: only results are sent."""
    sent: Any = "What is the weather?"
    before: dict[str, Any] = {}
    while True:
        answer = client.responses.create(model=MODEL, input=sent, **before)
        calls = [{"id": item.call_id, "name": item.name} for item in answer.output]
        if not calls:
            return
        before = {"previous_response_id": answer.id}
        sent = [
            {"type": "function_call_output", "call_id": call["id"], "output": json.dumps(result)}
            for call, result in zip(calls, tools(calls), strict=True)
        ]
