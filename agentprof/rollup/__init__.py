"""Adds the spans of a task up: passes, timeline, rows, totals, in that order.

Everything here is a pure function of spans and facts, so that any order, batching or repetition of the same
spans gives the same summary.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import localcontext
from typing import Any

from agentprof.model import Facts, Outcome, Span, TaskMark
from agentprof.money import EXACT
from agentprof.rollup.advice import advice
from agentprof.rollup.again import calls_again, tools_again, wasted
from agentprof.rollup.build import linked, rooted
from agentprof.rollup.copies import without_copies
from agentprof.rollup.energy import energy_fields
from agentprof.rollup.measured import give_measured
from agentprof.rollup.missing import has_unpriced_media
from agentprof.rollup.overlap import overlap
from agentprof.rollup.passes import PASSES
from agentprof.rollup.profile import Profile, on_timeline, profiled
from agentprof.rollup.rows import node_rows
from agentprof.rollup.tasks import IMPLICIT_PREFIX, tasks_in
from agentprof.rollup.totals import (
    call_fields,
    calls_with_other_total,
    cost_fields,
    estimated_calls,
    model_rows,
    token_rates,
    tool_rows,
)
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.warnings import count_misplaced, described
from agentprof.summary import BUSY, TaskSummary

__all__ = ["plain_tree", "roll_up", "tasks_in"]


def plain_tree(task_id: str, spans: Iterable[Span]) -> Tree:
    """The tree of a task after all passes, under the span that is the task.

    Raises:
        ValueError: there are no spans.
    """
    return _plain_tree(task_id, without_copies(spans))


def _plain_tree(task_id: str, kept: list[Span]) -> Tree:
    if not kept:
        raise ValueError(f"task {task_id!r} has no spans to add up")
    tree = linked(kept)
    for make_plain in PASSES:
        make_plain(tree)
    rooted(tree, task_id)
    return tree


def roll_up(task_id: str, spans: Iterable[Span], facts: Facts | None = None) -> TaskSummary:
    """The summary of one task from its spans, those of its sub-tasks among them (see `tasks_in`).

    Args:
        task_id: The task; spans are not checked for belonging to it.
        spans: In any order, copies allowed.
        facts: Outcomes recorded later, and measured energy; those of other tasks are ignored.

    Raises:
        ValueError: there are no spans.
    """
    with localcontext(EXACT):
        kept = without_copies(spans)
        tree = _plain_tree(task_id, kept)
        summary = _summary(task_id, kept, tree, facts or Facts())
    tree.take_apart()
    return summary


def _summary(task_id: str, kept: list[Span], tree: Tree, facts: Facts) -> TaskSummary:
    root = tree.root
    profile = profiled(tree)
    mark = _mark(kept, task_id, root)
    _check_spans(tree, kept, task_id, mark)
    lacks_spans = bool({"missing_spans", "cut_short"} & tree.warnings.keys())
    nodes = node_rows(tree, profile, lacks_spans=lacks_spans)
    calls, tools = tree.of_kind("model"), tree.of_kind("tool")
    give_measured(calls, profile, facts.windows)
    models = model_rows(calls, profile)
    again, tools_done_again = calls_again(calls), tools_again(tools)
    count_misplaced(tree)
    tree.warn("usage_estimated", estimated_calls(calls))
    tree.warn("total_differs", calls_with_other_total(calls))
    tree.warn("media_unpriced", sum([has_unpriced_media(node.call) for node in calls]))
    tree.warn("different_keys", int(max(len(again.keys), len(tools_done_again.keys)) > 1))
    outcome, score = _outcome(task_id, mark, root, facts)
    sub_tasks = {span.task.id for span in kept if span.task is not None} - {task_id}
    return TaskSummary(
        task_id=task_id,
        name=(mark.name if mark else None) or root.title,
        task_source=mark.source if mark else "trace" if task_id.startswith(IMPLICIT_PREFIX) else "declared",
        parent_task_id=mark.parent_id if mark else None,
        sub_tasks=len(sub_tasks),
        labels=dict(sorted(mark.labels.items())) if mark else {},
        run=next((span.run for span in kept if _starts(span, task_id) and span.run), None),
        services=sorted({span.service for span in kept if span.service}),
        trace_ids=sorted({span.trace_id for span in kept}),
        weight=1.0,
        outcome=outcome,
        score=score,
        complete=not ({"cut_short", "missing_parent", "missing_spans", "no_root"} & tree.warnings.keys())
        and root.span.end_ns is not None,
        start_ns=root.start,
        end_ns=root.end,
        wall_ns=root.end - root.start,
        first_output_ns=_first_output(calls, root),
        timeline_ns=profile.timeline_ns,
        overlap_ns=overlap(tree, [(tool.start, tool.end) for tool in profile.inferred]),
        busy_ns=_busy(tree, profile),
        evidence_ns={part: dict(sorted(by.items())) for part, by in profile.evidence_ns.items()},
        estimates=[],
        errors={
            "call": sum(node.error for node in calls),
            "tool": sum(node.error for node in tools),
            "task": (outcome == "failure") + _failed_sub_tasks(kept, sub_tasks),
        },
        nodes=nodes,
        tools=tool_rows(tools, profile.inferred),
        models=models,
        wasted=wasted(calls, tools, [*again.discarded, *tools_done_again.discarded]),
        warnings=described(tree.warnings, tree.faults),
        advice=advice(calls),
        token_rates=token_rates(calls, profile),
        **energy_fields(calls),
        **call_fields(calls, models.values(), again, tools_done_again),
        **cost_fields(calls, tools, lacks_spans=lacks_spans),
    )


def _starts(span: Span, task_id: str) -> bool:
    return span.task is not None and span.task.starts and span.task.id == task_id


def _mark(spans: list[Span], task_id: str, root: Node) -> TaskMark | None:
    """Of several spans that start the task the earliest, which the order of the spans gives; else the root's."""
    if (start := next((span.task for span in spans if _starts(span, task_id)), None)) is not None:
        return start
    mark = root.span.task
    return mark if mark is not None and mark.id == task_id else None


