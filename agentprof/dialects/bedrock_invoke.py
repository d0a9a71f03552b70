"""Models of Amazon Bedrock that are invoked with bodies of their own: each family has its format.

What a body leaves out stands in headers, in a stream beside its last event
(https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModel.html).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

import msgspec

from agentprof.dialects import bedrock_text
from agentprof.dialects._answer import NOTHING, Answer, Asked, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._format import Format, Frames, Told
from agentprof.dialects._tolerant import Tolerant
from agentprof.dialects.anthropic_messages import Messages
from agentprof.dialects.bedrock import Body, Converse, note_event, note_time, told
from agentprof.dialects.openai_chat import Chat
from agentprof.model import Usage

_HEADERS: Final = b"x-amzn-bedrock-"
_COUNTS: Final = ("input", "output", "cache-read-input", "cache-write-input")
_DIGITS: Final = 12
_METRICS: Final = b'"amazon-bedrock-invocationMetrics"'


class Metrics(msgspec.Struct, rename="camel"):
    """What the service counted and measured: the cache stands beside the input."""

    input_token_count: Count | None = None
    output_token_count: Count | None = None
    cache_read_input_token_count: Count | None = None
    cache_write_input_token_count: Count | None = None
    invocation_latency: int | None = None
    first_byte_latency: int | None = None


class Last(msgspec.Struct):
    """The last event of a stream."""

    metrics: Metrics | None = msgspec.field(default=None, name="amazon-bedrock-invocationMetrics")


class NovaEvent(msgspec.Struct, rename="camel"):
    """An event of a stream of Nova: that of Converse below its name."""

    content_block_start: Body | None = None
    content_block_delta: Body | None = None
    message_stop: Body | None = None
    metadata: Body | None = None
    error: object = None


class Counted(msgspec.Struct):
    """What embeddings say of their input."""

    inputTextTokenCount: Count | None = None


_read_last = Tolerant(Last)
_read_nova = Tolerant(NovaEvent)
_read_counted = Tolerant(Counted)


class Invoked(Format):
    """What holds for all families: what they leave out is read from headers and from the end of a stream."""

    path_tells = True
    reads_headers = True
    text_key = b""
    usage_if_asked = False
    provider = "aws.bedrock"

    def frames(self, start: bytes) -> Frames | None:
        """An event stands in a frame of AWS."""
        return Messages().frames(start)

    def read_headers(self, headers: Iterable[tuple[bytes, bytes]], answer: Answer) -> None:
        """Counts, where the body has not all of them (a guardrail takes some out), and the time it took."""
        found = {
            name.lower().removeprefix(_HEADERS).decode("latin-1"): int(value)
            for name, value in headers
            if name.lower().startswith(_HEADERS) and value.isdigit() and len(value) < _DIGITS
        }
        counts = [found.get(f"{what}-token-count") for what in _COUNTS]
        usage = answer.usage
        if (usage is None or usage.output is None) and counts != [None] * len(_COUNTS):
            answer.usage = _usage(*counts)
        if "model" not in answer.phases:
            note_time(answer, "model", found.get("invocation-latency"), "x-amzn-bedrock-invocation-latency")


class OfAnthropic(Invoked, Messages):
    """A model of Anthropic."""

    request_fields: tuple[str, ...] = ("anthropic_version",)
    text_key = b""

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        super().read_body(body, answer)
        answer.model = None  # that of the path says more: place and version

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return _metered(super().event_reader(answer), answer)


class OfNova(Invoked, Converse):
    """A model of Amazon's Nova family: the names of Converse."""

    text_key = b""

    def frames(self, start: bytes) -> Frames | None:
        """As all that are invoked, not as Converse."""
        return Invoked.frames(self, start)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            event = _read_nova(data)
            if event is None:
                return NOTHING
            parts = (
                event.content_block_start,
                event.content_block_delta,
                event.message_stop,
                event.metadata,
            )
            tokens = [note_event(part, answer) for part in parts if part is not None]
            if event.error:
                note_event(Body(error=event.error), answer)
            return max(tokens, default=NOTHING)

        return _metered(read_event, answer)


class OfOpenAI(Invoked, Chat):
    """Models of OpenAI, Mistral, Qwen, DeepSeek, AI21 and others that take and give the format of chat."""

    text_key = b""
    usage_if_asked = False

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        super().read_body(body, answer)
        answer.model = None

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return _metered(super().event_reader(answer), answer)


