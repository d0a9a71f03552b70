"""Which functions of the program a model call was made in: names only, and only of its own code."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from types import FrameType

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from agentprof import _guard, _runtime, _served, attributes
from agentprof._run import presence
from agentprof._run.sdks import loaded_sdks, named_versions

DEPTH = 200
"""Frames looked at, from the call outwards."""
NAMES = 24
"""Names kept: the outermost, of which one may be common to many calls."""

_FOREIGN = tuple(
    {
        path
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_path(name)) is not None
    }
)
_OWN = __file__.removesuffix("_run/stack.py").removesuffix("_run\\stack.py")


class RunProcessor(SpanProcessor):
    """Writes on calls outside declared tasks the names on the stack, and on declared tasks the SDKs in use."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._known: dict[str, bool] = {}

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Runs in the thread of the program: guarded."""
        try:
            said, scope = span.attributes, span.instrumentation_scope
            if said is None or scope is None or scope.name != _runtime.SCOPE:
                return
            _served.touched(said.get(attributes.TASK_PARENT_ID) or said.get(attributes.TASK_ID))
            if attributes.TASK_NAME in said:
                span.set_attribute(attributes.RUN_SDKS, named_versions(loaded_sdks()))
                return
            presence.holds()
            is_call = attributes.OPERATION in said and attributes.TOOL_NAME not in said
            if not is_call or said.get(attributes.TASK_ID) != self._task_id:
                return
            names = self._names(sys._getframe(1))
            if names:
                span.set_attribute(attributes.RUN_STACK, names)
        except Exception:
            _guard.failed("naming the functions on the stack")

    def _names(self, frame: FrameType | None) -> Sequence[str]:
        """Outermost first; functions that cannot be named from outside are left out."""
        names: list[str] = []
        seen = 0
        while frame is not None and seen < DEPTH:
            code = frame.f_code
            if self._is_programs(code.co_filename):
                name = code.co_qualname
                if "<" not in name:
                    names.append(f"{frame.f_globals.get('__name__', '')}:{name}")
            frame = frame.f_back
            seen += 1
        names.reverse()
        return names[:NAMES]

    def _is_programs(self, file: str) -> bool:
        known = self._known.get(file)
        if known is None:
            known = not file.startswith(("<", _OWN, *_FOREIGN))
            if len(self._known) < 10_000:
                self._known[file] = known
        return known


def common_function(stacks: Sequence[Sequence[str]]) -> str | None:
    """The innermost function that is on all of the stacks, or None."""
    if not stacks:
        return None
    shared = set(stacks[0]).intersection(*stacks[1:])
    return next((name for name in reversed(stacks[0]) if name in shared), None)
