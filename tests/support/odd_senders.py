"""Sends any one recording as it was: the recorded bytes through a plain HTTP client, or a call of the SDK."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import httpx2
import openai
from support import native_sdks, recordings

_OF_OPENAI = ("openai.chat", "openai.completions", "openai.embeddings", "openai.responses")

Recording = dict[str, Any]


def by_http(url: str, recording: Recording) -> None:
    """The recorded bytes to the recorded path."""
    request, path = recording["request"], recording["path"]
    if recording.get("query"):
        path += f"?{recording['query']}"
    if "body_b64" in request:
        body = base64.b64decode(request["body_b64"])
    else:
        body = (request.get("body_text") or json.dumps(request.get("body_json", {}))).encode()
    with httpx2.Client(timeout=20) as client:
        client.request(recording["method"], url + path, content=body)


def sdk_of(recording: Recording) -> str | None:
    """The module of the SDK that can send it; None: no current SDK has such a call."""
    provider, api = recording["provider"], recording["api"]
    if api == "anthropic.messages":
        return "anthropic"
    if api == "anthropic.complete":
        return None
    if api.startswith("bedrock"):
        return "boto3"
    if api.startswith("openai") and provider != "mistral":
        return "openai"
    return native_sdks.MODULES[provider]


def is_installed(module: str) -> bool:
    """Whether an SDK is there, without importing it."""
    return find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None


def by_sdk(url: str, recording: Recording) -> None:
    """A call of the SDK; what that raises of the recorded answer is let through."""
    module, api = sdk_of(recording), recording["api"]
    if module == "anthropic":
        from support import anthropic_recordings

        client = import_module("anthropic").Anthropic(base_url=url, api_key="none", max_retries=0, timeout=20)
        anthropic_recordings.send(client, recording)
    elif module == "boto3":
        native_sdks.bedrock(url, recording)
    elif api == "gemini.interactions":
        _interactions(url, recording)
    elif module != "openai":
        native_sdks.send(recording["provider"], url, recording)
    else:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20) as client:
            if api in _OF_OPENAI:
                recordings.send(client, recording)
            else:
                _OTHERS_OF_OPENAI[api](client, recording)


def _interactions(url: str, recording: Recording) -> None:
    client = native_sdks.gemini_client(import_module("google.genai"), url)
    body = recording["request"]["body_json"]
    answer = client.interactions.create(
        **{key: body[key] for key in ("model", "input", "stream") if key in body}
    )
    if body.get("stream"):
        for _ in answer:
            pass


def _transcription(client: openai.OpenAI, recording: Recording) -> None:
    answer = client.audio.transcriptions.create(
        model="gpt-4o-transcribe",
        file=("voice.wav", b"RIFF", "audio/wav"),
        stream=recording["response"]["headers"]["content-type"].startswith("text/event-stream"),
    )
    if isinstance(answer, openai.Stream):
        for _ in answer:
            pass


def _retrieved(client: openai.OpenAI, recording: Recording) -> None:
    response_id = recording["path"].rpartition("/")[2]
    if "stream=true" in (recording.get("query") or ""):
        for _ in client.responses.retrieve(response_id, stream=True):
            pass
    else:
        client.responses.retrieve(response_id)


_OTHERS_OF_OPENAI: dict[str, Callable[[openai.OpenAI, Recording], None]] = {
    "openai.audio": _transcription,
    "openai.responses.get": _retrieved,
}
