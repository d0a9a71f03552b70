"""Runs the demo's agent under instrumentation and stores what it did, spans going the way they always go."""

from __future__ import annotations

from collections.abc import Sequence

import openai
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import agentprof
from agentprof.pricing import Pricer
from agentprof_collector.demo.agent import Agent, World, run_tasks
from agentprof_collector.demo.server import DemoServer
from agentprof_collector.errors import DemoError
from agentprof_collector.pipeline import Pipeline
from agentprof_collector.receive.otlp import decode_protobuf
from agentprof_collector.stores import Store

_MAX_RETRIES = 2


class _OtlpInMemory(SpanExporter):
    """Keeps each batch as the bytes of the OTLP request that would go over the wire."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.requests.append(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def run_demo(store: Store, *, live: bool = False, model: str | None = None, pace: float = 1.0) -> list[str]:
    """Run the demo's tasks and bring their summaries into the store.

    Args:
        live: ask the API at `OPENAI_BASE_URL` with `OPENAI_API_KEY` instead of the recordings.
        model: used for every call of a live run.
        pace: factor on the waiting times of the recorded world.

    Returns:
        The ids of the tasks, in the order they ran.

    Raises:
        DemoError: live without an API to ask, or the API refused.
    """
    exporter = _OtlpInMemory()
    agentprof.instrument(service_name="agentprof-demo", exporter=exporter, propagate_to=())
    try:
        with DemoServer(pace) as server, _client(server, live=live) as client:
            run_tasks(Agent(client, model if live else None), World(server.tool_url))
        agentprof.flush()
    except openai.APIError as error:
        raise DemoError(f"the model API answered: {error}. Check OPENAI_BASE_URL and --model.") from error
    finally:
        agentprof.uninstrument()
    pipeline = Pipeline(store, Pricer())
    for request in exporter.requests:
        pipeline.accept(decode_protobuf(request).spans)
    ids = pipeline.recompute()
    if not ids:
        raise DemoError("no span was recorded. Is OTEL_SDK_DISABLED set?")
    return [summary.task_id for summary in reversed(store.tasks()) if summary.task_id in ids]


def _client(server: DemoServer, *, live: bool) -> openai.OpenAI:
    if not live:
        return openai.OpenAI(base_url=server.model_url, api_key="demo", max_retries=_MAX_RETRIES)
    try:
        return openai.OpenAI(max_retries=_MAX_RETRIES)
    except openai.OpenAIError as error:
        raise DemoError(
            f"{error} Set OPENAI_API_KEY, and OPENAI_BASE_URL if it is not OpenAI's own."
        ) from error
