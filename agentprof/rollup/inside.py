"""What other instrumentations report from inside a call of agentprof is a report of that call.

Our span covers a call whole, with all attempts and the pauses between; a span inside it, of an SDK that traces itself,
say, may cover an attempt of it only.
"""

from __future__ import annotations

from typing import Final

from agentprof.model import Call
from agentprof.rollup.tree import Node, Tree
from agentprof.rollup.twins import counts_of
from agentprof.rollup.union import union
from agentprof.rollup.wrappers import rebased

_OURS: Final = "agentprof"
"""Instrumentation scope of our spans."""


def take_in_reports(tree: Tree) -> None:
    """Model spans of other scopes directly below a call of ours leave the tree and give it what it does not know.

    Not those of another call, which have another response id, or other token counts where one has no id; and not
    several that were answered where ours knows of no answer. Interval and outcome stay those of our call. An agent
    span with nothing below is the same: SDKs call a request to a server-side agent so.
    """
    gone: list[Node] = []
    for own in tree.nodes:
        if own.span.scope == _OURS and own.kind == "model" and own.call is not None and own.children:
            reports = _reports(own, own.call)
            # The last attempt gave the answer.
            reports.sort(key=lambda node: node.order, reverse=True)
            known = [rebased(node.call, node.start - own.start) for node in reports if node.call is not None]
            if known:
                own.call = union([own.call, *known])
                own.title = own.call.model or own.title
            gone += reports
    tree.drop(gone)


def _reports(own: Node, call: Call) -> list[Node]:
    """What is directly below and of this call, with no other model span of ours or an engine's between."""
    found: list[Node] = []
    above = [own]
    while above:
        for node in above.pop().children:
            if node.span.scope == _OURS or node.span.server_side or node.span.engine is not None:
                continue
            if node.kind == "model" and node.call is not None and _may_be(node.call, call):
                found.append(node)
                above.append(node)
            elif node.kind == "agent" and not node.children:
                found.append(node)
    if _is_answered(call) or sum(_is_answered(node.call) for node in found) <= 1:
        return found
    return [node for node in found if not _is_answered(node.call)]


def _may_be(report: Call, call: Call) -> bool:
    if report.response_id is not None and call.response_id is not None:
        return report.response_id == call.response_id
    counts = counts_of(report), counts_of(call)
    return None in counts or counts[0] == counts[1]


def _is_answered(call: Call | None) -> bool:
    return call is not None and (call.response_id is not None or counts_of(call) is not None)
