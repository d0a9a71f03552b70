"""Google's Gemini: content and embeddings, at the Gemini API, at Vertex AI and wherever else they are served.

A stream is server-sent events where the request asks for them with `alt=sse`, else one array that grows.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, Asked, EventReader
from agentprof.dialects._format import Format, Frames, Told
from agentprof.dialects._gemini_usage import RawUsage, read_usage
from agentprof.dialects._json_frames import Items
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant

_MODEL: Final = re.compile(r"/([^/:]+):(\w+)$")
_STREAMS: Final = "streamGenerateContent"
_FINISH_REASONS: Final = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}
"""By their numbers, which some clients ask for."""
_SEARCHES: Final = ("GOOGLE_SEARCH_WEB", "GOOGLE_SEARCH_IMAGE")
_PER_REQUEST: Final = re.compile(r"gemini-[12]\b")
"""Models whose searches are billed by the request that made any; later ones by the query.
https://ai.google.dev/gemini-api/docs/pricing"""


class Called(msgspec.Struct, rename="camel"):
    """A function or a tool of the provider that is called."""

    id: str | None = None
    name: str | None = None
    tool_type: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """A part of the content; of text only whether there is any counts."""

    text: Any = None
    thought: bool | None = None
    function_call: Called | None = None
    tool_call: Called | None = None
    executable_code: msgspec.Raw = msgspec.Raw()
    inline_data: msgspec.Raw = msgspec.Raw()


class Content(msgspec.Struct):
    """The content of a candidate."""

    parts: list[Part] | None = None


class Grounding(msgspec.Struct, rename="camel"):
    """What an answer rests on."""

    web_search_queries: list[Any] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    """One of the answers."""

    index: int = 0
    content: Content | None = None
    finish_reason: str | int | None = None
    grounding_metadata: Grounding | None = None
    url_context_metadata: msgspec.Raw = msgspec.Raw()


class Feedback(msgspec.Struct, rename="camel"):
    """Why a prompt was refused."""

    block_reason: str | None = None


class Body(msgspec.Struct, rename="camel"):
    """A whole answer, or a chunk of a stream."""

    response_id: str | None = None
    model_version: str | None = None
    candidates: list[Candidate] | None = None
    prompt_feedback: Feedback | None = None
    usage_metadata: RawUsage | None = None
    error: Any = None


_read_body = Tolerant(Body)


class Generate(Format):
    """Content."""

    name = "gemini.generate"
    operation = "generate_content"
    endpoints: tuple[str, ...] = (":generateContent", f":{_STREAMS}")
    request_fields: tuple[str, ...] = ("contents",)
    sections: tuple[tuple[str, str], ...] = (
        ("systemInstruction", "system"),
        ("system_instruction", "system"),
        ("tools", "tools"),
    )
    conversation = "contents"
    results_in_messages = True
    path_tells = True
    provider = "gcp.gen_ai"

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """Model and streaming."""
        found = _MODEL.search(path)
        return Told(unquote(found[1]), found[2] == _STREAMS) if found is not None else None

    def asked(self, body: bytes) -> Asked:
        """Nothing that the path does not say."""
        return Asked()

    def frames(self, start: bytes) -> Frames | None:
        """Items of an array, if it is none of events."""
        return Items() if start.startswith(b"[") else None

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        _Reader(answer).read(body)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return _Reader(answer).read


class Embed(Generate):
    """Embeddings, of one text or of several."""

    name = "gemini.embed"
    operation = "embeddings"
    endpoints: tuple[str, ...] = (":embedContent", ":batchEmbedContents")
    request_fields: tuple[str, ...] = ("content", "requests")
    sections: tuple[tuple[str, str], ...] = (("content", "user"), ("requests", "user"))
    conversation = ""
    results_in_messages = False


class _Reader:
    """Reads the chunks of one answer: each adds to the content, and repeats and corrects the usage."""

    __slots__ = ("_answer", "_calls", "_usage")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._calls = 0
        self._usage = RawUsage()

    def read(self, data: bytes) -> int:
        chunk, answer = _read_body(data), self._answer
        if chunk is None:
            return NOTHING
        answer.response_id = chunk.response_id or answer.response_id
        answer.model = chunk.model_version or answer.model
        tokens = NOTHING
        for candidate in chunk.candidates or ():
            tokens = max(tokens, self._note(candidate))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            answer.finish_reasons.setdefault(0, chunk.prompt_feedback.block_reason)
        if chunk.usage_metadata is not None:
            self._usage = self._usage.with_later(chunk.usage_metadata)
            read_usage(self._usage, answer)
        if chunk.error:
            answer.error_type = error_type(chunk.error)
        return tokens

    def _note(self, candidate: Candidate) -> int:
        answer, tokens = self._answer, NOTHING
        for part in candidate.content.parts or () if candidate.content is not None else ():
            tokens = max(tokens, self._note_part(part))
        reason = candidate.finish_reason
        if isinstance(reason, int):
            reason = _FINISH_REASONS.get(reason, str(reason))
        if reason:
            answer.finish_reasons[candidate.index] = reason
        grounding = candidate.grounding_metadata
        if grounding is not None and grounding.web_search_queries:
            per_request = _PER_REQUEST.match(answer.model or "") is not None
            uses = 1 if per_request else len(grounding.web_search_queries)
            answer.server_tools["web_search"] = max(uses, answer.server_tools.get("web_search", 0))
        if candidate.url_context_metadata:
            answer.server_tools["url_context"] = 1
        return tokens

    def _note_part(self, part: Part) -> int:
        if part.function_call is not None and part.function_call.name:
            self._calls += 1
            self._answer.tool_calls[self._calls] = part.function_call.name
            if part.function_call.id:
                self._answer.tool_ids[self._calls] = part.function_call.id
            return CONTENT
        if part.tool_call is not None:
            kind = part.tool_call.tool_type or "tool"
            if kind not in _SEARCHES and kind != "URL_CONTEXT":  # counted by what they have brought
                self._count(kind.lower())
            return CONTENT
        if part.executable_code:
            self._count("code_execution")
            return CONTENT
        if part.inline_data:
            return CONTENT
        if part.text:
            return THINKING if part.thought else CONTENT
        return NOTHING

    def _count(self, kind: str) -> None:
        self._answer.server_tools[kind] = self._answer.server_tools.get(kind, 0) + 1
