"""Answers of models on Bedrock that continue a text, told by their names, which no two families share.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html
"""

from __future__ import annotations

from typing import Any

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, Answer, EventReader
from agentprof.dialects._count import Count
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._tolerant import Tolerant
from agentprof.dialects.openai_chat import Completions
from agentprof.model import Usage


class Reason(msgspec.Struct):
    """Why J2 stopped."""

    reason: str | None = None


class Tool(msgspec.Struct):
    """A tool that Command R asks for."""

    name: str | None = None


class Piece(msgspec.Struct):
    """A text among several, or a piece of one; of the text only whether there is any counts."""

    text: Any = None
    stop_reason: str | None = None
    finish_reason: str | None = None
    completion_reason: str | None = msgspec.field(default=None, name="completionReason")
    reason: Reason | None = msgspec.field(default=None, name="finishReason")
    tokens: Count | None = msgspec.field(default=None, name="tokenCount")

    @property
    def ended_by(self) -> str | None:
        """Why it ended, as its family calls it."""
        of_j2 = self.reason.reason if self.reason is not None else None
        return self.stop_reason or self.finish_reason or self.completion_reason or of_j2


class Text(msgspec.Struct):
    """A whole answer, or an event of a stream."""

    # Llama
    generation: Any = None
    prompt_token_count: Count | None = None
    generation_token_count: Count | None = None
    # Titan
    results: list[Piece] | None = None
    output_text: Any = msgspec.field(default=None, name="outputText")
    input_tokens: Count | None = msgspec.field(default=None, name="inputTextTokenCount")
    output_tokens: Count | None = msgspec.field(default=None, name="totalOutputTextTokenCount")
    completion_reason: str | None = msgspec.field(default=None, name="completionReason")
    # Mistral, Command, J2
    outputs: list[Piece] | None = None
    generations: list[Piece] | None = None
    completions: list[Piece] | None = None
    # Command R, and pieces of Command
    text: Any = None
    tool_calls: list[Tool] | None = None
    generation_id: str | None = None
    # Anthropic's first
    completion: Any = None
    # several of them
    id: Any = None
    index: int = 0
    stop_reason: str | None = None
    finish_reason: str | None = None
    choices: msgspec.Raw = msgspec.Raw()
    error: Any = None

    @property
    def pieces(self) -> list[Piece]:
        """The texts it holds."""
        return self.results or self.outputs or self.generations or self.completions or []


_read = Tolerant(Text)
_OPENAI = Completions()


def read_body(body: bytes, answer: Answer) -> None:
    """Read a whole answer."""
    found = _read(body)
    if found is None:
        return
    if found.choices:
        _OPENAI.read_body(body, answer)
        answer.model = None
        return
    _note(found, answer)
    written = [piece.tokens for piece in found.pieces if piece.tokens is not None]
    output = sum(written) if written else found.generation_token_count
    given = found.input_tokens if found.input_tokens is not None else found.prompt_token_count
    if given is not None or output is not None:
        answer.usage = Usage(input=given, output=output)


def event_reader(answer: Answer) -> EventReader:
    """A reader for one stream: counts of the input come with its first event, of the output so far with each."""
    read_openai = _OPENAI.event_reader(answer)

    def read_event(data: bytes) -> int:
        event = _read(data)
        if event is None:
            return NOTHING
        if event.choices:
            return read_openai(data)
        _note(event, answer)
        _count(event, answer)
        says = event.generation or event.output_text or event.text or event.completion
        if says or event.tool_calls or any(piece.text for piece in event.pieces):
            return CONTENT
        return NOTHING

    return read_event


def _note(found: Text, answer: Answer) -> None:
    reason = found.stop_reason or found.finish_reason or found.completion_reason
    if reason:
        answer.finish_reasons[found.index] = reason
    for position, piece in enumerate(found.pieces):
        if piece.ended_by:
            answer.finish_reasons[position] = piece.ended_by
    said = found.generation_id or found.id
    if isinstance(said, str) and said and answer.response_id is None:
        answer.response_id = said
    for tool in found.tool_calls or ():
        if tool.name:
            answer.tool_calls[len(answer.tool_calls)] = tool.name
    if found.error:
        answer.error_type = error_type(found.error)


def _count(event: Text, answer: Answer) -> None:
    given = event.input_tokens if event.input_tokens is not None else event.prompt_token_count
    output = event.output_tokens if event.output_tokens is not None else event.generation_token_count
    if given is None and output is None:
        return
    before = answer.usage or Usage()
    answer.usage = Usage(
        input=before.input if given is None else given,
        output=before.output if output is None else output,
    )
