"""What the bytes of model APIs mean: one module a wire format, all found through `DIALECTS`.

A dialect reads serialised requests and received answers. It imports no SDK, touches no object of the
program, and takes any bytes: what it cannot read stays unknown.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from importlib import import_module
from typing import Any, Final, Protocol

from agentprof.dialects import openai_chat, openai_embeddings, openai_media, openai_responses
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, Asked, EventReader
from agentprof.dialects._fields import fields_of, flag_in, text_in
from agentprof.dialects._format import Format, Frames, Told

__all__ = [
    "CONTENT",
    "DIALECTS",
    "LATE_DIALECTS",
    "NOTHING",
    "THINKING",
    "Answer",
    "Asked",
    "Dialect",
    "EventReader",
    "Format",
    "Frames",
    "Told",
    "asked_by",
    "asked_in",
    "dialect_of",
]


class Dialect(Protocol):
    """One wire format."""

    name: str
    operation: str
    """As the GenAI conventions call it: `chat`, `embeddings`, `text_completion`, `generate_content`; `moderation`
    has no name there."""
    endpoints: tuple[str, ...]
    """Ends of the paths it is served on; only POST is a call."""
    request_fields: tuple[str, ...]
    """Fields of which every request has one: they tell it from what others post to such a path."""
    sections: tuple[tuple[str, str], ...]
    """Fields of a request that are a section of the input as a whole, with its name."""
    conversation: str
    """The field whose items each belong to a section; empty: there is none."""
    results_in_messages: bool
    """Whether results of tools are parts of the messages of the user."""
    text_key: bytes
    """The key of the text in an event of a stream, with its colon; empty: there is none."""
    type_says_all: bool
    """Whether events name their type, so that one of a text type has nothing else of interest."""

    usage_if_asked: bool
    """Whether a stream has usage only if the request asks for it with `stream_options`."""
    may_be_binary: bool
    """Whether an answer may be neither JSON nor events."""
    needs_model: bool
    """Whether a body without a model is none of its requests: others post such bodies to such paths."""
    path_tells: bool
    """Whether the path says model and streaming, and only some paths with its endings are its own."""
    streams_unasked: bool
    """Whether an answer is streamed unless the request says otherwise."""
    reads_headers: bool
    """Whether headers of an answer say what its body need not."""
    provider: str | None
    """Who serves it where the host does not tell; None: anybody may."""

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """What the path says of a request whose body has these names; None: it is no path of this format.

        Where the path does not tell: the format that these names are of, if another is served on the path too.
        """

    def frames(self, start: bytes) -> Frames | None:
        """What splits a stream that begins with these bytes; None: it is one of server-sent events."""

    def asked(self, body: bytes) -> Asked:
        """Read a request."""

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one streamed answer."""

    def read_headers(self, headers: Iterable[tuple[bytes, bytes]], answer: Answer) -> None:
        """Add what the headers of an answer say of it, after its body was read.

        Args:
            headers: Name and value of each, as they came.
        """


DIALECTS: Final[tuple[Dialect, ...]] = (
    openai_chat.Chat(),
    openai_chat.Completions(),
    openai_responses.Responses(),
    openai_embeddings.Embeddings(),
    openai_media.Images(),
    openai_media.Transcriptions(),
    openai_media.Speech(),
    openai_media.Moderations(),
)

LATE_DIALECTS: Final[dict[str, str]] = {
    "/v1/messages": "anthropic_messages:Messages",
    "/v1/messages?beta=true": "anthropic_messages:Messages",
    ":generateContent": "gemini:Generate",
    ":streamGenerateContent": "gemini:Generate",
    ":embedContent": "gemini:Embed",
    ":batchEmbedContents": "gemini:Embed",
    "/interactions": "gemini_interactions:Interactions",
    "/api/chat": "ollama:Chat",
    "/api/generate": "ollama:Generate",
    "/api/embed": "ollama:Embed",
    "/v2/chat": "cohere:Chat",
    "/v1/chat": "cohere:ChatV1",
    "/v2/embed": "cohere:Embed",
    "/v1/embed": "cohere:Embed",
    "/converse": "bedrock:Converse",
    "/converse-stream": "bedrock:Converse",
    "/invoke": "bedrock_invoke:Invoke",
    "/invoke-with-response-stream": "bedrock_invoke:Invoke",
    ":rawPredict": "vertex_publishers:Publishers",
    ":streamRawPredict": "vertex_publishers:Publishers",
    "/generate": "native_generate:Generate",
    "/generate_stream": "native_generate:GenerateStream",
    "/completion": "llama_completion:Completion",
}
"""`module:class` by the end of the paths it is served on: loaded when the first of them is seen, not at the start of
every program."""

_BY_ENDPOINT: Final[dict[str, Dialect | str]] = {
    end: dialect for dialect in DIALECTS for end in dialect.endpoints
} | LATE_DIALECTS
_known: dict[str, Dialect | None] = {}

_TELLING_FIELDS: Final = frozenset({"messages", "prompt", "sampling_params", "inputs"})
"""With one of these a body needs no model: engines that serve one model do not ask for it."""


def dialect_of(path: str) -> Dialect | None:
    """The dialect served on a path, or None where it is no model endpoint.

    Args:
        path: Path or URL of a POST, without query.
    """
    try:
        return _known[path]
    except KeyError:
        named = next((dialect for end, dialect in _BY_ENDPOINT.items() if path.endswith(end)), None)
        found = _load(named) if isinstance(named, str) else named
        if len(_known) < 1000:
            _known[path] = found
        return found


def _load(name: str) -> Dialect:
    module, _, kind = name.partition(":")
    loaded: Dialect = getattr(import_module(f"{__name__}.{module}"), kind)()
    return loaded


def asked_in(dialect: Dialect, path: str, body: bytes) -> Asked | Told | None:
    """What the body of a POST asks for, or None if it is no request of this dialect.

    Args:
        path: Where it is sent: in some formats, and on a deployment of Azure, it says the model, and the body
            need not.
    """
    fields = fields_of(body)
    return asked_by(dialect, path, fields, text_in(fields.get("model")), flag_in(fields.get("stream")))


def asked_by(
    dialect: Dialect, path: str, names: Container[str], model: Any, stream: Any
) -> Asked | Told | None:
    """What an object with these names asks for, or None if it is no request of this dialect.

    Args:
        model: Value of its field of that name.
        stream: Value of its field of that name.
    """
    found = next((name for name in dialect.request_fields if name in names), None)
    if found is None:
        return None
    if dialect.path_tells:
        return dialect.told_by(path, names)
    if not isinstance(model, str):
        if dialect.needs_model or (found not in _TELLING_FIELDS and "/deployments/" not in path):
            return None
        model = None
    streamed = dialect.streams_unasked if stream is None else stream is True
    other = dialect.told_by(path, names)
    if other is not None:
        return other._replace(model=model, stream=streamed)
    return Asked(model=model, stream=streamed)
