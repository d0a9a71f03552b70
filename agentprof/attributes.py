"""Every attribute name agentprof writes, grouped; reading other vocabularies is `agentprof.vocabularies`.

GenAI names follow the OpenTelemetry GenAI conventions
(https://github.com/open-telemetry/semantic-conventions-genai); names under `agentprof.` say what the
conventions have no word for. All durations on the wire are doubles in seconds.
"""

from __future__ import annotations

from typing import Final

# --- GenAI conventions: what a call or a tool is -------------------------------------------------
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
"""string[]: as the provider reports them, in the order of the choices."""
REQUEST_STREAM: Final = "gen_ai.request.stream"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Seconds from the request to the first chunk of any content, a role-only chunk included."""
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
SERVICE_TIER: Final = "openai.response.service_tier"
API_TYPE: Final = "openai.api.type"

# --- GenAI conventions: usage --------------------------------------------------------------------
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
"""Includes cache reads and cache writes."""
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
"""Includes reasoning."""
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
"""All cache writes, those kept for an hour included."""
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
"""The older name of cache writes, written beside the new one: Jaeger's GenAI tab reads only this."""
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
CACHE_WRITE_1H_TOKENS: Final = "agentprof.usage.cache_write_1h.input_tokens"
"""int: the part of the cache writes that is kept for an hour and has a price of its own."""
SERVER_TOOLS: Final = "agentprof.server_tools."
"""Prefix, int: uses of a tool that ran at the provider, by kind (`web_search`, `code_execution`, ...)."""
TOOL_CALLS: Final = "agentprof.tool_calls"
"""string[]: names of the tools the answer asks for."""
USAGE_ESTIMATED: Final = "agentprof.usage.estimated"
"""bool: the token counts are an estimate of ours, not the provider's."""

# --- task and step -------------------------------------------------------------------------------
TASK_ID: Final = "agentprof.task.id"
"""string: on every span of ours."""
TASK_NAME: Final = "agentprof.task.name"
"""string: on the span that starts the task, and only there."""
TASK_PARENT_ID: Final = "agentprof.task.parent_id"
TASK_OUTCOME: Final = "agentprof.task.outcome"
"""`success` or `failure`; absent = unknown."""
TASK_SCORE: Final = "agentprof.task.score"
"""double: given with the outcome."""
TASK_SOURCE: Final = "agentprof.task.source"
"""`declared`, `run`, `framework` or `trace`: the rule that made the task."""
TASK_SPANS: Final = "agentprof.task.spans"
"""int: spans of this task ended in this process before the task span itself."""
LABEL: Final = "agentprof.label."
"""Prefix, string: a label of the task, by key."""
STEP_NAME: Final = "agentprof.step.name"
HUMAN: Final = "agentprof.human"
"""bool: a stretch spent waiting for a person."""

# --- phases of a call ----------------------------------------------------------------------------
PHASE: Final = "agentprof.phase."
"""Prefix, double seconds, then `queue`, `prefill`, `wait`, `generation`, `model`, `connect`, `network`, `client`."""
PHASE_SOURCE: Final = "agentprof.phase_source."
"""Prefix, string: how the phase is known."""
PHASE_FIELD: Final = "agentprof.phase_field."
"""Prefix, string: path of the raw field the phase was read from."""
ATTEMPTS: Final = "agentprof.attempts"
"""int: HTTP exchanges inside the call; one less is the number of transport retries."""
ATTEMPT_DURATION: Final = "agentprof.attempt.duration"
"""double[] seconds, one a failed attempt, in order."""
ATTEMPT_BACKOFF: Final = "agentprof.attempt.backoff"
"""double[] seconds after each failed attempt; 0 after a last one that failed."""
ATTEMPT_STATUS: Final = "agentprof.attempt.status"
"""string[]: HTTP status or kind of failure (`timeout`, `connection`, `cancelled`) of each failed attempt."""
FIRST_TOKEN: Final = "agentprof.first_token"  # noqa: S105 (a token of a model, not a secret)
"""double seconds from the start of the call to the first generated token of any channel."""
FIRST_CONTENT: Final = "agentprof.first_content"
"""double seconds from the start of the call to the first text or tool-call token."""
INTER_TOKEN: Final = "agentprof.inter_token."  # noqa: S105
"""Prefix, double seconds between chunks that carry tokens: `p50`, `p95`, `max`."""
INTER_TOKEN_HISTOGRAM: Final = "agentprof.inter_token.histogram"  # noqa: S105
"""string `index:count,...`: buckets of upper bound 2^(index/8) ms, mergeable by adding counts."""
STREAM_END: Final = "agentprof.stream.end"
"""`complete`, `truncated`, `abandoned`, `cancelled` or `error`."""

# --- cost ----------------------------------------------------------------------------------------
COST: Final = "agentprof.cost.usd"
"""string, decimal: of a call or a tool."""
COST_SOURCE: Final = "agentprof.cost.source"
"""`reported` by the provider, `table` (genai-prices), `config` (agentprof.yaml) or `given` by the program."""
COST_PRICED_AS: Final = "agentprof.cost.priced_as"
"""string: the entry of the price table that was used."""
COST_TABLE: Final = "agentprof.cost.table"
"""string: version of the price table."""
COST_CLASS: Final = "agentprof.cost.class."
"""Prefix, string, decimal: the part of the cost that belongs to a class of usage."""

# --- input sections and fingerprints -------------------------------------------------------------
INPUT_BYTES: Final = "agentprof.input_bytes."
"""Prefix, int: size of a section of the request: `system`, `tools`, `tool_results`, `user`, `assistant`."""
TOOLS_OFFERED: Final = "agentprof.tools.offered"
"""int: tools named in the request."""
