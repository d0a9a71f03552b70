"""The usage object of OpenAI-like APIs, and how its variants become one `Usage`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from agentprof.dialects._answer import Answer
from agentprof.dialects._count import Count, is_count
from agentprof.model import MEDIA, Usage
from agentprof.money import EXACT, billed

_USD_PER_TICK = Decimal("1e-10")
"""xAI counts money in ticks."""
_COUNT_SUFFIXES = ("_requests", "_calls")


class Details(msgspec.Struct):
    """Parts of the input or of the output."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    created_cache_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    audio_tokens: Count | None = None
    image_tokens: Count | None = None


class CostDetails(msgspec.Struct):
    """What a gateway's own charge does not contain."""

    upstream_inference_cost: msgspec.Raw = msgspec.Raw()


class RawUsage(msgspec.Struct):
    """Usage as sent, under the names of chat, of responses and of the variants seen in the field."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    output_tokens_details: Details | None = None
    input_token_details: Details | None = None
    """Of OpenAI's transcriptions, with one `s` less."""
    prompt_cache_hit_tokens: Count | None = None
    cached_tokens: Count | None = None
    num_cached_tokens: Count | None = None
    cost: msgspec.Raw = msgspec.Raw()
    """Kept as text: money is exact."""
    cost_details: CostDetails | None = None
    is_byok: bool | None = None
    cost_in_usd_ticks: int | None = None
    service_tier: str | None = None
    """Where Mistral says it."""
    server_tool_use: dict[str, Any] | None = None
    server_side_tool_usage_details: dict[str, Any] | None = None
    queue_time: msgspec.Raw = msgspec.Raw()
    """Of Groq, beside other times."""
    total_latency: msgspec.Raw = msgspec.Raw()
    """Of SambaNova."""
    timing_prompt_processing: msgspec.Raw = msgspec.Raw()
    """Of LocalAI."""

    @property
    def tells_times(self) -> bool:
        """Whether an engine reports times among the counts."""
        return bool(self.queue_time or self.total_latency or self.timing_prompt_processing)


_NO_DETAILS = Details()


def read_usage(raw: RawUsage | None, answer: Answer) -> None:
    """Note a usage object; of several in one answer the largest holds, they are never added."""
    if raw is None:
        return
    input_tokens = raw.prompt_tokens if raw.prompt_tokens is not None else raw.input_tokens
    output_tokens = raw.completion_tokens if raw.completion_tokens is not None else raw.output_tokens
    if input_tokens is None and output_tokens is None:
        return
    before = answer.usage
    if before is not None and (before.input or 0) + (before.output or 0) > (input_tokens or 0) + (
        output_tokens or 0
    ):
        return
    of_input = raw.prompt_tokens_details or raw.input_tokens_details or raw.input_token_details or _NO_DETAILS
    of_output = raw.completion_tokens_details or raw.output_tokens_details or _NO_DETAILS
    cache_read = of_input.cached_tokens
    if cache_read is None:
        cache_read = raw.prompt_cache_hit_tokens
    if cache_read is None:
        cache_read = raw.cached_tokens if raw.cached_tokens is not None else raw.num_cached_tokens
    reasoning = of_output.reasoning_tokens
    if reasoning and raw.total_tokens == (input_tokens or 0) + (output_tokens or 0) + reasoning:
        # Here reasoning stands beside the output; its sum with the others says so.
        output_tokens = (output_tokens or 0) + reasoning
    differs = raw.total_tokens is not None and raw.total_tokens != (input_tokens or 0) + (output_tokens or 0)
    cache_write = of_input.cache_write_tokens
    if cache_write is None:
        cache_write = of_input.created_cache_tokens
    cached = (cache_read or 0) + (cache_write or 0)
    if input_tokens is not None and cached > input_tokens:
        input_tokens += cached  # a part cannot be more than the whole: here the cache stands beside the input
    answer.usage = Usage(
        input=input_tokens,
        output=output_tokens,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        media=_media(of_input, of_output),
        total_differs=differs,
    )
    if raw.service_tier and not answer.service_tier:
        answer.service_tier = raw.service_tier
    if raw.cost or raw.cost_in_usd_ticks:
        cost_usd = _cost(raw)
        if cost_usd is not None:
            answer.cost_usd = cost_usd
    if raw.server_tool_use:
        _count_server_tools(raw.server_tool_use, answer)
    if raw.server_side_tool_usage_details:
        _count_server_tools(raw.server_side_tool_usage_details, answer)


_NO_MEDIA: dict[str, int] = {}


def _media(of_input: Details, of_output: Details) -> dict[str, int]:
    """The parts that are sound or images."""
    counts = (of_input.audio_tokens, of_input.image_tokens, of_output.audio_tokens, of_output.image_tokens)
    if not any(counts):
        return _NO_MEDIA
    return {name: count for name, count in zip(MEDIA, counts, strict=True) if count}


def _cost(raw: RawUsage) -> Decimal | None:
    """What the provider or gateway says the call cost."""
    charged = dollars(raw.cost)
    if charged is not None:
        if raw.is_byok and raw.cost_details is not None:
            # With a key of the user's own, the gateway charges its fee and the provider the rest.
            upstream = dollars(raw.cost_details.upstream_inference_cost)
            charged = charged if upstream is None else EXACT.add(charged, upstream)
        return charged
    # No ticks beside tokens is what resellers send who do not bill that way.
    if not raw.cost_in_usd_ticks:
        return None
    return billed(EXACT.multiply(Decimal(raw.cost_in_usd_ticks), _USD_PER_TICK))


def dollars(raw: msgspec.Raw | bytes) -> Decimal | None:
    """An amount in US dollars, or the total of an object of amounts; None for anything else."""
    text = bytes(raw)
    if not text:
        return None
    try:
        if text.startswith(b"{"):
            text = bytes(msgspec.json.decode(text, type=dict[str, msgspec.Raw])["total_cost"])
        return billed(text.decode().strip('"'))
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        return None


def _count_server_tools(counted: dict[str, Any], answer: Answer) -> None:
    for key, value in counted.items():
        if is_count(value):
            for suffix in _COUNT_SUFFIXES:
                key = key.removesuffix(suffix)
            answer.server_tools[key] = max(value, answer.server_tools.get(key, 0))
