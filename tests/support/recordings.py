"""Recorded traffic of real model APIs, served on loopback and sent through the SDK as it was recorded."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from functools import cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import openai


class Recordings:
    """The recordings of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.replay = _load(folder / "replay.py")

    @cached_property
    def truths(self) -> dict[str, dict[str, Any]]:
        """What is true of each recording, by its name; computed without any SDK."""
        lines = (self._folder / "truth.jsonl").read_text(encoding="utf8").splitlines()
        return {truth["name"]: truth for truth in map(json.loads, lines)}

    def recorded(self, name: str) -> dict[str, Any]:
        """One of them as it was recorded."""
        text = (self._folder / "recordings" / f"{name}.json").read_text(encoding="utf8")
        found: dict[str, Any] = json.loads(text)
        return found

    def served(self, **options: Any) -> Any:
        """A server of all of them, as a context manager; options are those of its class."""
        return self.replay.ReplayServer(str(self._folder), **options)


def _load(path: Path) -> Any:
    spec = spec_from_file_location(f"shared_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _method(client: openai.OpenAI, api: str, path: str) -> Callable[..., Any]:
    if api == "openai.chat":
        return client.chat.completions.create
    if api == "openai.completions":
        return client.completions.create
    if api == "openai.embeddings":
        return client.embeddings.create
    return client.responses.compact if path.endswith("/compact") else client.responses.create


def send(client: openai.OpenAI, recording: dict[str, Any]) -> None:
    """One call as the recorded program made it; what the SDK's method does not know goes into the body."""
    request = recording["request"]
    is_embedding = recording["api"] == "openai.embeddings"
    if not isinstance(request.get("body_json"), dict) or (
        is_embedding and "input" not in request["body_json"]
    ):
        # Not a request the SDK's methods would make: through its generic one, as the bytes they were.
        text = request.get("body_text") or json.dumps(request.get("body_json", {}))
        end = "/embeddings" if is_embedding else "/chat/completions"
        client.post(end, cast_to=object, content=text.encode())
        return
    body = dict(request["body_json"])
    if "model" not in body and recording.get("path_model"):
        body["model"] = recording["path_model"]
    method = _method(client, recording["api"], recording["path"])
    known = set(inspect.signature(method).parameters) - {
        "extra_body",
        "extra_headers",
        "extra_query",
        "timeout",
    }
    named = {key: value for key, value in body.items() if key in known}
    answer = method(**named, extra_body={key: body[key] for key in body if key not in known})
    if body.get("stream"):
        for _ in answer:
            pass
