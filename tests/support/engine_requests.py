"""Real requests to an inference engine as the spans a client would have made of them, without the engine's times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from support.raw import call_span, task_span

from agentprof.model import RawSpan

SECOND = 1_000_000_000
Request = Mapping[str, Any]


def requests(shared: Path, slots: int) -> list[Request]:
    """The streamed requests to llama.cpp's server with so many slots."""
    lines = (shared / "data/engine/llama_cpp_requests.jsonl").read_text(encoding="utf8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row.get("slots") == slots and "t_first_content" in row]


def queue_ns(request: Request) -> int:
    """The truth: what is left before the first token."""
    return round((request["t_first_content"] - request["t_send"]) * SECOND) - prefill_ns(request)


def prefill_ns(request: Request) -> int:
    """The truth, as the engine reports it."""
    return round(request["timings"]["prompt_ms"] * 1e6)


def spans(requests: Sequence[Request], task: str) -> list[RawSpan]:
    """The requests as one task, a call each."""
    trace = task.encode().hex().rjust(32, "0")[-32:]
    begin = min(_ns(request["t_send"]) for request in requests)
    end = max(_ns(request["t_done"]) for request in requests)
    root = msgspec.structs.replace(task_span(trace, task, name=task, start=begin), end_ns=end)
    return [root, *(_call(trace, task, request, begin) for request in requests)]


def _call(trace: str, task: str, request: Request, begin: int) -> RawSpan:
    start, first = _ns(request["t_send"]), _ns(request["t_first_content"])
    usage = request["usage"]
    more: dict[str, Any] = {
        "gen_ai.provider.name": "black-box",
        "gen_ai.request.model": "small",
        "gen_ai.response.model": "small",
        "gen_ai.usage.input_tokens": usage["prompt_tokens"],
        "gen_ai.usage.output_tokens": usage["completion_tokens"],
        "gen_ai.usage.cache_read.input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "server.address": "10.0.0.1",
        "agentprof.first_token": (first - start) / SECOND,
        "agentprof.first_content": (first - start) / SECOND,
        "agentprof.stream.end": "complete",
        "agentprof.attempts": 1,
    }
    return call_span(
        trace,
        task,
        f"call-{request['conc']}-{request['i']}",
        at=(start - begin) / SECOND,
        seconds=(_ns(request["t_done"]) - start) / SECOND,
        start=begin,
        **more,
    )


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)
