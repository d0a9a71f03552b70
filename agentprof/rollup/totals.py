"""Sums over the calls and tool runs of a task: cost and what is missing from it, tokens, attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from agentprof.rollup.again import Again, again_fields
from agentprof.rollup.missing import abandoned_attempts, missing_from, without_usage
from agentprof.rollup.profile import InferredTool, Profile
from agentprof.rollup.quantiles import histogram_quantiles, nearest_rank, quantiles
from agentprof.rollup.rates import rates
from agentprof.rollup.rows import Sums, cost_of
from agentprof.rollup.tree import Node
from agentprof.summary import ModelRow, Quantiles, Rate, ToolRow

_ZERO = Decimal(0)


def cost_fields(calls: Sequence[Node], tools: Sequence[Node], *, lacks_spans: bool) -> dict[str, Any]:
    """`cost_usd` and everything that says how complete it is.

    Args:
        lacks_spans: Calls of the task may be missing: without any its cost is not 0, but unknown.
    """
    classes: dict[str, Decimal] = {}
    unpriced = dict.fromkeys(("no_usage", "unknown_model", "abandoned_attempts", "unknown_server_tool"), 0)
    tables: set[tuple[str, str | None]] = set()
    sums, tool_sums = Sums(), Sums()
    for node in (*calls, *tools):
        holder = node.call or node.tool
        cost = holder.cost if holder is not None else None
        if cost is None:
            continue
        sums.add_cost(cost.amount_usd)
        if node.kind == "tool":
            tool_sums.add_cost(cost.amount_usd)
        for name, part in cost.by_class_usd.items():
            classes[name] = classes.get(name, _ZERO) + part
        if cost.amount_usd is not None and cost.source is not None:
            tables.add((cost.source, cost.table))
    for node in calls:
        for reason in missing_from(node.call):
            unpriced[reason] += 1
        unpriced["abandoned_attempts"] += abandoned_attempts(node.call)
    return {
        "cost_usd": sums.cost_usd if calls or lacks_spans or sums.cost_usd is not None else Decimal(0),
        "cost_complete": not any(unpriced.values()) and not lacks_spans,
        "cost_by_class_usd": dict(sorted(classes.items())),
        "tool_cost_usd": tool_sums.cost_usd,
        "unpriced": unpriced,
        "pricing": [
            {"source": source, "version": version}
            for source, version in sorted(tables, key=lambda table: (table[0], table[1] or ""))
        ],
    }


def call_fields(
    calls: Sequence[Node], models: Iterable[ModelRow], again: Again, tools_again: Again
) -> dict[str, Any]:
    """Counts, tokens and times of all calls together.

    Args:
        models: The calls by model.
        again: Calls that asked the same.
        tools_again: Tool runs that did the same.
    """
    sums = Sums()
    server_tools: Counter[str] = Counter()
    known_attempts = [n.call.attempts for n in calls if n.call is not None and n.call.attempts is not None]
    for row in models:
        sums.add_tokens(row.tokens)
    for node in calls:
        if node.call is not None and node.call.usage is not None and node.call.usage.server_tools:
            server_tools.update(node.call.usage.server_tools)
    attempts = sum(known_attempts) if known_attempts or not calls else None
    return {
        "calls": len(calls),
        "attempts": attempts,
        "calls_without_attempts": len(calls) - len(known_attempts),
        **again_fields(again, tools_again, attempts - len(known_attempts) if attempts is not None else None),
        "tokens": sums.tokens,
        "server_tools": dict(sorted(server_tools.items())),
        "calls_without_usage": sum(without_usage(node.call) for node in calls),
        "usage_estimated_calls": estimated_calls(calls),
        "first_token_ns": _instants(calls, "first_token_ns"),
        "first_content_ns": _instants(calls, "first_content_ns"),
        "inter_token_ns": _gaps(calls),
    }


def estimated_calls(calls: Sequence[Node]) -> int:
    """Calls whose tokens are an estimate."""
    usages = [node.call.usage for node in calls if node.call is not None]
    return sum(usage is not None and usage.estimated for usage in usages)


def calls_with_other_total(calls: Sequence[Node]) -> int:
    """Calls whose counts do not add up to the total their provider says."""
    usages = [node.call.usage for node in calls if node.call is not None]
    return sum(usage is not None and usage.total_differs for usage in usages)


def tool_rows(tools: Sequence[Node], inferred: Iterable[InferredTool] = ()) -> dict[str, ToolRow]:
    """All runs of each tool, by its name, and the time of those that no span tells of."""
    by_name: dict[str, list[Node]] = {}
    for node in tools:
        by_name.setdefault(node.title, []).append(node)
    inferred_ns: dict[str, int] = {}
    for tool in inferred:
        by_name.setdefault(tool.name, [])
        inferred_ns[tool.name] = inferred_ns.get(tool.name, 0) + tool.end - tool.start
    rows = {}
    for name, runs in sorted(by_name.items()):
        sums = Sums()
        for node in runs:
            sums.add_cost(cost_of(node))
        rows[name] = ToolRow(
            runs=len(runs),
            errors=sum(node.error for node in runs),
            busy_ns=sum(node.end - node.start for node in runs) + inferred_ns.get(name, 0),
            inferred_ns=inferred_ns.get(name, 0),
            cost_usd=sums.cost_usd,
        )
    return rows


def model_rows(calls: Sequence[Node], profile: Profile) -> dict[str, ModelRow]:
    """All calls of each model, by its name."""
    by_name: dict[str, list[Node]] = {}
    for node in calls:
        by_name.setdefault(node.title, []).append(node)
    return {name: _model_row(nodes, profile) for name, nodes in sorted(by_name.items())}


def _model_row(nodes: list[Node], profile: Profile) -> ModelRow:
    sums = Sums()
    for node in nodes:
        sums.add_tokens_of(node)
        sums.add_cost(cost_of(node))
    known = [node.call for node in nodes if node.call is not None]
    attempts = [call.attempts for call in known if call.attempts is not None]
    return ModelRow(
        provider=_most_common([call.provider for call in known if call.provider]),
        calls=len(nodes),
        errors=sum([node.error for node in nodes]),
        attempts=sum(attempts) if attempts else None,
        tokens=sums.tokens,
        cost_usd=sums.cost_usd,
        first_token_ns=_instants(nodes, "first_token_ns"),
        output_tokens_per_s=_rate(nodes, profile),
    )


def _most_common(names: Sequence[str]) -> str | None:
    """The name that stands most often, of equals the first by alphabet."""
    if len(set(names)) < 2:
        return names[0] if names else None
    counts = Counter(names)
    return min(counts, key=lambda name: (-counts[name], name))


def _rate(nodes: list[Node], profile: Profile) -> float | None:
    tokens, ns = 0, 0
    for node in nodes:
        usage = node.call.usage if node.call is not None else None
        if usage is not None and usage.output is not None:
            for segment in profile.segments[id(node)]:
                if segment.name == "generation":
                    tokens, ns = tokens + usage.output, ns + segment.ns
    return round(tokens / (ns / 1e9), 3) if ns else None


def token_rates(calls: Sequence[Node], profile: Profile) -> dict[str, Rate | None]:
    """What the calls got of their engines: of the prompts and of the answers, over the calls that tell."""
    found = [rates(node.call, profile.segments[id(node)]) for node in calls if node.call is not None]
    return {
        "prefill": _spread([one.prefill_tokens_per_s for one in found]),
        "generation": _spread([one.generation_tokens_per_s for one in found]),
    }


def _spread(found: Iterable[float | None]) -> Rate | None:
    known = sorted(rate for rate in found if rate is not None)
    if not known:
        return None
    return Rate(n=len(known), min=known[0], p50=nearest_rank(known, 0.5), max=known[-1])


def _instants(calls: Sequence[Node], field: str) -> Quantiles | None:
    found = [getattr(node.call, field) for node in calls if node.call is not None]
    return quantiles([instant for instant in found if instant is not None])


def _gaps(calls: Sequence[Node]) -> Quantiles | None:
    held = [node.call for node in calls if node.call is not None and node.call.inter_token_histogram]
    if not held:
        return None
    buckets: Counter[int] = Counter()
    for call in held:
        buckets.update(call.inter_token_histogram)
    longest = [call.inter_token_max_ns for call in held if call.inter_token_max_ns is not None]
    return histogram_quantiles(buckets, max(longest) if longest else None)
