"""A served request as a task, below `agentprof run`: it is one if a call, a tool or a step happens in it.

Whether that will be so cannot be known when the request comes. The span of the task is opened then, so that
what happens hangs from it, and is never ended, and so never sent, if nothing did.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from agentprof import _context, _guard, _marks, _runtime
from agentprof._context import Attachment

_VARIABLE_PART = re.compile(r"[^/]*\d[^/]*")
_LONGEST = 200

_idle: set[str] = set()
"""Tasks of requests in which nothing has happened yet."""


def touched(task_id: object) -> None:
    """Something happens in a task."""
    if _idle:
        _idle.discard(task_id)


def name_of(method: object, path: object) -> str:
    """`POST /chat/{}`: parts of a path with a digit in them are taken for ids; a query is not part of it."""
    plain = str(path).partition("?")[0]
    return f"{method} {_VARIABLE_PART.sub('{}', plain)}"[:_LONGEST]


class Request:
    """A request that is being served; its methods never raise."""

    __slots__ = ("_attachment", "_opened")

    def __init__(self, method: object, path: object) -> None:
        self._opened: Any = None
        self._attachment: Attachment | None = None
        try:
            runtime = _runtime.active()
            if runtime is None or runtime.settings.run is None or _context.declared_task() is not None:
                return
            self._opened = _marks.task(name_of(method, path)).open("request")
            if self._opened is not None:
                _idle.add(self._opened.task.id)
                self._attachment = self._opened.attach()
        except Exception:
            _guard.failed("a served request")

    def over(self, error: BaseException | None = None) -> None:
        """The answer is out, or an exception left the application."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            if self._attachment is not None:
                self._attachment.detach()
            if opened.task.id in _idle:
                _idle.discard(opened.task.id)
                opened.discard()
            else:
                opened.end(error)
        except Exception:
            _guard.failed("the end of a served request")


def serve(method: object, path: object, answer: Callable[[], Any]) -> Any:
    """Answer a request as a task."""
    request = Request(method, path)
    try:
        result = answer()
    except BaseException as error:
        request.over(error)
        raise
    request.over()
    return result
