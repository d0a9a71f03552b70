"""One call of an SDK to an endpoint on this machine, plain and instrumented: `python -m` this, with its name.

Runs in a process of its own, so that nothing it imports or patches is left behind. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from agentprof import attributes
from agentprof._instrument import instrumented_modules
from agentprof.testing import capture

MODEL: Final = "doctor"
INPUT_TOKENS: Final = 100
OUTPUT_TOKENS: Final = 6
_ANSWER: Final = {
    "id": "doctor-1",
    "object": "chat.completion",
    "created": 1700000000,
    "model": MODEL,
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Well."}}],
    "usage": {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    },
}
_MESSAGE: Final = {
    "id": "doctor-1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [{"type": "text", "text": "Well."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
}
"""What Anthropic would answer."""
_BODY: Final = {"model": MODEL, "messages": [{"role": "user", "content": "How are you?"}]}
_REPEATS: Final = 20
_CHANGING: Final = frozenset({"traceparent", "x-stainless-retry-count"})


class Finding(msgspec.Struct, omit_defaults=True):
    """What the self-test of one SDK found."""

    sdk: str
    error: str | None = None
    """Where a call raised: the name of the exception."""
    same_result: bool = False
    """Type and value of what the program got."""
    same_request: bool = False
    """Bytes and headers that went out."""
    recorded: bool = False
    """One span, with the tokens of the answer."""
    undone: bool = False
    """Afterwards nothing is patched any more."""
    plain_s: float = 0.0
    """The fastest of a few calls."""
    instrumented_s: float = 0.0
    modules: list[str] = []
    """What was instrumented."""

    @property
    def well(self) -> bool:
        """Whether everything is as it should be."""
        return self.error is None and self.same_result and self.same_request and self.recorded and self.undone


class _Endpoint:
    """Answers every POST in the way of its path and keeps what came."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, str], bytes]] = []
        chat, message = json.dumps(_ANSWER).encode(), json.dumps(_MESSAGE).encode()
        sent = self.sent

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                sent.append((self.path, headers, body))
                answer = message if self.path.partition("?")[0].endswith("/messages") else chat
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def last(self) -> tuple[str, dict[str, str], bytes]:
        """The latest request, without what is new in each."""
        path, headers, body = self.sent[-1]
        return path, {name: value for name, value in headers.items() if name not in _CHANGING}, body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _openai(url: str) -> Callable[[], Any]:
    client = importlib.import_module("openai").OpenAI(base_url=url, api_key="none", max_retries=0)
    return lambda: client.chat.completions.create(**_BODY)


def _anthropic(url: str) -> Callable[[], Any]:
    client = importlib.import_module("anthropic").Anthropic(
        base_url=url.removesuffix("/v1"), api_key="none", max_retries=0
    )
    return lambda: client.messages.create(**_BODY, max_tokens=OUTPUT_TOKENS)


def _sibling(module: str, name: str, **options: Any) -> Callable[[str], Callable[[], Any]]:
    """An SDK on the base client of openai that adds the whole path to the address itself."""

    def caller(url: str) -> Callable[[], Any]:
        client = getattr(importlib.import_module(module), name)(
            base_url=url.removesuffix("/v1"), api_key="none", max_retries=0, **options
        )
        chat = client.chat.chat if hasattr(client.chat, "chat") else client.chat.completions.create
        return lambda: chat(**_BODY)

    return caller


def _httpx(name: str) -> Callable[[str], Callable[[], Any]]:
    def caller(url: str) -> Callable[[], Any]:
        client = importlib.import_module(name).Client(trust_env=False)
        return lambda: client.post(f"{url}/chat/completions", json=_BODY).json()

    return caller


def _requests(url: str) -> Callable[[], Any]:
    session = importlib.import_module("requests").Session()
    session.trust_env = False
    return lambda: session.post(f"{url}/chat/completions", json=_BODY).json()


def _aiohttp(url: str) -> Callable[[], Any]:
    aiohttp = importlib.import_module("aiohttp")

    async def call() -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/chat/completions", json=_BODY) as response,
        ):
            return await response.json()

    return lambda: asyncio.run(call())


CALLERS: Final[dict[str, Callable[[str], Callable[[], Any]]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "groq": _sibling("groq", "Groq"),
    "cerebras": _sibling("cerebras.cloud.sdk", "Cerebras", warm_tcp_connection=False),
    "together": _sibling("together", "Together"),
    "fireworks": _sibling("fireworks", "Fireworks"),
    "perplexity": _sibling("perplexity", "Perplexity"),
    "sambanova": _sibling("sambanova", "SambaNova"),
    "writerai": _sibling("writerai", "Writer"),
    "httpx": _httpx("httpx"),
    "httpx2": _httpx("httpx2"),
    "requests": _requests,
    "aiohttp": _aiohttp,
}
"""By package: what makes a call from the address of an endpoint."""


def run(sdk: str) -> Finding:
    """Make calls of an SDK that is installed, plain and instrumented, and compare."""
    found = Finding(sdk)
    endpoint = _Endpoint()
    try:
        call = CALLERS[sdk](endpoint.url)
        before = call()
        plain = endpoint.last()
        found.plain_s = _fastest(call)
        with capture(propagate_to=()) as captured:
            after = call()
            instrumented = endpoint.last()
            spans = list(captured.spans)
            found.modules = instrumented_modules()
            found.instrumented_s = _fastest(call)
        found.same_result = type(after) is type(before) and after == before
        found.same_request = instrumented == plain
        said = [dict(span.attributes or {}) for span in spans]
        found.recorded = [
            (one.get(attributes.INPUT_TOKENS), one.get(attributes.OUTPUT_TOKENS)) for one in said
        ] == [(INPUT_TOKENS, OUTPUT_TOKENS)]
        found.undone = instrumented_modules() == []
    except Exception as error:
        found.error = type(error).__name__
    finally:
        endpoint.close()
    return found


def _fastest(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    print(msgspec.json.encode(run(sys.argv[1])).decode())
