"""Recorded traffic of Anthropic messages, sent through the SDK as it was recorded."""

from __future__ import annotations

import inspect
from typing import Any

import anthropic


def send(client: anthropic.Anthropic, recording: dict[str, Any]) -> None:
    """One call as the recorded program made it; what the SDK's method does not know goes into the body."""
    body = dict(recording["request"]["body_json"])
    messages: Any = client.beta.messages if "beta=true" in (recording.get("query") or "") else client.messages
    known = set(inspect.signature(messages.create).parameters) - {
        "extra_body",
        "extra_headers",
        "extra_query",
        "timeout",
    }
    named = {key: value for key, value in body.items() if key in known}
    answer = messages.create(**named, extra_body={key: body[key] for key in body if key not in known})
    if body.get("stream"):
        for _ in answer:
            pass
