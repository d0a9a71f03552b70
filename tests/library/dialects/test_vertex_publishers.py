"""Models of other publishers on Vertex AI: format and model by body and path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentprof.dialects import Answer, Told, asked_in, dialect_of

HOME = "/v1/projects/p/locations/europe-west4/publishers"
MESSAGES: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
MISTRAL = MESSAGES | {"model": "mistral-small-2503", "stream": False}
CLAUDE = MESSAGES | {"anthropic_version": "vertex-2023-10-16", "max_tokens": 9, "stream": True}


def told(path: str, body: dict[str, Any]) -> Any:
    """What is known of a request."""
    dialect = dialect_of(path)
    return None if dialect is None else asked_in(dialect, path, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (
            "mistralai/models/mistral-small-2503:rawPredict",
            MISTRAL,
            ("mistral-small-2503", False, "openai.chat"),
        ),
        (
            "mistralai/models/codestral:streamRawPredict",
            MISTRAL,
            ("codestral", True, "openai.chat"),
        ),
        (
            "anthropic/models/claude-sonnet-4%4020250514:streamRawPredict",
            CLAUDE,
            ("claude-sonnet-4@20250514", True, "anthropic.messages"),
        ),
    ],
)
def test_format_and_model(path: str, body: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """The publisher's own format, with Google as who serves it."""
    found = told(f"{HOME}/{path}", body)
    assert isinstance(found, Told)
    assert (found.model, found.stream, found.dialect.name) == expected
    assert found.dialect.provider == "gcp.vertex_ai"
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "input_tokens": 7, "output_tokens": 2}
    answer = Answer()
    found.dialect.read_body(json.dumps({"usage": usage}).encode(), answer)
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output) == (7, 2)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{HOME}/mistralai/models/mistral-ocr:rawPredict", {"document": {}}),
        ("/v1/projects/p/locations/l/endpoints/1:rawPredict", MISTRAL),
        (f"{HOME}/anthropic/models/count-tokens:rawPredict", CLAUDE),
    ],
)
def test_what_is_no_call(path: str, body: dict[str, Any]) -> None:
    """Other bodies, endpoints of models of one's own, and counting tokens."""
    assert told(path, body) is None
