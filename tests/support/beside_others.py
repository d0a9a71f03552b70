"""A program with other instrumentations beside agentprof: makes calls, prints the summaries, writes the spans.

Use: beside_others.py URL OTLP-FILE INSTRUMENTATION...  where one of them is `agentprof`; they start in this order.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

import openai
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentprof

OTHERS = {
    "openllmetry": "opentelemetry.instrumentation.openai",
    "openinference": "openinference.instrumentation.openai",
    "genai": "opentelemetry.instrumentation.genai.openai",
}
MODEL = "gpt-4o-mini"
ASKED: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
INPUT: dict[str, Any] = {"model": MODEL, "input": "hi"}


def _chat(client: openai.OpenAI) -> Any:
    return client.chat.completions.create(**ASKED)


def _stream(client: openai.OpenAI) -> Any:
    return list(client.chat.completions.create(**ASKED, **USAGE))


def _responses(client: openai.OpenAI) -> Any:
    return client.responses.create(**INPUT)


def _responses_stream(client: openai.OpenAI) -> Any:
    return list(client.responses.create(**INPUT, stream=True))


def _embeddings(client: openai.OpenAI) -> Any:
    return client.embeddings.create(model=MODEL, input="hi")


def _refused(client: openai.OpenAI) -> Any:
    try:
        client.with_options(base_url=f"{client.base_url}refused").chat.completions.create(**ASKED)
    except openai.BadRequestError:
        return None
    raise AssertionError("the request was not refused")


def _async(url: str, work: Callable[[openai.AsyncOpenAI], Any]) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(api_key="x", base_url=url) as client:
            await work(client)

    asyncio.run(run())


async def _chat_async(client: openai.AsyncOpenAI) -> None:
    await client.chat.completions.create(**ASKED)


async def _stream_async(client: openai.AsyncOpenAI) -> None:
    async for _ in await client.chat.completions.create(**ASKED, **USAGE):
        pass


async def _at_once(client: openai.AsyncOpenAI) -> None:
    await asyncio.gather(*(_chat_async(client) for _ in range(5)))


def main(url: str, file: str, *instrumentations: str) -> None:
    """Make one call a task, in every style, then five at once; print what `task.summary()` counts."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for name in instrumentations:
        if name == "agentprof":
            agentprof.instrument(tracer_provider=provider)
        else:
            importlib.import_module(OTHERS[name]).OpenAIInstrumentor().instrument(tracer_provider=provider)
    found: dict[str, Any] = {}
    with openai.OpenAI(api_key="x", base_url=url, max_retries=2) as client:
        plain = (_chat, _stream, _responses, _responses_stream, _embeddings, _refused)
        work: dict[str, Callable[[], Any]] = {
            way.__name__.strip("_"): lambda way=way: way(client)  # type: ignore[misc]
            for way in plain
        }
        for way in (_chat_async, _stream_async, _at_once):
            work[way.__name__.strip("_")] = lambda way=way: _async(url, way)  # type: ignore[misc]
        for name, do in work.items():
            with agentprof.task(name) as task:
                do()
            summary = task.summary().to_dict()
            found[name] = {key: summary[key] for key in ("calls", "tokens", "cost_usd", "attempts")}
    spans = exporter.get_finished_spans()
    with open(file, "wb") as stream:
        stream.write(encode_spans(spans).SerializeToString())
    scopes = sorted({span.instrumentation_scope.name for span in spans if span.instrumentation_scope})
    print(json.dumps({"tasks": found, "scopes": scopes, "failures": agentprof.stats().failures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
