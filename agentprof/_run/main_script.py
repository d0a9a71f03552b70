"""Marks functions of the script itself, which no import announces: by the interpreter's monitoring events.

Only code objects that are looked for cost anything once each has been seen; needs Python 3.12.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Protocol

from agentprof import _guard
from agentprof._context import Attachment
from agentprof._run.notes import Note, write
from agentprof._run.settings import MarkedFunction

_TOOL_IDS = (4, 3)
"""Of the six ids those that no kind of tool has for its own."""


class Opened(Protocol):
    """One run of a marked function."""

    def attach(self) -> Attachment: ...

    def end(self, error: BaseException | None) -> None: ...


Open = Callable[[], "Opened | None"]


class _Running:
    __slots__ = ("attachment", "opened")

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.attachment: Attachment | None = opened.attach()

    def pause(self) -> None:
        if self.attachment is not None:
            self.attachment.detach()
            self.attachment = None

    def resume(self) -> None:
        if self.attachment is None:
            self.attachment = self.opened.attach()


class Watch:
    """Follows the functions of `__main__` that are to be marked."""

    def __init__(self, notes: str) -> None:
        self._notes = notes
        self._wanted: dict[str, tuple[MarkedFunction, Open]] = {}
        self._codes: dict[CodeType, Open] = {}
        self._running: dict[FrameType, _Running] = {}
        self._tool = -1

    def add(self, mark: MarkedFunction, start: Open) -> bool:
        """Look out for one more function; False if this interpreter cannot."""
        if self._tool < 0 and not self._start():
            return False
        self._wanted[mark.path] = (mark, start)
        return True

    def _start(self) -> bool:
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            return False
        free = [number for number in _TOOL_IDS if monitoring.get_tool(number) is None]
        if not free:
            return False
        self._tool = free[0]
        events = monitoring.events
        monitoring.use_tool_id(self._tool, "agentprof")
        for event, callback in (
            (events.PY_START, self._on_start),
            (events.PY_RETURN, self._on_return),
            (events.PY_YIELD, self._on_yield),
            (events.PY_RESUME, self._on_resume),
            (events.PY_UNWIND, self._on_unwind),
        ):
            monitoring.register_callback(self._tool, event, callback)
        self._disable = monitoring.DISABLE
        # That a function is left by an exception can only be asked for everywhere.
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND)
        return True

    def _found(self, code: CodeType, frame: FrameType) -> Open | None:
        known = self._codes.get(code)
        wanted = self._wanted.get(code.co_qualname)
        if known is not None or wanted is None or frame.f_globals.get("__name__") != "__main__":
            return known
        mark, start = wanted
        self._codes[code] = start
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        events = monitoring.events
        monitoring.set_local_events(
            self._tool,
            code,
            events.PY_START | events.PY_RETURN | events.PY_YIELD | events.PY_RESUME,
        )
        write(self._notes, Note(kind="mark", name=mark.target))
        return start

    # Each runs in the program: guarded.
    def _on_start(self, code: CodeType, offset: int) -> Any:
        try:
            frame = sys._getframe(1)
            start = self._found(code, frame)
            if start is None:
                return self._disable
            opened = start()
            if opened is not None:
                self._running[frame] = _Running(opened)
        except Exception:
            _guard.failed("a marked function of the script")
        return None

    def _on_return(self, code: CodeType, offset: int, value: object) -> None:
        self._leave(sys._getframe(1), None)

    def _on_unwind(self, code: CodeType, offset: int, error: BaseException) -> None:
        if code in self._codes:
            self._leave(sys._getframe(1), error)

    def _leave(self, frame: FrameType, error: BaseException | None) -> None:
        try:
            running = self._running.pop(frame, None)
            if running is not None:
                running.pause()
                running.opened.end(error)
        except Exception:
            _guard.failed("a marked function of the script")

    def _on_yield(self, code: CodeType, offset: int, value: object) -> None:
        try:
            running = self._running.get(sys._getframe(1))
            if running is not None:
                running.pause()
        except Exception:
            _guard.failed("a marked function of the script")

    def _on_resume(self, code: CodeType, offset: int) -> None:
        try:
            running = self._running.get(sys._getframe(1))
            if running is not None:
                running.resume()
        except Exception:
            _guard.failed("a marked function of the script")
