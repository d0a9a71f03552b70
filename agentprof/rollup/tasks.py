"""Which spans belong to which task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from agentprof.model import Span
from agentprof.rollup.copies import in_order, without_copies
from agentprof.rollup.joins import adopted

IMPLICIT_PREFIX = "trace:"
NESTING_LIMIT = 32
"""Tasks inside tasks: one nested deeper counts as part of the task at this depth."""

_MAKES_A_TASK = frozenset({"model", "tool", "agent"})


def tasks_in(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans of each task, copies removed, by task id.

    A span belongs to the task its nearest ancestor names, itself included. What is left of a trace is a
    task `trace:<trace id>` if it has a call, a tool or an agent span, else no task. The spans of a task
    are those of its sub-tasks too. What an engine says in a trace of its own goes with the call that has its id.
    """
    kept = without_copies(spans)
    owner = _owners(kept)
    parents = _parents(kept, owner)
    counts_for = _nesting_limited(parents)
    unclaimed: dict[str, list[Span]] = {}
    members: dict[str, list[Span]] = {}
    followers = adopted(kept, owner)
    for span in kept:
        trace_id, task_id = span.trace_id, owner.get((span.trace_id, span.span_id))
        if followers and (call := followers.get(span.key)) is not None:
            trace_id, task_id = call.trace_id, owner.get(call.key)
        if task_id is None:
            unclaimed.setdefault(trace_id, []).append(span)
        else:
            members.setdefault(counts_for.get(task_id, task_id), []).append(_with_parent(span, parents))
    for trace_id, rest in unclaimed.items():
        if any(span.kind in _MAKES_A_TASK for span in rest):
            members[IMPLICIT_PREFIX + trace_id] = rest
    return _with_sub_tasks(members, parents)


def _owners(kept: list[Span]) -> dict[tuple[str, str], str | None]:
    """The task each span belongs to; None, or nothing, where no ancestor names one."""
    owner: dict[tuple[str, str], str | None] = {
        (span.trace_id, span.span_id): span.task.id for span in kept if span.task is not None
    }
    if not owner or len(owner) == len(kept):
        return owner
    by_key = {(span.trace_id, span.span_id): span for span in kept}
    for key in by_key:
        path: dict[tuple[str, str], None] = {}
        at = key
        while at in by_key and at not in owner and at not in path:
            path[at] = None
            at = (at[0], by_key[at].parent_id or "")
        found = owner.get(at)
        for passed in path:
            owner[passed] = found
    return owner


def _parents(kept: list[Span], owner: Mapping[tuple[str, str], str | None]) -> dict[str, str]:
    """The task above each task: as its start says, else that of the span its start hangs from.

    A task that no span starts, as far as known, hangs where the first span that names it does.
    """
    parents: dict[str, str] = {}
    said: set[str] = set()
    started: set[str] = set()
    for starts in (True, False):
        for span in kept:
            mark = span.task
            if mark is None or mark.starts is not starts or mark.id in started:
                continue
            started.add(mark.id)
            above = mark.parent_id or owner.get((span.trace_id, span.parent_id or ""))
            if above is not None:
                parents[mark.id] = above
                if mark.parent_id is not None:
                    said.add(mark.id)
    for task_id in _closing_cycles(parents, said):
        del parents[task_id]
    return parents


def _closing_cycles(parents: Mapping[str, str], said: set[str]) -> list[str]:
    """Of each circle of tasks that contain each other the one that then counts as the outermost.

    One whose place was only found, if there is one, rather than one that says where it stands.
    """
    found: list[str] = []
    seen: set[str] = set()
    for task_id in parents:
        chain: dict[str, None] = {}
        at: str | None = task_id
        while at is not None and at not in seen:
            seen.add(at)
            chain[at] = None
            at = parents.get(at)
        if at in chain:
            passed = list(chain)
            found.append(min(passed[passed.index(at) :], key=lambda name: (name in said, name)))
    return found


def _nesting_limited(parents: Mapping[str, str]) -> dict[str, str]:
    """The task that a task nested too deep counts for; without the limit a chain of tasks costs its square."""
    depth: dict[str, int] = {}
    counts_for: dict[str, str] = {}
    for task_id in parents:
        chain: dict[str, None] = {}
        above: str | None = task_id
        while above is not None and above not in depth and above not in chain:
            chain[above] = None
            above = parents.get(above)
        level = depth.get(above, 0) if above is not None else 0
        for nested in reversed(chain):
            level += 1
            depth[nested] = level
            if level > NESTING_LIMIT:
                counts_for[nested] = counts_for.get(parents[nested], parents[nested])
    return counts_for


def _with_parent(span: Span, parents: Mapping[str, str]) -> Span:
    """The span with the task above its task, where it names one and did not say, or said what cannot be."""
    mark = span.task
    if mark is None or mark.parent_id == (above := parents.get(mark.id)):
        return span
    if above is not None and mark.parent_id is not None:
        return span
    return msgspec.structs.replace(span, task=msgspec.structs.replace(mark, parent_id=above))


def _with_sub_tasks(members: dict[str, list[Span]], parents: Mapping[str, str]) -> dict[str, list[Span]]:
    """Add the spans of each task to every task above it that is here."""
    tasks = {task_id: list(spans) for task_id, spans in members.items()}
    grown: set[str] = set()
    for task_id, spans in members.items():
        above, seen = parents.get(task_id), {task_id}
        while above is not None and above not in seen:
            seen.add(above)
            if above in tasks:
                tasks[above].extend(spans)
                grown.add(above)
            above = parents.get(above)
    for task_id in grown:
        tasks[task_id].sort(key=in_order)
    return tasks
