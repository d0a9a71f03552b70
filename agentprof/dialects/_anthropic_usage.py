"""The usage object of Anthropic messages, and how it becomes one `Usage`.

Input counts are apart: what was read from a cache and what was written to one stand beside `input_tokens`.
Names and meanings: https://platform.claude.com/docs/en/api/messages and `.../build-with-claude/prompt-caching`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import Answer
from agentprof.dialects._count import Count, is_count
from agentprof.model import Usage

_USES: Final = "_requests"


class CacheWrites(msgspec.Struct):
    """Cache writes by how long they are kept."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class OutputDetails(msgspec.Struct):
    """Parts of the output."""

    thinking_tokens: Count | None = None


class Iteration(msgspec.Struct):
    """One of the inferences behind an answer."""

    type: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation: CacheWrites | None = None


class RawUsage(msgspec.Struct):
    """Usage as sent. In a stream it comes in pieces: a later one holds for the fields it has."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation: CacheWrites | None = None
    output_tokens_details: OutputDetails | None = None
    server_tool_use: dict[str, Any] | None = None
    service_tier: str | None = None
    speed: str | None = None
    """`fast` has prices of its own."""
    iterations: list[Iteration] | None = None

    def update(self, later: RawUsage) -> None:
        """Take over what a later piece says."""
        for name in self.__struct_fields__:
            value = getattr(later, name)
            if value is not None:
                setattr(self, name, value)


def read_usage(raw: RawUsage, answer: Answer) -> None:
    """Note the usage of a whole answer, or of a stream as far as it came."""
    answer.service_tier = "fast" if raw.speed == "fast" else raw.service_tier or answer.service_tier
    for name, uses in (raw.server_tool_use or {}).items():
        # What is billed; a use that failed is among the blocks and not here.
        kind = name.removesuffix(_USES)
        if is_count(uses):
            answer.server_tools[kind] = uses
        elif uses == 0:
            answer.server_tools.pop(kind, None)
    if raw.input_tokens is None and raw.output_tokens is None:
        return
    cache_read = raw.cache_read_input_tokens
    cache_write, cache_write_1h = _writes(raw)
    details = raw.output_tokens_details
    answer.usage = _with_compactions(
        Usage(
            input=_sum(raw.input_tokens, cache_read, cache_write) if raw.input_tokens is not None else None,
            output=raw.output_tokens,
            cache_read=cache_read,
            cache_write=cache_write,
            cache_write_1h=cache_write_1h,
            reasoning=details.thinking_tokens if details is not None else None,
        ),
        raw.iterations or (),
    )


def _writes(raw: RawUsage | Iteration) -> tuple[int | None, int | None]:
    """All cache writes, and those that are kept for an hour."""
    by_time = raw.cache_creation
    if by_time is None:
        return raw.cache_creation_input_tokens, None
    written = raw.cache_creation_input_tokens
    if written is None:
        written = _sum(by_time.ephemeral_5m_input_tokens, by_time.ephemeral_1h_input_tokens)
    return written, by_time.ephemeral_1h_input_tokens


def _with_compactions(usage: Usage, iterations: list[Iteration] | tuple[()]) -> Usage:
    """With what it took to make the conversation shorter, which is billed and is in no count of the answer.

    Advisors are models of their own, at prices of their own: they count as tools that ran at the provider.
    """
    for one in iterations:
        if one.type != "compaction":
            continue
        written, written_1h = _writes(one)
        usage = Usage(
            input=_sum(usage.input, one.input_tokens, one.cache_read_input_tokens, written),
            output=_sum(usage.output, one.output_tokens),
            cache_read=_sum(usage.cache_read, one.cache_read_input_tokens),
            cache_write=_sum(usage.cache_write, written),
            cache_write_1h=_sum(usage.cache_write_1h, written_1h),
            reasoning=usage.reasoning,
        )
    return usage


def _sum(*counts: int | None) -> int | None:
    """The sum of those that are known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
