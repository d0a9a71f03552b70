"""What a vocabulary table holds."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from agentprof.model import SpanKind


class KindRule(msgspec.Struct, frozen=True):
    """An attribute whose value says what a span stands for; values are compared without case."""

    attribute: str
    kinds: Mapping[str, SpanKind]


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """One producer's names.

    `fields` maps a field of ours to the attributes that hold it, best first. The fields are: `model`,
    `request_model`, `provider`, `operation`, `response_id`, `request_id`, `finish_reasons`, `stream`, `service_tier`,
    `server_address`, `server_port`, `tool_name`, `tool_call_id`, `agent_name`, `step_name`, `error_type`,
    `mcp_method`, `cost`, the token counts `input`, `output`, `cache_read`, `cache_write`, `cache_write_1h`,
    `reasoning` and those of `agentprof.model.MEDIA`, and objects of counts and amounts as `langfuse` has them.
    """

    name: str
    fields: Mapping[str, tuple[str, ...]] = {}
    kinds: tuple[KindRule, ...] = ()
    kind_by_presence: tuple[tuple[str, SpanKind], ...] = ()
    """Asked only when no kind rule matched: an attribute whose presence alone says the kind."""