class OfText(Invoked):
    """Models that continue a text: Titan, Llama, Mistral, Command, J2, the first of Anthropic, and imported ones."""

    name = "bedrock.text"
    operation = "text_completion"
    sections: tuple[tuple[str, str], ...] = (("prompt", "user"), ("inputText", "user"))

    def asked(self, body: bytes) -> Asked:
        """Nothing that the path does not say."""
        return Asked()

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        bedrock_text.read_body(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream; what the service counted holds, since it bills that."""
        return _metered(bedrock_text.event_reader(answer), answer, counts_hold=True)


class OfCommand(OfText):
    """Cohere's Command R."""

    name = "bedrock.command"
    operation = "chat"
    sections: tuple[tuple[str, str], ...] = (
        ("preamble", "system"),
        ("tools", "tools"),
        ("message", "user"),
        ("documents", "tool_results"),
        ("tool_results", "tool_results"),
    )
    conversation = "chat_history"


class OfEmbeddings(Invoked):
    """Embeddings of Titan, Nova and Cohere."""

    name = "bedrock.embeddings"
    operation = "embeddings"
    sections: tuple[tuple[str, str], ...] = tuple(
        (name, "user")
        for name in ("inputText", "inputImage", "texts", "images", "inputs", "singleEmbeddingParams")
    )

    def asked(self, body: bytes) -> Asked:
        """Nothing that the path does not say."""
        return Asked()

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read what a whole answer says of its input."""
        read = _read_counted(body)
        if read is not None and read.inputTextTokenCount is not None:
            answer.usage = Usage(input=read.inputTextTokenCount)

    def event_reader(self, answer: Answer) -> EventReader:
        """Nothing of it is streamed."""
        return lambda data: NOTHING


_ANTHROPIC, _NOVA, _OPENAI, _TEXT = OfAnthropic(), OfNova(), OfOpenAI(), OfText()
_COMMAND, _EMBEDDINGS = OfCommand(), OfEmbeddings()
_OF_NOVA: Final = ("schemaVersion", "inferenceConfig", "toolConfig")
_OF_EMBEDDINGS: Final = ("texts", "images", "inputs", "inputImage", "normalize", "dimensions")
_OF_EMBEDDINGS_TOO: Final = ("singleEmbeddingParams", "embeddingConfig", "embeddingTypes")


class Invoke(Invoked):
    """Any of them: the names in a request tell the family, since the model in the path may be an alias."""

    name = "bedrock.invoke"
    operation = "chat"
    endpoints: tuple[str, ...] = ("/invoke", "/invoke-with-response-stream")
    request_fields: tuple[str, ...] = (
        *("anthropic_version", "messages", "prompt", "message", "inputText"),
        *("texts", "images", "inputs", "inputImage", "singleEmbeddingParams"),
    )

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """Model, streaming, and which family is asked."""
        found = told(path)
        return found._replace(dialect=_family(found.model or "", names)) if found is not None else None

    def asked(self, body: bytes) -> Asked:
        """Nothing that the path does not say."""
        return Asked()

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Of an unknown family nothing but what headers say is read."""

    def event_reader(self, answer: Answer) -> EventReader:
        """Of an unknown family only the end of the stream is read."""
        return _metered(lambda data: NOTHING, answer)


def _family(model: str, names: Container[str]) -> Invoked:
    if "anthropic_version" in names:
        return _ANTHROPIC
    if "messages" in names:
        is_nova = ".nova-" in model or any(name in names for name in _OF_NOVA)
        return _NOVA if is_nova else _OPENAI
    if "message" in names:
        return _COMMAND
    if "embed" in model or any(name in names for name in (*_OF_EMBEDDINGS, *_OF_EMBEDDINGS_TOO)):
        return _EMBEDDINGS
    return _TEXT


def _usage(given: int | None, output: int | None, reads: int | None, writes: int | None) -> Usage:
    return Usage(
        input=None if given is None else given + (reads or 0) + (writes or 0),
        output=output,
        cache_read=reads,
        cache_write=writes,
    )


def _metered(read: EventReader, answer: Answer, *, counts_hold: bool = False) -> EventReader:
    """A reader that also takes what stands beside the last event.

    Args:
        counts_hold: Whether its counts hold where events have some too.
    """

    def read_event(data: bytes) -> int:
        tokens = read(data)
        answer.model = None  # that of the path says more
        if _METRICS in data:
            last = _read_last(data)
            if last is not None and last.metrics is not None:
                _note_metrics(last.metrics, answer, counts_hold)
        return tokens

    return read_event


def _note_metrics(found: Metrics, answer: Answer, counts_hold: bool) -> None:
    answer.whole = True
    counts = (
        found.input_token_count,
        found.output_token_count,
        found.cache_read_input_token_count,
        found.cache_write_input_token_count,
    )
    usage = answer.usage
    if (counts_hold or usage is None or usage.output is None) and counts != (None,) * len(counts):
        answer.usage = _usage(*counts)
    section = "amazon-bedrock-invocationMetrics"
    note_time(answer, "wait", found.first_byte_latency, f"{section}.firstByteLatency")
    note_time(answer, "model", found.invocation_latency, f"{section}.invocationLatency")
