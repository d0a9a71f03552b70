"""Ways to call SDKs that send through plain HTTP clients, and what may become of the calls."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from support import cohere_styles, google_styles, ollama_styles
from support.model_server import CHAT, STREAM, Reply
from support.twin_outcomes import Gate, _hang_up

ASKED = "Say hello."
_MESSAGES: Any = [{"role": "user", "content": ASKED}]


# --- ways to call --------------------------------------------------------------------------------
@dataclass(frozen=True)
class Way:
    """One way to call one SDK."""

    sdk: str
    """The module with its clients."""
    name: str
    wire: str
    """`gemini`, `chat`, `cohere`, `cohere 1` or `ollama`."""
    is_async: bool
    stream: bool
    client: Callable[[Any, str, int, float], Any]
    """Takes the module, where to send to, how often to repeat, and how long to wait, in seconds."""
    call: Callable[[Any, int], Any]
    """Takes the client and how often to repeat."""

    def __str__(self) -> str:
        kind = f"{'async' if self.is_async else 'sync'}-{'stream' if self.stream else 'plain'}"
        return f"{self.sdk}-{self.name}-{kind}"


def _google_client(on_httpx: bool) -> Callable[[Any, str, int, float], Any]:
    def client(genai: Any, url: str, retries: int, timeout_s: float) -> Any:
        # Never without: the client itself repeats what aiohttp could not send, after seconds.
        retry = {"attempts": retries + 1, "initial_delay": 0.001, "jitter": 0.0}
        options: dict[str, Any] = {"base_url": url, "timeout": int(timeout_s * 1000), "retry_options": retry}
        if on_httpx:
            options["httpx_async_client"] = import_module("httpx2").AsyncClient()
        return genai.Client(api_key="secret-key", http_options=options)

    return client


def _google(name: str, is_async: bool, stream: bool) -> Way:
    def call(client: Any, retries: int) -> Any:
        models = client.aio.models if is_async else client.models
        method = models.generate_content_stream if stream else models.generate_content
        return method(model="gemini-2.5-flash", contents=ASKED)

    return Way("google.genai", name, "gemini", is_async, stream, _google_client(name == "httpx"), call)


def _mistral(is_async: bool, stream: bool) -> Way:
    def client(module: Any, url: str, retries: int, timeout_s: float) -> Any:
        utils = import_module(f"{module.__name__}.utils")
        # It repeats for so long, in milliseconds, not so often.
        backoff = utils.BackoffStrategy(1, 1, 1.0, 20_000 if retries else -1)
        repeats = utils.RetryConfig("backoff", backoff, True)
        return module.Mistral(
            api_key="secret-key", server_url=url, retry_config=repeats, timeout_ms=int(timeout_s * 1000)
        )

    def call(client: Any, retries: int) -> Any:
        name = ("stream" if stream else "complete") + ("_async" if is_async else "")
        return getattr(client.chat, name)(model="mistral-small", messages=_MESSAGES)

    return Way("mistralai.client", "chat", "chat", is_async, stream, client, call)


def _cohere(name: str, is_async: bool, stream: bool) -> Way:
    kind = ("Async" if is_async else "") + ("Client" if name == "version 1" else "ClientV2")

    def client(module: Any, url: str, retries: int, timeout_s: float) -> Any:
        return getattr(module, kind)("secret-key", base_url=url, timeout=timeout_s)

    def call(client: Any, retries: int) -> Any:
        asked: Any = {"message": ASKED} if name == "version 1" else {"messages": _MESSAGES}
        owner = client.with_raw_response if name == "raw" else client
        method = owner.chat_stream if stream else owner.chat
        options = {"max_retries": retries, "retry_remote_protocol_errors": True}
        return method(model="command-a-03-2025", request_options=options, **asked)

    wire = "cohere 1" if name == "version 1" else "cohere"
    return Way("cohere", name, wire, is_async, stream, client, call)


def _ollama(is_async: bool, stream: bool) -> Way:
    def client(module: Any, url: str, retries: int, timeout_s: float) -> Any:
        return (module.AsyncClient if is_async else module.Client)(host=url, timeout=timeout_s)

    def call(client: Any, retries: int) -> Any:
        return client.chat(model="llama3.2", messages=_MESSAGES, stream=stream)

    return Way("ollama", "chat", "ollama", is_async, stream, client, call)


_KINDS = [(is_async, stream) for is_async in (False, True) for stream in (False, True)]
WAYS: list[Way] = [
    *(_google("usual", *kind) for kind in _KINDS),
    *(_google("httpx", True, stream) for stream in (False, True)),
    *(_mistral(*kind) for kind in _KINDS),
    *(_cohere(name, *kind) for name in ("usual", "raw", "version 1") for kind in _KINDS),
    *(_ollama(*kind) for kind in _KINDS),
]

# --- what becomes of it --------------------------------------------------------------------------
_LINES = {"content-type": "application/x-ndjson"}
WHOLE: dict[str, Any] = {
    "gemini": google_styles.GEMINI,
    "chat": CHAT,
    "cohere": cohere_styles.COHERE,
    "cohere 1": cohere_styles.COHERE_V1,
    "ollama": ollama_styles.OLLAMA,
}
PIECES: dict[str, list[bytes]] = {
    "gemini": google_styles.gemini_pieces(),
    "chat": STREAM,
    "cohere": cohere_styles.COHERE_EVENTS,
    "cohere 1": cohere_styles.COHERE_V1_EVENTS,
    "ollama": ollama_styles.ollama_lines(),
}
ERRORS = {
    "gemini": b'data: {"error": {"code": 503, "message": "no more", "status": "UNAVAILABLE"}}\r\n\r\n',
    "ollama": b'{"error": "no more"}\n',
}
"""An error inside a stream, where the format has one."""


def good(way: Way, until: int | None = None, framing: str = "chunked") -> Reply:
    """What the server answers where all is well, or to a certain piece of it."""
    if not way.stream:
        return Reply.json(WHOLE[way.wire], x_request_id="req_1")
    pieces = PIECES[way.wire][:until]
    if way.wire in ("ollama", "cohere 1"):
        return Reply(pieces, headers=_LINES, framing=framing)
    return Reply.stream(pieces, framing)


def _refusal(status: int) -> Reply:
    error = {"error": {"code": status, "message": "no, because", "status": "SOME"}}
    return Reply.json(error, status, retry_after_ms="1", x_request_id="req_0")


def _half(way: Way) -> Reply:
    if way.stream:
        return good(way, 2, "cut")
    body = json.dumps(WHOLE[way.wire]).encode()
    return Reply([body[: len(body) // 2]], headers={"content-type": "application/json"}, framing="cut")


def _interrupting(gate: Gate) -> Callable[[], None]:
    def before() -> None:
        # Again if it came just before the program began to wait, which it then would do without noticing.
        for _ in range(10):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if gate.through.wait(10.0):
                return

    return before


def _held(way: Way, gate: Gate) -> Reply:
    def pieces() -> Iterator[bytes]:
        yield b"".join(PIECES[way.wire][:2])
        gate.hold()

    begun = good(way)
    return Reply(pieces(), headers=begun.headers, framing="cut")


@dataclass(frozen=True)
class Outcome:
    """What may become of a call."""

    name: str
    replies: Callable[[Way, Gate], list[Reply]]
    retries: int = 0
    timeout_s: float = 20.0
    leave: str | None = None
    """What the program does in the middle: `break`, `close`, or `cancel`, which is in the first answer."""
    kinds: tuple[bool, ...] = (False, True)
    """For streams or not."""


OUTCOMES: list[Outcome] = [
    Outcome("good", lambda way, gate: [good(way)]),
    Outcome("refused", lambda way, gate: [_refusal(429)]),
    Outcome("bad request", lambda way, gate: [_refusal(400)], retries=2),
    Outcome("repeated", lambda way, gate: [_refusal(429), _refusal(500), good(way)], retries=2),
    Outcome("hung up", lambda way, gate: [Reply(b"", before=_hang_up)]),
    Outcome("hung up, repeated", lambda way, gate: [Reply(b"", before=_hang_up), good(way)], retries=1),
    Outcome("cut", lambda way, gate: [_half(way)]),
    Outcome("cut, repeated", lambda way, gate: [_half(way), good(way)], retries=1),
    Outcome(
        "no JSON",
        lambda way, gate: [Reply(b"<html>", headers={"content-type": "application/json"})],
        kinds=(False,),
    ),
    Outcome("timeout", lambda way, gate: [Reply(b"", before=gate.hold)], timeout_s=0.1),
    Outcome("cancelled", lambda way, gate: [Reply(b"", before=_interrupting(gate))], leave="cancel"),
    Outcome("left", lambda way, gate: [_held(way, gate)], leave="break", kinds=(True,)),
    Outcome("closed", lambda way, gate: [_held(way, gate)], leave="close", kinds=(True,)),
    Outcome("late timeout", lambda way, gate: [_held(way, gate)], timeout_s=0.4, kinds=(True,)),
    Outcome("truncated", lambda way, gate: [good(way, 2, "close")], kinds=(True,)),
    Outcome(
        "error inside",
        lambda way, gate: [
            Reply(
                [*PIECES[way.wire][:2], ERRORS.get(way.wire, b"")],
                headers=good(way).headers,
                framing="chunked",
            )
        ],
        kinds=(True,),
    ),
]
