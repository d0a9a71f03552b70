"""Engine spans that carry no trace of their client are joined to the call that has the same id."""

from __future__ import annotations

import re
from typing import Final

from agentprof.model import Call, Span
from agentprof.rollup.tree import Node, Tree

SHORTEST: Final = 8
"""Characters of an id by which spans are joined: a counter of requests is no name."""

_KIND = re.compile(r"^(?:chatcmpl|cmpl|resp|embd|generate)[-_]")
_INDEX = re.compile(r"-\d{1,4}$")


def call_keys(span: Span) -> tuple[str, ...]:
    """The ids by which an engine's span may know this call; none for what is no client's call."""
    if span.call is None or span.engine is not None or span.server_side:
        return ()
    return tuple(dict.fromkeys(_long([span.call.response_id, span.call.request_id])))


def engine_keys(span: Span) -> tuple[str, ...]:
    """The ids by which a client may know the request this span of an engine is about.

    vLLM puts the kind of request before the client's `X-Request-Id`, and the number of the prompt behind it.
    """
    if span.call is None or span.engine is None or span.call.request_id is None:
        return ()
    return _keys_of(span.call)


def _keys_of(call: Call) -> tuple[str, ...]:
    whole = call.request_id or ""
    forms = [whole, _INDEX.sub("", whole)]
    forms += [_KIND.sub("", form) for form in forms]
    return tuple(dict.fromkeys(_long(forms)))


def _long(ids: list[str | None] | list[str]) -> list[str]:
    return [found for found in ids if found is not None and len(found) >= SHORTEST]


def hang_by_id(tree: Tree) -> None:
    """Hang engine spans that stand below no call from the one call that has their id."""
    engines = [node for node in tree.of_kind("model") if engine_keys(node.span) and _is_alone(node)]
    if not engines:
        return
    by_key: dict[str, list[Node]] = {}
    for node in tree.of_kind("model"):
        for key in call_keys(node.span):
            by_key.setdefault(key, []).append(node)
    moved = False
    for node in engines:
        found = {id(call): call for key in engine_keys(node.span) for call in by_key.get(key, ())}
        if len(found) == 1:
            (_top(node)).parent = next(iter(found.values()))
            moved = True
    if moved:
        tree.relink()


def _is_alone(node: Node) -> bool:
    """No call, tool, agent or task above."""
    return all(above.kind in ("other", "evidence") or above.parent is None for above in node.ancestors())


def _top(node: Node) -> Node:
    """The outermost span of the engine's trace."""
    top = node
    for above in node.ancestors():
        if above.parent is None:
            break
        top = above
    return top
