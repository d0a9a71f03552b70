"""Estimates the tokens of a call whose usage nobody reported, from what was sent and received.

The rule: five bytes are a token. Of the input those of the sections of the request, as JSON; of the output
those of the text that came, and at least one token for each event of a stream that carried any. What cannot
be seen is not guessed: the input is unknown where the request holds media or refers to something that the
provider keeps, both where tools ran at the provider or the answer may be sound. How far the rule is off on
real traffic is measured by `benchmarks/estimates.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from opentelemetry.util.types import AttributeValue

from agentprof import _guard, attributes
from agentprof._call_span import say_usage
from agentprof.dialects import Answer, Dialect
from agentprof.dialects._fields import fields_of
from agentprof.dialects._received import Counting, Received
from agentprof.model import Usage

BYTES_PER_TOKEN: Final = 5

_OPERATIONS: Final = frozenset({"chat", "text_completion", "embeddings"})
_GENERATE_TEXT: Final = frozenset({"gemini.generate", "gemini.interactions"})
"""Dialects whose operation is also that of images and sound."""
_UNSEEN_PART: Final = re.compile(
    rb'"type"\s*:\s*"(?:image|image_url|input_image|input_audio|video_url|input_file|file|document|document_url'
    rb'|item_reference)"'
    rb'|"(?:encrypted_content|thoughtSignature|thought_signature|bytes)"\s*:\s*"|;base64,'
    rb'|"(?:inlineData|inline_data|fileData|file_data)"\s*:|"images"\s*:\s*\["'
)
"""Parts of a request whose tokens its bytes do not tell."""
_MODALITIES: Final = ("modalities", "generationConfig", "response_modalities")
"""Fields in which an answer may be asked for as sound or an image."""
_MEDIA_WANTED: Final = re.compile(rb'"(?:audio|image)"', re.IGNORECASE)
_KEPT_BY_PROVIDER: Final = (
    "previous_response_id",
    "conversation",
    "previous_interaction_id",
    "cachedContent",
    "conversation_id",
)
"""Fields that add to the input what the provider holds."""


def counting(dialect: Dialect, answer: Answer) -> Dialect:
    """The dialect, which counts what it reads of an answer."""
    answer.received = Received()
    return cast("Dialect", Counting(dialect))


def say_estimate(
    said: dict[str, AttributeValue], answer: Answer, dialect: Dialect, body: bytes | None
) -> None:
    """Add the usage of an answered call that reports none, to what its span says and to the answer."""
    try:
        if answer.received is None:
            return
        usage = estimated(dialect, body, said, answer, answer.received)
        if usage is not None:
            answer.usage = usage
            say_usage(said, usage)
    except Exception:
        _guard.failed("estimating usage")


def estimated(
    dialect: Dialect, body: bytes | None, said: Mapping[str, Any], answer: Answer, received: Received
) -> Usage | None:
    """The usage of an answered call that reports none; None where nothing tells.

    Args:
        dialect: Of the request and its answer.
        body: The serialised request; None: it was not at hand.
        said: What the span says, the sizes of the sections of the request among it.
    """
    operation = dialect.operation
    if (operation not in _OPERATIONS and dialect.name not in _GENERATE_TEXT) or answer.server_tools:
        return None
    fields = fields_of(body) if body is not None else {}
    if _MEDIA_WANTED.search(b"".join(bytes(fields.get(name, b"")) for name in _MODALITIES)):
        return None
    tokens_in = None
    if body is not None and not _UNSEEN_PART.search(body) and not _refers(fields):
        sizes = [size for name, size in said.items() if name.startswith(attributes.INPUT_BYTES)]
        tokens_in = -(-sum(sizes) // BYTES_PER_TOKEN) if sizes else None
    if operation == "embeddings":
        return None if tokens_in is None or answer.error_type else Usage(input=tokens_in, estimated=True)
    if not received.text_bytes:
        return None
    tokens_out = max(-(-received.text_bytes // BYTES_PER_TOKEN), received.pieces)
    return Usage(input=tokens_in, output=tokens_out, estimated=True)


def _refers(fields: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a request means more than it holds; a stored prompt is an object, an own one a text or a list."""
    kept = any(bytes(fields.get(name, b"null")) != b"null" for name in _KEPT_BY_PROVIDER)
    return kept or bytes(fields.get("prompt", b"")).startswith(b"{")
