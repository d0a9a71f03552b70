"""Calls of the anthropic SDK, with a prompt and a key that are secret."""

from typing import Any

from support.anthropic_wire import ANSWERED_BY, MODEL
from support.model_server import ModelServer, Reply

from agentprof import attributes

ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Say hello, secret-prompt."}],
}
SAID = {
    attributes.RESPONSE_ID: "msg_1",
    attributes.RESPONSE_MODEL: ANSWERED_BY,
    attributes.FINISH_REASONS: ("tool_use",),
    attributes.TOOL_CALLS: ("look",),
    attributes.INPUT_TOKENS: 2130,
    attributes.OUTPUT_TOKENS: 60,
    attributes.CACHE_READ_TOKENS: 2000,
    attributes.CACHE_WRITE_TOKENS: 30,
    attributes.CACHE_WRITE_1H_TOKENS: 20,
    attributes.REASONING_TOKENS: 25,
    attributes.SERVICE_TIER: "standard",
    attributes.ATTEMPTS: 1,
}
"""What the span says of the answer, however it was asked for."""


def client(server: ModelServer, **options: Any) -> Any:
    """A client that does not repeat unless it is told to."""
    import anthropic

    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return anthropic.Anthropic(base_url=server.url.removesuffix("/v1"), **options)


def async_client(server: ModelServer, **options: Any) -> Any:
    """The same for loops."""
    import anthropic

    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return anthropic.AsyncAnthropic(base_url=server.url.removesuffix("/v1"), **options)


def refusal(status: int, **headers: str) -> Reply:
    """An answer with an error."""
    error = {"type": "overloaded_error", "message": "secret-prompt"}
    return Reply.json({"type": "error", "error": error}, status, **headers)


def create(to: Any) -> None:
    """The plain way."""
    assert to.messages.create(**ASKED).content[0].text == "Hello."


def stream(to: Any) -> None:
    """The plain way, streamed."""
    assert [event.type for event in to.messages.create(**ASKED, stream=True)].count("message_start") == 1
