"""Calls of the openai SDK over an in-process transport: no sockets, no waiting."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

# Unusual numbers, so that the correctness pass can recognise them anywhere in a span.
INPUT_TOKENS, OUTPUT_TOKENS = 4321, 987
CHUNKS, CONCURRENT, ATTEMPTS = 200, 50, 3
MODEL = "gpt-4o-mini"

SMALL = [{"role": "user", "content": "Say hello in one word."}]
LARGE = [
    {"role": "user" if i % 2 == 0 else "assistant", "content": f"message {i} " + "lorem ipsum " * 208}
    for i in range(40)
]  # about 100 kB as JSON
CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
RESPONSES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _chat(text: str) -> bytes:
    message = {"role": "assistant", "content": text, "refusal": None}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": CHAT_USAGE,
            "system_fingerprint": "fp_1",
        }
    ).encode()


def _chat_chunks() -> list[bytes]:
    def chunk(choices: list, usage: dict | None = None) -> bytes:
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": MODEL,
            "choices": choices,
            "usage": usage,
        }
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    def delta(finish: str | None = None, **fields: str) -> list:
        return [{"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish}]

    content = [chunk(delta(content=f"tok{i} ")) for i in range(CHUNKS)]
    return [
        chunk(delta(role="assistant", content="")),
        *content,
        chunk(delta("stop")),
        chunk([], CHAT_USAGE),
        b"data: [DONE]\n\n",
    ]


def _response(text: str, status: str = "completed") -> dict:
    done = status == "completed"
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": MODEL,
        "output": [message] if done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": RESPONSES_USAGE if done else None,
    }


def _response_events() -> list[bytes]:
    text = "".join(f"tok{i} " for i in range(CHUNKS))
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    done = _response(text)
    events = [
        {"type": "response.created", "response": _response("", "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", "part": part, **where},
    ]
    events += [
        {"type": "response.output_text.delta", "delta": f"tok{i} ", "logprobs": [], **where}
        for i in range(CHUNKS)
    ]
    events += [
        {"type": "response.output_text.done", "text": text, "logprobs": [], **where},
        {"type": "response.content_part.done", "part": {**part, "text": text}, **where},
        {"type": "response.output_item.done", "output_index": 0, "item": done["output"][0]},
        {"type": "response.completed", "response": done},
    ]
    return [
        f"event: {e['type']}\ndata: {json.dumps({**e, 'sequence_number': i})}\n\n".encode()
        for i, e in enumerate(events)
    ]


class Workload:
    """One kind of call. `run(n)` performs it n times; every run is `calls` SDK calls."""

    def __init__(self, name: str, run: Callable[[int], None], calls: int = 1) -> None:
        self.name, self.run, self.calls = name, run, calls


def build() -> dict[str, Workload]:
    """Make clients and workloads. Call it after the instrumentation was turned on."""
    import openai

    hx: Any = sys.modules.get("httpx2") or sys.modules["httpx"]  # openai 3 moved to httpx2
    json_type = {"content-type": "application/json", "x-request-id": "req_1"}
    sse_type = {"content-type": "text/event-stream", "x-request-id": "req_1"}
    chat_small, chat_large = _chat("Hello."), _chat("word " * 12000)
    response_small = json.dumps(_response("Hello.")).encode()
    chat_sse, response_sse = _chat_chunks(), _response_events()
    numbers = itertools.count(1)

    class Events(hx.SyncByteStream, hx.AsyncByteStream):
        """A body that arrives event by event."""

        def __init__(self, events: list[bytes]) -> None:
            self.events = events

        def __iter__(self):
            return iter(self.events)

        async def __aiter__(self):
            for event in self.events:
                await asyncio.sleep(0)  # let the other calls interleave
                yield event

    def handler(request: Any) -> Any:
        """The first part of the path says which answer to give."""
        path = request.url.path
        if path.startswith("/retry") and request.headers.get("x-stainless-retry-count", "0") < "2":
            # The SDK treats 0 as "no hint" and waits half a second: use the smallest useful value.
            return hx.Response(
                429, headers={**json_type, "retry-after-ms": "0.001"}, content=b'{"error": {}}'
            )
        if path.startswith("/stream"):
            return hx.Response(
                200, headers=sse_type, stream=Events(chat_sse if "chat" in path else response_sse)
            )
        if path.startswith("/large"):
            return hx.Response(200, headers=json_type, content=chat_large)
        if "chat" in path:
            return hx.Response(200, headers=json_type, content=chat_small)
        # A new id each time: a subject that keeps answers by id must not look tidy.
        content = response_small.replace(b"resp_1", b"resp_%d" % next(numbers))
        return hx.Response(200, headers=json_type, content=content)

    async def async_handler(request: Any) -> Any:
        await asyncio.sleep(0)
        return handler(request)

    def client(kind: str) -> Any:
        return openai.OpenAI(
            api_key="test",
            base_url=f"http://bench.invalid/{kind}/v1",
            max_retries=ATTEMPTS,
            http_client=hx.Client(transport=hx.MockTransport(handler)),
        )

    def async_client(kind: str) -> Any:
        return openai.AsyncOpenAI(
            api_key="test",
            base_url=f"http://bench.invalid/{kind}/v1",
            max_retries=ATTEMPTS,
            http_client=hx.AsyncClient(transport=hx.MockTransport(async_handler)),
        )

    plain, large, stream, retry = client("plain"), client("large"), client("stream"), client("retry")
    aplain, astream = async_client("plain"), async_client("stream")
    loop = asyncio.new_event_loop()
    usage = {"include_usage": True}

    def repeat(call: Callable[[], Any]) -> Callable[[int], None]:
        def run(n: int) -> None:
            for _ in range(n):
                call()

        return run

    def repeat_async(call: Callable[[], Any]) -> Callable[[int], None]:
        async def batches(n: int) -> None:
            for _ in range(n):
                await asyncio.gather(*(call() for _ in range(CONCURRENT)))

        return lambda n: loop.run_until_complete(batches(n))

    def drain(events: Any) -> None:
        for _ in events:
            pass

    async def achat() -> None:
        await aplain.chat.completions.create(model=MODEL, messages=SMALL)

    async def achat_stream() -> None:
        events = await astream.chat.completions.create(
            model=MODEL, messages=SMALL, stream=True, stream_options=usage
        )
        async for _ in events:
            pass

    sync: dict[str, Callable[[], Any]] = {
        "chat": lambda: plain.chat.completions.create(model=MODEL, messages=SMALL),
        "chat-large": lambda: large.chat.completions.create(model=MODEL, messages=LARGE),
        "chat-stream": lambda: drain(
            stream.chat.completions.create(model=MODEL, messages=SMALL, stream=True, stream_options=usage)
        ),
        "responses": lambda: plain.responses.create(model=MODEL, input="Say hello in one word."),
        "responses-stream": lambda: drain(
            stream.responses.create(model=MODEL, input="Say hello in one word.", stream=True)
        ),
        "chat-retry": lambda: retry.chat.completions.create(model=MODEL, messages=SMALL),
    }
    concurrent = {"chat-async": achat, "chat-stream-async": achat_stream}
    every = [Workload(name, repeat(call)) for name, call in sync.items()]
    every += [Workload(name, repeat_async(call), CONCURRENT) for name, call in concurrent.items()]
    return {w.name: w for w in every}
