"""The runs of a task one below the other, as they stand in its tree: what a waterfall is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from agentprof.model import EnergyWindow, Source, Span
from agentprof.rollup import plain_tree
from agentprof.rollup.energy import joules_of
from agentprof.rollup.measured import give_measured
from agentprof.rollup.profile import Profile, profiled
from agentprof.rollup.rates import Rates, rates
from agentprof.rollup.rows import cost_of, tokens_of
from agentprof.rollup.tree import OWNERS, Node
from agentprof.summary import Joules, Tokens


class PhaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a call; those of one call follow each other from its start and fill it exactly."""

    name: str
    """`failed_attempt`, `backoff`, or a phase of the last attempt."""
    ns: int
    source: Source


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the task, a step, an agent, a tool or a model."""

    trace_id: str
    span_id: str
    """Empty where no span stands for the task or for a tool."""
    depth: int
    """0 for the task; a row hangs from the nearest one above it that has one less."""
    kind: str
    """`task`, `agent`, `step`, `human`, `tool` or `model`."""
    name: str
    start_ns: int
    duration_ns: int
    path_ns: int
    """Of its duration what it owns itself on the task's timeline."""
    error: bool
    error_type: str | None
    service: str | None
    attempts: int | None
    phases: list[PhaseRow]
    """Of a call."""
    inferred: bool
    """Time of tools that no span tells of."""
    first_token_ns: int | None
    tokens: Tokens
    cost_usd: Decimal | None
    energy_j: Joules | None
    """Of a call."""
    prefill_tokens_per_s: float | None
    """Of a call: what it got of the engine, beside other requests; None where it is not measured."""
    generation_tokens_per_s: float | None
    has_content: bool
    """What was said in it is kept beside it."""


class Waterfall(NamedTuple):
    """Rows in the order of the tree, siblings by their start."""

    rows: list[SpanRow]
    total: int
    """Rows there are, those left out included."""


def waterfall(
    task_id: str,
    spans: Iterable[Span],
    limit: int | None = None,
    windows: Sequence[EnergyWindow] = (),
) -> Waterfall:
    """The runs of a task, with what only gives its times to a call left out.

    Args:
        task_id: the task.
        spans: in any order, copies allowed.
        limit: rows at most: those that last longest, each with all that are above it.
        windows: measured energy, as in `Facts`.

    Raises:
        ValueError: there are no spans.
    """
    tree = plain_tree(task_id, spans)
    profile = profiled(tree)
    give_measured(tree.of_kind("model"), profile, windows)
    inferred = _as_nodes(profile)
    ordered = _in_tree_order(tree.root)
    kept = ordered if limit is None or len(ordered) <= limit else _longest(ordered, limit)
    rows = [
        SpanRow(
            trace_id=node.span.trace_id,
            span_id=node.span.span_id,
            depth=depth,
            kind=node.kind,
            name=node.title,
            start_ns=node.start,
            duration_ns=node.end - node.start,
            path_ns=profile.path_ns[id(node)],
            error=node.error,
            error_type=node.span.error_type,
            service=node.span.service,
            attempts=node.call.attempts if node.call is not None else None,
            phases=[
                PhaseRow(name=s.name, ns=s.ns, source=s.source) for s in profile.segments.get(id(node), ())
            ],
            inferred=id(node) in inferred,
            first_token_ns=node.call.first_token_ns if node.call is not None else None,
            tokens=tokens_of(node),
            cost_usd=cost_of(node),
            energy_j=joules_of(node),
            **_speed(node, profile)._asdict(),
            has_content=bool(node.span.content),
        )
        for node, depth, _ in kept
    ]
    return Waterfall(rows, len(ordered))


def _speed(node: Node, profile: Profile) -> Rates:
    if node.kind != "model" or node.call is None:
        return Rates(None, None)
    return rates(node.call, profile.segments[id(node)])


def _as_nodes(profile: Profile) -> dict[int, Node]:
    """Nodes, by their ids, for the tools that no span tells of, each below the one whose time it took."""
    made: dict[int, Node] = {}
    above: dict[int, Node] = {}
    for tool in profile.inferred:
        trace_id = tool.row.span.trace_id
        node = Node(
            Span(
                trace_id=trace_id,
                span_id="",
                name=tool.name,
                title=tool.name,
                start_ns=tool.start,
                end_ns=tool.end,
                kind="tool",
            )
        )
        profile.path_ns[id(node)] = tool.end - tool.start
        tool.row.children.append(node)
        made[id(node)] = node
        above[id(tool.row)] = tool.row
    for row in above.values():
        row.children.sort(key=lambda node: node.order)
    return made


_Placed = tuple[Node, int, int]
"""A node, its depth, and where in the list the row above it stands (-1: none)."""


def _in_tree_order(root: Node) -> list[_Placed]:
    """The nodes with rows; children of others hang from the nearest above that has one."""
    found: list[_Placed] = []
    pending: list[_Placed] = [(root, 0, -1)]
    while pending:
        node, depth, above = pending.pop()
        if node.kind in OWNERS:
            found.append((node, depth, above))
            depth, above = depth + 1, len(found) - 1
        pending.extend((child, depth, above) for child in reversed(node.children))
    return found


def _longest(ordered: list[_Placed], limit: int) -> list[_Placed]:
    """At most `limit` of the nodes, in their order: none without those above it."""
    kept: set[int] = set()
    for at in sorted(range(len(ordered)), key=lambda at: ordered[at][0].start - ordered[at][0].end):
        missing: list[int] = []
        while at >= 0 and at not in kept and len(missing) <= limit - len(kept):
            missing.append(at)
            at = ordered[at][2]
        if len(kept) + len(missing) <= limit:
            kept.update(missing)
        if len(kept) >= limit:
            break
    return [ordered[at] for at in sorted(kept)]