def _check_spans(tree: Tree, spans: list[Span], task_id: str, mark: TaskMark | None) -> None:
    """Warn of spans that are known to exist and are not here."""
    is_whole_trace = tree.root.span.span_id != "" and tree.root.span.parent_id is None
    if (
        not (mark is not None and mark.starts)
        and not is_whole_trace
        and not task_id.startswith(IMPLICIT_PREFIX)
    ):
        tree.warn("no_root")
    if mark is not None and mark.spans is not None:
        here = sum(span.task is not None and span.task.id == task_id for span in spans) - 1
        tree.warn("missing_spans", max(0, mark.spans - here))
    if mark is not None:
        tree.warn("cut_short", mark.cut)


def _outcome(
    task_id: str, mark: TaskMark | None, root: Node, facts: Facts
) -> tuple[Outcome | None, float | None]:
    recorded = [fact for fact in facts.outcomes if fact.task_id == task_id]
    if recorded:
        last = max(
            recorded, key=lambda f: (f.recorded_ns, f.outcome, f.score if f.score is not None else -1.0)
        )
        return last.outcome, last.score
    if mark is not None and mark.outcome is not None:
        return mark.outcome, mark.score
    failed = root.span.error if root.span.span_id else False
    return ("failure" if failed else None), mark.score if mark is not None else None


def _failed_sub_tasks(spans: list[Span], sub_tasks: set[str]) -> int:
    return sum(
        span.task is not None
        and span.task.starts
        and span.task.id in sub_tasks
        and (span.task.outcome == "failure" or (span.task.outcome is None and span.error))
        for span in spans
    )


def _first_output(calls: list[Node], root: Node) -> int | None:
    last = max(calls, key=lambda node: (node.end, node.order), default=None)
    if last is None or last.call is None or last.call.first_content_ns is None:
        return None
    return last.start + last.call.first_content_ns - root.start


def _busy(tree: Tree, profile: Profile) -> dict[str, int]:
    busy: dict[str, Any] = dict.fromkeys(BUSY, 0)
    for node in tree.nodes:
        if node.kind == "model":
            for segment in profile.segments[id(node)]:
                if segment.name != "client":
                    busy[on_timeline(segment.name)] += segment.ns
        else:
            part = "step" if node.kind == "agent" else node.kind
            if part in busy:
                busy[part] += node.end - node.start
    busy["tool"] += sum([tool.end - tool.start for tool in profile.inferred])
    return busy
