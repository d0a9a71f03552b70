"""The usage object of Gemini, and how it becomes one `Usage`.

The prompt includes what was read from a cache; tokens that tools of the provider put into it stand beside it, and
so do thoughts beside the candidates. In a stream every chunk says the counts again, and the last holds,
also where it is less than before.
https://ai.google.dev/api/generate-content#UsageMetadata
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import Answer
from agentprof.dialects._count import Count
from agentprof.model import Usage

_ON_DEMAND: Final = "ON_DEMAND_"


class Medium(msgspec.Struct, rename="camel"):
    """Tokens of one kind of medium."""

    modality: Any = None
    token_count: Count | None = None


class RawUsage(msgspec.Struct, rename="camel"):
    """Usage as sent; what is 0 is often left out."""

    prompt_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    candidates_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    total_token_count: Count | None = None
    prompt_tokens_details: list[Medium] | None = None
    cache_tokens_details: list[Medium] | None = None
    candidates_tokens_details: list[Medium] | None = None
    service_tier: str | None = None
    traffic_type: Any = None
    """Of Vertex, where the tier is a part of it."""

    def with_later(self, later: RawUsage) -> RawUsage:
        """What holds after a later chunk: all it says if that adds up to a total, else both."""
        if later.total_token_count is not None:
            return later
        kept = {name: value for name in self.__struct_fields__ if (value := getattr(later, name)) is not None}
        return msgspec.structs.replace(self, **kept)


def read_usage(raw: RawUsage, answer: Answer) -> None:
    """Note the usage of a whole answer, or of a stream as far as it came."""
    answer.service_tier = _tier(raw) or answer.service_tier
    given, total = raw.prompt_token_count, raw.total_token_count
    if given is not None:
        given += raw.tool_use_prompt_token_count or 0
    output = None
    if raw.candidates_token_count is not None or raw.thoughts_token_count is not None:
        output = (raw.candidates_token_count or 0) + (raw.thoughts_token_count or 0)
    elif given is not None and total is not None:
        output = max(total - given, 0)
    if given is None and output is None:
        return
    answer.usage = Usage(
        input=given,
        output=output,
        cache_read=raw.cached_content_token_count,
        reasoning=raw.thoughts_token_count,
        media=_media(raw),
        total_differs=None not in (given, output, total) and total != (given or 0) + (output or 0),
    )


def _tier(raw: RawUsage) -> str | None:
    if raw.service_tier:
        return raw.service_tier
    traffic = raw.traffic_type
    if isinstance(traffic, str) and traffic.startswith(_ON_DEMAND):
        return traffic.removeprefix(_ON_DEMAND).lower()
    return None


_NO_MEDIA: dict[str, int] = {}


def _media(raw: RawUsage) -> dict[str, int]:
    """The parts that have prices of their own: images in the prompt cost what text does."""
    counts = {
        "input_audio": _of(raw.prompt_tokens_details, "AUDIO") - _of(raw.cache_tokens_details, "AUDIO"),
        "output_audio": _of(raw.candidates_tokens_details, "AUDIO"),
        "output_image": _of(raw.candidates_tokens_details, "IMAGE"),
    }
    return {name: count for name, count in counts.items() if count > 0} or _NO_MEDIA


def _of(details: list[Medium] | None, modality: str) -> int:
    return sum(one.token_count or 0 for one in details or () if one.modality == modality)
