"""Calls of the SDK of openai, with a prompt and a key that are secret."""

from typing import Any

import openai
from support.model_server import ModelServer

MESSAGES: Any = [{"role": "user", "content": "Say hello, secret-prompt."}]
MODEL = "gpt-4o-mini"


def client(server: ModelServer, **options: Any) -> openai.OpenAI:
    """A client that does not repeat unless it is told to."""
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return openai.OpenAI(base_url=server.url, **options)


def async_client(server: ModelServer, **options: Any) -> openai.AsyncOpenAI:
    """The same for loops."""
    options = {"api_key": "secret-key", "max_retries": 0, "timeout": 5} | options
    return openai.AsyncOpenAI(base_url=server.url, **options)


def chat(to: openai.OpenAI, **more: Any) -> Any:
    """A chat, with more arguments."""
    return to.chat.completions.create(model=MODEL, messages=MESSAGES, **more)
