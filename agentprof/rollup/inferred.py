"""Tool time that nothing marks: between an answer that asks for tools and the request that carries their results.

Such a stretch is time of the span below which both calls stand, and only where that span would own the instant
itself: whatever is marked in between, a tool, a step, another call, a wait for a person, keeps its time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import NamedTuple

from agentprof.model import NO_ID
from agentprof.rollup.tree import OWNERS, Node, Order, Places, Tree

TAKES = frozenset({"task", "agent", "step", "wrapper"})
"""Kinds of spans whose own time may be that of a tool: they say who asked, not what was done."""

_TIMED = OWNERS | {"wrapper"}
_NAMED = 4
"""Names of tools that ran at once and are told one by one."""
_CLIMBED = 64
_AT_ONCE = 400
"""Marked tools that are looked at for one answer."""


class Stretch(NamedTuple):
    """A piece of time in which the tools of one answer ran."""

    start: int
    end: int
    name: str


class _Asked:
    """A tool that an answer asks for, until a request carries its result."""

    __slots__ = ("call", "name", "taken")

    def __init__(self, call: Node, name: str) -> None:
        self.call = call
        self.name = name
        self.taken = False


class Ran(NamedTuple):
    """A tool, the answer that asks for it, and the request that carries its result."""

    name: str
    answer: Node
    request: Node


def inferred_stretches(tree: Tree) -> dict[int, list[Stretch]]:
    """By id of the span whose own time they may take, in order, none inside another."""
    calls = tree.of_kind("model")
    if not any(node.call is not None and node.call.tool_result_ids for node in calls):
        return {}
    by_answer: dict[int, list[Ran]] = {}
    for ran in _matched(calls):
        by_answer.setdefault(id(ran.answer), []).append(ran)
    marked = _Marked(tree)
    found: dict[int, list[Stretch]] = {}
    # The latest answer first: a marked tool inside the run of another is not that one's.
    for all_ran in sorted(by_answer.values(), key=lambda ran: _ended(ran[0].answer), reverse=True):
        whose = _common_owner(all_ran)
        if whose is not None:
            found.setdefault(id(whose), []).extend(_stretches(marked.left(all_ran, whose)))
    return {owner: _disjoint(stretches) for owner, stretches in found.items()}


def inside(stretches: Sequence[Stretch], start: int, end: int) -> Iterator[Stretch]:
    """What of some time lies in stretches that follow each other."""
    for at in range(max(0, bisect_left(stretches, (start,)) - 1), len(stretches)):
        stretch = stretches[at]
        if stretch.start >= end:
            return
        low, high = max(stretch.start, start), min(stretch.end, end)
        if low < high:
            yield Stretch(low, high, stretch.name)


# --- which answer a result belongs to ------------------------------------------------------------
class _Open:
    """Tools asked for whose results were not sent yet, by what they are known by: the latest is taken first."""

    def __init__(self) -> None:
        self._stacks: dict[tuple[object, ...], list[_Asked]] = {}

    def add(self, node: Node, scope: int) -> None:
        call = node.call
        if call is None:
            return
        ids = call.tool_call_ids if len(call.tool_call_ids) == len(call.tool_calls) else ()
        for place in range(len(call.tool_calls) - 1, -1, -1):
            name = call.tool_calls[place]
            known = ids[place] if ids else NO_ID
            asked = _Asked(node, name)
            keys: list[tuple[object, ...]] = [("name", name)]
            keys.append(("bare", name) if known == NO_ID else ("id", known))
            for key in keys:
                self._stacks.setdefault(key, []).append(asked)
                self._stacks.setdefault((*key, scope), []).append(asked)

    def take(self, result: str, scope: int) -> _Asked | None:
        """What a result belongs to: asked for in the same step or agent first, then anywhere."""
        hashed, named, name = result.partition("=")
        keys: list[tuple[object, ...]] = [("id", hashed)] if hashed else []
        if named:
            keys.append(("bare" if hashed else "name", name))
        for key in keys:
            asked = self._pop((*key, scope)) or self._pop(key)
            if asked is not None:
                asked.taken = True
                return asked
        return None

    def _pop(self, key: tuple[object, ...]) -> _Asked | None:
        stack = self._stacks.get(key)
        while stack:
            asked = stack.pop()
            if not asked.taken:
                return asked
        return None


def _matched(calls: Sequence[Node]) -> Iterator[Ran]:
    """The tools whose results were sent; of several requests that carry one the first counts."""
    answers = [node for node in calls if node.call is not None and node.call.tool_calls]
    answers.sort(key=_ended)
    requests = [node for node in calls if node.call is not None and node.call.tool_result_ids]
    waiting, at = _Open(), 0
    for request in sorted(requests, key=lambda node: node.order):
        while at < len(answers) and answers[at].end <= request.start:
            waiting.add(answers[at], _scope(answers[at]))
            at += 1
        for result in request.call.tool_result_ids if request.call is not None else ():
            asked = waiting.take(result, _scope(request))
            if asked is not None and asked.call.end < request.start:
                yield Ran(asked.name, asked.call, request)


def _ended(node: Node) -> tuple[int, Order]:
    return node.end, node.order


def _scope(node: Node) -> int:
    """The step, agent or task a call is made in."""
    return id(next((above for above in islice(node.ancestors(), _CLIMBED) if above.kind in OWNERS), None))


def _common_owner(all_ran: Iterable[Ran]) -> Node | None:
    """The nearest span above an answer and all requests with its results, if its own time can be that of a tool."""
    common: dict[int, Node] | None = None
    for ran in all_ran:
        for node in (ran.answer, ran.request):
            above = {id(found): found for found in islice(node.ancestors(), _CLIMBED)}
            common = above if common is None else {key: common[key] for key in common if key in above}
    timed = next((node for node in (common or {}).values() if node.kind in _TIMED), None)
    return timed if timed is not None and timed.kind in TAKES else None


# --- what is marked all the same -----------------------------------------------------------------
class _Marked:
    """The tool runs of a task that a span tells of; each stands for one tool that an answer asked for."""

    def __init__(self, tree: Tree) -> None:
        self._runs = sorted(tree.of_kind("tool"), key=lambda node: node.order)
        self._starts = [node.start for node in self._runs]
        self._free = list(range(len(self._runs) + 1))
        """For each place the first from it on whose run stands for nothing yet, as far as known."""
        self._places = Places(tree) if self._runs else None

    def left(self, all_ran: list[Ran], whose: Node) -> list[Ran]:
        """The tools of an answer without those that are marked: by their names, else as many as there are."""
        answer, until = all_ran[0].answer, max(ran.request.start for ran in all_ran)
        names = Counter(ran.name for ran in all_ran)
        others: list[int] = []
        at = self._next_free(bisect_left(self._starts, answer.start))
        for _ in range(_AT_ONCE):
            if at == len(self._runs) or self._starts[at] >= until or not names.total():
                break
            run = self._runs[at]
            if self._places is not None and self._places.is_below(run, whose):
                if names[run.title]:
                    names[run.title] -= 1
                    self._free[at] = at + 1
                else:
                    others.append(at)
            at = self._next_free(at + 1)
        if names.total() <= len(others):
            for place in others[: names.total()]:
                self._free[place] = place + 1
            return []
        left = []
        for ran in sorted(all_ran, key=lambda ran: (-ran.request.start, ran.request.order)):
            if names[ran.name]:
                names[ran.name] -= 1
                left.append(ran)
        return left

    def _next_free(self, at: int) -> int:
        passed: list[int] = []
        while self._free[at] != at:
            passed.append(at)
            at = self._free[at]
        for place in passed:
            self._free[place] = at
        return at


# --- from tools to stretches ---------------------------------------------------------------------
def _stretches(all_ran: list[Ran]) -> Iterator[Stretch]:
    """One to each request that carries results of an answer, named by the tools whose results are not sent before."""
    by_end: dict[int, list[str]] = {}
    for ran in all_ran:
        by_end.setdefault(ran.request.start, []).append(ran.name)
    ends = sorted(by_end)
    names = _Names()
    told: list[str] = []
    for end in reversed(ends):
        names.add(by_end[end])
        told.append(names.told())
    start = all_ran[0].answer.end if all_ran else 0
    for end, name in zip(ends, reversed(told), strict=True):
        yield Stretch(start, end, name)
        start = end


class _Names:
    """The tools of a stretch by name, each once: what ran at once cannot be told apart."""

    def __init__(self) -> None:
        self._all: set[str] = set()
        self._first: list[str] = []
        """The first by alphabet, no more than are told."""

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._all:
                self._all.add(name)
                insort(self._first, name)
                del self._first[_NAMED:]

    def told(self) -> str:
        if len(self._all) <= _NAMED:
            return " + ".join(self._first)
        return " + ".join([*self._first[: _NAMED - 1], f"{len(self._all) - _NAMED + 1} more"])


def _disjoint(stretches: list[Stretch]) -> list[Stretch]:
    """At every instant the one that started last; of equal ones the one that ends first, then the name.

    So the tools of an agent that runs as a tool of another have their time, and the rest is that tool's.
    """
    ordered = sorted(stretches)
    running: list[tuple[int, int, str]] = []
    kept: list[Stretch] = []
    at = 0
    bounds = sorted({bound for stretch in stretches for bound in (stretch.start, stretch.end)})
    for low, high in pairwise(bounds):
        while at < len(ordered) and ordered[at].start <= low:
            start, end, name = ordered[at]
            heappush(running, (-start, end, name))
            at += 1
        while running and running[0][1] <= low:
            heappop(running)
        if not running:
            continue
        name = running[0][2]
        if kept and kept[-1].end == low and kept[-1].name == name:
            kept[-1] = kept[-1]._replace(end=high)
        else:
            kept.append(Stretch(low, high, name))
    return kept
