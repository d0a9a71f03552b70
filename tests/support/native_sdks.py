"""The SDKs of providers with formats of their own, whose requests go out through plain HTTP clients."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any
from urllib.parse import unquote

MODULES = {"gemini": "google.genai", "vertex": "google.genai", "ollama": "ollama", "cohere": "cohere"}
MODULES |= {"mistral": "mistralai.client", "local": "google.genai", "bedrock": "boto3"}
"""By provider of a recording."""


def send(provider: str, base_url: str, recording: dict[str, Any]) -> None:
    """One call as it was recorded, as far as the SDK's own types take it; a stream is read to its end."""
    body = recording["request"].get("body_json") or {}
    model = body.get("model") or recording.get("path_model") or "m"
    sdk = import_module(MODULES[provider])
    streams = bool(recording["path"].find(":stream") >= 0 or body.get("stream"))
    answer = _SENDERS[provider](sdk, base_url, recording["api"], model, body, streams)
    if streams:
        for _ in answer:
            pass


def gemini_client(sdk: Any, base_url: str) -> Any:
    """A client for another host."""
    return sdk.Client(api_key="none", http_options={"base_url": base_url, "timeout": 20_000})


def _gemini(sdk: Any, url: str, api: str, model: str, body: dict[str, Any], streams: bool) -> Any:
    client = gemini_client(sdk, url)  # to be held: it closes when it is dropped
    models = client.models
    if api == "gemini.interactions":
        options = body["generation_config"]
        items = client.interactions.create(
            model=model, input=body["input"], generation_config=options, stream=streams
        )
        return (item for item in items if client is not None) if streams else items
    if api == "gemini.embed":
        texts = [part["text"] for one in body.get("requests", [body]) for part in one["content"]["parts"]]
        return models.embed_content(model=model, contents=texts)
    asked = {"model": model, "contents": body.get("contents") or "none"}
    config = {"system_instruction": body.get("systemInstruction")}
    try:
        sdk.types._GenerateContentParameters(**asked, config=config)
    except ValueError:  # what these types do not know
        asked, config = {"model": model, "contents": "none"}, {}
    if not streams:
        return models.generate_content(**asked, config=config)
    chunks = models.generate_content_stream(**asked, config=config)
    return (chunk for chunk in chunks if client is not None)


def _ollama(sdk: Any, url: str, api: str, model: str, body: dict[str, Any], streams: bool) -> Any:
    client = sdk.Client(host=url)
    if api == "ollama.generate":
        return client.generate(model=model, prompt=body["prompt"], stream=streams)
    return client.chat(model=model, messages=body["messages"], tools=body.get("tools"), stream=streams)


def _cohere(sdk: Any, url: str, api: str, model: str, body: dict[str, Any], streams: bool) -> Any:
    if "message" in body:
        old = sdk.Client("none", base_url=url, timeout=20, max_retries=0)
        return (old.chat_stream if streams else old.chat)(message=body["message"], model=model)
    client = sdk.ClientV2("none", base_url=url, timeout=20, max_retries=0)
    if api == "cohere.embed":
        return client.embed(model=model, texts=body["texts"], input_type=body["input_type"])
    method = client.chat_stream if streams else client.chat
    more = {"tools": body["tools"]} if body.get("tools") else {}
    return method(model=model, messages=body["messages"], **more)


def _mistral(sdk: Any, url: str, api: str, model: str, body: dict[str, Any], streams: bool) -> Any:
    client = sdk.Mistral(api_key="none", server_url=url, timeout_ms=20_000)
    if api == "openai.embeddings":
        return client.embeddings.create(model=model, inputs=body["input"])
    method = client.chat.stream if streams else client.chat.complete
    more = {"tools": body["tools"]} if body.get("tools") else {}
    return method(model=model, messages=body["messages"], **more)


def bedrock_client(sdk: Any, base_url: str) -> Any:
    """A client for another host that tries once."""
    config = import_module("botocore.config").Config(retries={"total_max_attempts": 1})
    return sdk.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=base_url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )


def bedrock(base_url: str, recording: dict[str, Any]) -> None:
    """One call to Bedrock as it was recorded; of a conversation only that there is one."""
    client = bedrock_client(import_module("boto3"), base_url)
    model = unquote(recording["path"].partition("/model/")[2].rpartition("/")[0])
    streams = recording["path"].endswith("-stream")
    if recording["api"] == "bedrock.converse":
        method = client.converse_stream if streams else client.converse
        answer = method(modelId=model, messages=[{"role": "user", "content": [{"text": "none"}]}])
        for _ in answer["stream"] if streams else ():
            pass
        return
    body = json.dumps(recording["request"]["body_json"])
    if not streams:
        client.invoke_model(modelId=model, body=body)["body"].read()
        return
    for _ in client.invoke_model_with_response_stream(modelId=model, body=body)["body"]:
        pass


_SENDERS = {
    "gemini": _gemini,
    "vertex": _gemini,
    "local": _gemini,
    "ollama": _ollama,
    "cohere": _cohere,
    "mistral": _mistral,
}
