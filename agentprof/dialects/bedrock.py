"""Amazon Bedrock: Converse, whole and streamed.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from agentprof.dialects import _aws_frames
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, Asked, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format, Frames, Told
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.model import Phase, PhaseName, Usage

_MODEL: Final = re.compile(r"/model/(.+)/(converse|converse-stream|invoke|invoke-with-response-stream)$")
_NS_PER_MS: Final = 1_000_000
_LONGEST_MS: Final = 10**12


class CacheDetail(msgspec.Struct, rename="camel"):
    """Cache writes that are kept for the same time."""

    ttl: str | None = None
    input_tokens: Count | None = None


class RawUsage(msgspec.Struct, rename="camel"):
    """Usage as sent: the cache stands beside the input, under other names where Nova is invoked."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_write_input_tokens: Count | None = None
    cache_read_input_token_count: Count | None = None
    cache_write_input_token_count: Count | None = None
    cache_details: list[CacheDetail] | None = None


class Metrics(msgspec.Struct, rename="camel"):
    """What the service measured."""

    latency_ms: int | None = None


class ToolUse(msgspec.Struct, rename="camel"):
    """A tool that is asked for, or that ran at the provider."""

    name: str | None = None
    type: str | None = None
    tool_use_id: str | None = None


class Block(msgspec.Struct, rename="camel"):
    """A block of the content, or what an event adds to one."""

    text: Any = None
    reasoning_content: Any = None
    tool_use: ToolUse | None = None


class Message(msgspec.Struct):
    """A message."""

    content: list[Block] | None = None


class Output(msgspec.Struct):
    """What holds the message."""

    message: Message | None = None


class Tier(msgspec.Struct):
    """The service tier."""

    type: str | None = None


class Body(msgspec.Struct, rename="camel"):
    """A whole answer, or an event of a stream; the names of its fields tell which."""

    output: Output | None = None
    stop_reason: str | None = None
    usage: RawUsage | None = None
    metrics: Metrics | None = None
    service_tier: Tier | None = None
    start: Block | None = None
    delta: Block | None = None
    content_block_index: int | None = None
    error: Any = None


_read_body = Tolerant(Body)


class Converse(Format):
    """Converse."""

    name = "bedrock.converse"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/converse", "/converse-stream")
    request_fields: tuple[str, ...] = ("messages",)
    sections: tuple[tuple[str, str], ...] = (("system", "system"), ("toolConfig", "tools"))
    conversation = "messages"
    results_in_messages = True
    path_tells = True
    provider = "aws.bedrock"

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """Model and streaming."""
        return told(path)

    def asked(self, body: bytes) -> Asked:
        """Nothing that the path does not say."""
        return Asked()

    def frames(self, start: bytes) -> Frames | None:
        """Frames of bytes."""
        return _aws_frames.Frames(_payload) if _aws_frames.is_frame(start) else None

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        read = _read_body(body)
        if read is None:
            return
        note_end(read, answer)
        message = read.output.message if read.output is not None else None
        for place, block in enumerate(message.content or () if message is not None else ()):
            _note_tool(block, place, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            event = _read_body(data)
            return NOTHING if event is None else note_event(event, answer)

        return read_event


def told(path: str) -> Told | None:
    """Model and streaming, as a path of Bedrock says them."""
    found = _MODEL.search(path)
    return Told(unquote(found[1]), found[2].endswith("-stream")) if found is not None else None


def _payload(kind: str, payload: bytes) -> bytes:
    return payload  # its fields tell the kind


def note_time(answer: Answer, phase: PhaseName, ms: object, field: str) -> None:
    """Note a time the service reports in milliseconds; what is none is left out."""
    if type(ms) is int and 0 <= ms < _LONGEST_MS:
        answer.phases[phase] = Phase(ns=ms * _NS_PER_MS, source="reported", field=field)


def note_event(event: Body, answer: Answer) -> int:
    """Note an event of a stream; says which tokens it carried."""
    if event.error:
        answer.error_type = error_type(event.error)
    note_end(event, answer)
    if event.start is not None:
        return _note_tool(event.start, event.content_block_index, answer)
    delta = event.delta
    if delta is None:
        return NOTHING
    if delta.text or delta.tool_use is not None:
        return CONTENT
    thought = delta.reasoning_content
    return THINKING if isinstance(thought, dict) and thought.get("text") else NOTHING


def _note_tool(block: Block, place: object, answer: Answer) -> int:
    used = block.tool_use
    if used is None or not used.name:
        return NOTHING
    if used.type == "server_tool_use":
        answer.server_tools[used.name] = answer.server_tools.get(used.name, 0) + 1
    else:
        answer.tool_calls[place] = used.name
        if used.tool_use_id:
            answer.tool_ids[place] = used.tool_use_id
    return CONTENT


def note_end(read: Body, answer: Answer) -> None:
    """Note what stands beside the content: why it ended, usage, tier, time."""
    if read.stop_reason:
        answer.finish_reasons[0] = read.stop_reason
    if read.service_tier is not None and read.service_tier.type:
        answer.service_tier = read.service_tier.type
    if read.metrics is not None:
        note_time(answer, "model", read.metrics.latency_ms, "metrics.latencyMs")
    raw = read.usage
    if raw is None or (raw.input_tokens is None and raw.output_tokens is None):
        return
    reads, writes = raw.cache_read_input_tokens, raw.cache_write_input_tokens
    reads = raw.cache_read_input_token_count if reads is None else reads
    writes = raw.cache_write_input_token_count if writes is None else writes
    cached = (reads or 0) + (writes or 0)
    given = raw.input_tokens + cached if raw.input_tokens is not None else None
    kept = [one.input_tokens or 0 for one in raw.cache_details or () if one.ttl == "1h"]
    both = (given or 0) + (raw.output_tokens or 0)
    answer.usage = Usage(
        input=given,
        output=raw.output_tokens,
        cache_read=reads,
        cache_write=writes,
        cache_write_1h=sum(kept) if kept else None,
        total_differs=None not in (given, raw.output_tokens, raw.total_tokens)
        and raw.total_tokens not in (both, both - cached),
    )
