"""Ways to call Bedrock through boto3, each with what its span must say. Runs with many versions of it.

As a program it prints what the installed version gives, as JSON: `{style: [what is missing]}`, `null` for a style the
version does not have.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import random
from collections.abc import Callable
from typing import Any

from support import styles
from support.aws_frames import chunk, frame
from support.model_server import ModelServer, Reply
from support.styles import Style

MODEL = "amazon.nova-micro-v1:0"
_ASKED = [{"role": "user", "content": [{"text": "Say hello."}]}]
_USAGE = {"inputTokens": 100, "outputTokens": 6, "totalTokens": 106}
_JSON = "application/json"
_EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"delta": {"text": "Hel"}, "contentBlockIndex": 0}),
    ("contentBlockDelta", {"delta": {"text": "lo."}, "contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": _USAGE, "metrics": {"latencyMs": 1}}),
]
_FRAMED = {"content-type": "application/vnd.amazon.eventstream"}
WHOLE = Reply.json(
    {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
        "stopReason": "end_turn",
        "usage": _USAGE,
        "metrics": {"latencyMs": 1},
    }
)
CONVERSED = Reply(
    [
        frame(json.dumps(event).encode(), event_type=kind, content_type=_JSON, message_type="event")
        for kind, event in _EVENTS
    ],
    headers=_FRAMED,
    framing="chunked",
)
INVOKED = Reply(
    [chunk(json.dumps({kind: event}).encode()) for kind, event in _EVENTS], headers=_FRAMED, framing="chunked"
)
CONTINUED = Reply.json(
    {"outputs": [{"text": " world", "stop_reason": "stop"}]},
    x_amzn_bedrock_input_token_count="100",
    x_amzn_bedrock_output_token_count="6",
)
EMBEDDED = Reply.json({"embedding": [0.1]}, x_amzn_bedrock_input_token_count="100")
REFUSED = Reply.json({"message": "slow"}, 429, x_amzn_errortype="ThrottlingException")
BROKEN = Reply.json({"message": "broken"}, 500)

_HAS = ("one span", "asked model", "tokens", "attempts", "finish")
_STREAMS = (*_HAS, "first token", "end of stream")


def _client(url: str, mode: str = "standard", attempts: int = 3, timeout: float = 20) -> Any:
    config = importlib.import_module("botocore.config").Config(
        retries={"mode": mode, "total_max_attempts": attempts}, read_timeout=timeout
    )
    return importlib.import_module("boto3").client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )


def _converse(server: ModelServer) -> Any:
    answer = _client(server.url).converse(modelId=MODEL, messages=_ASKED)
    return answer["output"], answer["usage"]


def _converse_stream(server: ModelServer) -> Any:
    answer = _client(server.url).converse_stream(modelId=MODEL, messages=_ASKED)
    return list(answer["stream"])


def _invoke(body: dict[str, Any], **how: Any) -> Callable[[ModelServer], Any]:
    def run(server: ModelServer) -> Any:
        random.seed(1)  # of the pauses
        try:
            answer = _client(server.url, **how).invoke_model(modelId=MODEL, body=json.dumps(body))
        except Exception as error:  # noqa: BLE001
            return type(error).__name__
        return answer["body"].read(), answer["ResponseMetadata"]["RetryAttempts"]

    return run


def _invoke_stream(server: ModelServer) -> Any:
    body = json.dumps({"messages": _ASKED})
    return list(_client(server.url).invoke_model_with_response_stream(modelId=MODEL, body=body)["body"])


def styles_of() -> tuple[Style, ...]:
    """All ways to call it that are tried."""
    slow = Reply(WHOLE.body, headers=WHOLE.headers, wait_s=0.6)
    repeated = (REFUSED, BROKEN, WHOLE)
    chat = {"messages": _ASKED}

    def invoked(
        name: str, replies: tuple[Reply, ...], expects: tuple[str, ...], *failed: str, **how: Any
    ) -> Style:
        run = _invoke(how.pop("body", chat), **how)
        return Style(name, "invoke_model", replies, run, expects, failed, "ReadTimeoutError")

    return (
        Style("Converse", "converse", (WHOLE,), _converse, _HAS),
        Style("Converse, stream", "converse_stream", (CONVERSED,), _converse_stream, _STREAMS),
        invoked("invoked", (WHOLE,), _HAS),
        Style("invoked, stream", "invoke_model_with_response_stream", (INVOKED,), _invoke_stream, _STREAMS),
        invoked("invoked, counts in headers", (CONTINUED,), _HAS, body={"prompt": "hi"}),
        invoked(
            "embeddings",
            (EMBEDDED,),
            ("one span", "asked model", "input tokens", "attempts"),
            body={"inputText": "hi", "normalize": True},
        ),
        invoked("retries, legacy", repeated, (*_HAS, "pauses"), "429", "500", mode="legacy"),
        invoked("retries, standard", repeated, (*_HAS, "pauses"), "429", "500", mode="standard"),
        invoked("retries, adaptive", repeated, _HAS, "429", "500", mode="adaptive"),
        invoked(
            "timeout",
            (slow,),
            ("one span", "attempts", "error"),
            "timeout",
            "timeout",
            attempts=2,
            timeout=0.1,
        ),
        invoked("refusal", (REFUSED,), ("one span", "attempts", "refusal"), "429", attempts=1),
    )


def main() -> None:
    """Print what the installed version gives."""
    client = _client("http://127.0.0.1:1")
    found = {
        style.name: styles.missing(style, MODEL) if styles.has(client, style) else None
        for style in styles_of()
    }
    version = importlib.metadata.version("boto3")
    print(json.dumps({"sdk": "boto3", "version": version, "http": "urllib3", "styles": found}))


if __name__ == "__main__":
    main()
