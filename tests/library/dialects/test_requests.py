"""Which bodies are requests of a dialect."""

from typing import Any

import msgspec
import pytest

from agentprof.dialects import asked_in, dialect_of

V1 = "/v1/chat/completions"


def asked(path: str, body: Any) -> Any:
    """Model and streaming of a body posted there, or None."""
    dialect = dialect_of(path)
    assert dialect is not None
    found = asked_in(dialect, path, body if isinstance(body, bytes) else msgspec.json.encode(body))
    return found if found is None else (found.model, found.stream)


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (V1, {"model": "m", "messages": []}, ("m", False)),
        (V1, {"messages": [], "stream": True}, (None, True)),
        (V1, b' { "stream" : true , "model" : "m\\u00e9" , "messages" : [ ] } ', ("mé", True)),
        (V1, b'{"model": "m", "messages": ["\\ud83d"], "stream": true}', ("m", True)),
        (V1, {"model": 7, "messages": [], "stream": "yes"}, (None, False)),
        ("/completions", {"prompt": "once"}, (None, False)),
        ("/v1/responses", {"model": "m", "input": "hi"}, ("m", False)),
        ("/v1/responses", {"prompt": {"id": "pmpt_1"}}, (None, False)),
        ("/v1/responses/compact", {"model": "m", "previous_response_id": "r"}, ("m", False)),
        ("/v1/embeddings", {"model": "m", "input": "hi"}, ("m", False)),
        ("/openai/deployments/e/embeddings", {"input": "hi"}, (None, False)),
        ("/v1/messages", {"model": "m", "max_tokens": 1, "messages": []}, ("m", False)),
        (
            "/anthropic/v1/messages",
            {"model": "m", "max_tokens": 1, "messages": [], "stream": True},
            ("m", True),
        ),
    ],
)
def test_requests_of_models(path: str, body: Any, expected: tuple[str | None, bool]) -> None:
    """A body with the dialect's own field is a request; its model may stand in the path or nowhere."""
    assert asked(path, body) == expected


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (V1, {"model": "m"}),
        (V1, [{"messages": []}]),
        (V1, b""),
        (V1, b"messages=hi"),
        (V1, b"\xff\xfe"),
        (V1, b'{"messages": [}'),
        ("/survey/responses", {"answers": [1, 2]}),
        ("/survey/responses", {"input": "free text"}),
        ("/todo/completions", {"model": "m", "done": True}),
        ("/embeddings", {"input": "hi"}),
        ("/v1/messages", {"messages": [{"to": "+491234", "text": "hi"}]}),
        ("/v1/messages", {"max_tokens": 1, "messages": []}),
    ],
)
def test_what_else_is_posted_to_such_paths(path: str, body: Any) -> None:
    """Other bodies under a path that ends alike are no requests to a model."""
    assert asked(path, body) is None


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/v1/messages/batches", "/v1/threads/t/messages", "/v1/models"]
)
def test_endpoints_without_a_model_call(path: str) -> None:
    """Counting tokens, handing in a batch and storing a message are no calls."""
    assert dialect_of(path) is None
