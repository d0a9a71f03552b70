"""Tasks as a program sees them: the handle with outcome, labels, counters and summary."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.trace import Span

from agentprof import _context, _forking, _guard, _names, _recent, _runtime, attributes
from agentprof._asked import Key, new_key
from agentprof._clock import anchor_ns, stamp_ns
from agentprof._readable import plain_attributes
from agentprof.model import Outcome, RawSpan, Usage
from agentprof.money import EXACT

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from agentprof.pricing import Pricer
    from agentprof.summary import TaskSummary


# Reentrant: garbage collection may end a stream, and so need this, anywhere.
_adding = threading.RLock()


def _begin_in_child() -> None:
    """Another thread may have held the lock when the process was forked."""
    global _adding
    _adding = threading.RLock()


_forking.renew_in_child(_begin_in_child)


class Spent(NamedTuple):
    """What a task has used so far in this process, sub-tasks included."""

    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    """Sum of what is priced; None: nothing is priced yet."""
    unpriced_calls: int
    """Calls whose cost is not in `cost_usd`: a lower bound if not 0."""
    elapsed_s: float


class Task:
    """A task that runs or ran in this process."""

    def __init__(
        self, name: str | None, id: str | None, labels: Mapping[str, str] | None, parent: Task | None
    ) -> None:
        self.name = _names.text(name, _names.NAME_CHARS) or "task"
        self.id = _names.identity(id)
        self.parent = parent
        self.anchor_ns: int = parent.anchor_ns if parent is not None else anchor_ns()
        """Wall time minus stamp, for every span of the task in this process."""
        self.labels: dict[str, str] = _names.labels(labels)
        self.key: Key = parent.key if parent is not None else _key_of(self.id)
        """Of the hashes by which runs of the task are compared; a sub-task shares it."""
        self.baggage: tuple[object, object] | None = None
        """Of the contexts inside the task: as the program's instrumentation sends it on, and as it was before."""
        self._outcome: Outcome | None = None
        self._score: float | None = None
        self._started = stamp_ns()
        self._ended: int | None = None
        self.ended_spans = self._spans_before_end = 0
        """Spans of this task that have ended in this process."""
        self._forks = _forking.forks()
        """Until the end of the task those before it, then those in it."""
        self._handed_over = 0
        self._calls = 0
        self._unpriced = 0
        self._input = 0
        self._output = 0
        self._cost: Decimal | None = None
        self._said_of_all: dict[str, str | float | int] = {attributes.TASK_ID: self.id}
        self._start: tuple[int, int] = (0, 0)
        """Ids of the trace and of the span that starts the task."""
        self._recorded: _recent.Recorded = parent._recorded if parent is not None else self._record()
        _known[self.id] = self

    def _record(self) -> _recent.Recorded:
        """Where the spans of the task are kept."""
        return _recent.begin(self.id, self.anchor_ns)

    def _record_of(self, sub_task: Task) -> _recent.Recorded:
        """Where those of a task inside it are."""
        return self._recorded

    def outcome(self, outcome: Outcome, score: float | None = None) -> None:
        """Say how the task went; the last word holds, and an exception leaving the task is a failure.

        Args:
            outcome: `success` or `failure`.
            score: Any grade that belongs to it.

        Raises:
            ValueError: The outcome is neither of the two.
        """
        if outcome not in ("success", "failure"):
            raise ValueError(f"outcome must be 'success' or 'failure', not {outcome!r}")
        if self._ended is not None:
            _guard.noted("late outcome", "agentprof: an outcome after the end of its task is not recorded")
        self._outcome, self._score = outcome, score

    def label(self, key: str, value: str) -> None:
        """Put a label on the task, such as the customer or the variant it runs for."""
        _names.put_label(self.labels, key, value)

    def spent(self) -> Spent:
        """Running counters, cheap enough to ask in every round of a loop."""
        until = self._ended if self._ended is not None else stamp_ns()
        elapsed_s = (until - self._started) / 1e9
        return Spent(self._calls, self._input, self._output, self._cost, self._unpriced, elapsed_s)

    def summary(self) -> TaskSummary:
        """The task so far, or all of it once it has ended, from the spans of this process.

        Never raises: of a task whose spans nobody recorded it says what is known without them, and warns.
        """
        try:
            from agentprof import _summary

            return _summary.of_spans(self, self._recorded, _pricer().price)
        except Exception:
            _guard.failed("adding up a task")
        from agentprof import _summary

        return _summary.of_counters(self)

    @property
    def elsewhere(self) -> int:
        """How often other processes began to work while the task ran, or were given work of it."""
        forks = self._forks if self._ended is not None else _forking.forks() - self._forks
        return forks + self._handed_over

    def note_handed_over(self) -> None:
        """Another process is given work of the task."""
        task: Task | None = self
        while task is not None:
            task._handed_over += 1
            task = task.parent

    def note_start(self, span: Span) -> None:
        """Remember which span starts the task."""
        context = span.get_span_context()
        self._start = (context.trace_id, context.span_id)

    def note_open(self, span: Span) -> None:
        """Remember an open span of the task, for summaries asked for before it ends."""
        span_id = span.get_span_context().span_id
        remember(span_id, self)
        know = functools.partial(self._known_of, span_id)
        self._recorded.live[span_id] = (span, know)  # type: ignore[assignment]

    def note_ended(self, span: Span) -> None:
        """Forget it again, just before it ends."""
        self._recorded.live.pop(span.get_span_context().span_id, None)

    def keep(self, span: ReadableSpan) -> None:
        """Record an ended span of the task."""
        self.ended_spans += 1
        span_id = span.context.span_id if span.context is not None else 0
        starts = span_id == self._start[1]
        _recent.keep(self._recorded, self.id, span, self._known_of(span_id), starts=starts)

    def _known_of(self, span_id: int) -> Mapping[str, str | float | int]:
        """What the task knows of one of its spans by itself: of the span that starts it everything."""
        if span_id == self._start[1]:
            return self.start_attributes() | self._last_attributes()
        return self._said_of_all

    def start_span(self) -> RawSpan:
        """The span that starts the task, up to now, as far as it is known without the span."""
        ended = self._ended if self._ended is not None else stamp_ns()
        trace_id, span_id = self._start
        return RawSpan(
            trace_id=f"{trace_id:032x}",
            span_id=f"{span_id:016x}",
            name=self.name,
            start_ns=self._started + self.anchor_ns,
            end_ns=ended + self.anchor_ns,
            attributes=self.start_attributes() | self._last_attributes(),
            scope=_runtime.SCOPE,
        )

    def count_call(self, usage: Usage | None, cost_usd: Decimal | None) -> None:
        """Add a finished call to the counters of this task and those above."""
        task: Task | None = self
        while task is not None:
            task._calls += 1
            if usage is not None:
                task._input += usage.input or 0
                task._output += usage.output or 0
            if cost_usd is None:
                task._unpriced += 1
            else:
                task._add_cost(cost_usd)
            task = task.parent

    def count_cost(self, cost_usd: Decimal) -> None:
        """Add the cost of something that is not a call."""
        task: Task | None = self
        while task is not None:
            task._add_cost(cost_usd)
            task = task.parent

    def _add_cost(self, cost_usd: Decimal) -> None:
        with _adding:
            self._cost = cost_usd if self._cost is None else EXACT.add(self._cost, cost_usd)

    def start_attributes(self) -> dict[str, str | float | int]:
        """What the span that starts the task says from the beginning."""
        said: dict[str, str | float | int] = {
            attributes.TASK_ID: self.id,
            attributes.TASK_NAME: self.name,
            attributes.TASK_SOURCE: "declared",
        }
        if self.parent is not None:
            said[attributes.TASK_PARENT_ID] = self.parent.id
        return said | {attributes.LABEL + key: value for key, value in [*self.labels.items()]}

    def end_attributes(self, failed: bool) -> dict[str, str | float | int]:
        """What that span says when the task ends, and marks the task as ended."""
        if self._ended is None:
            self._forks = _forking.forks() - self._forks
        self._ended, self._spans_before_end = stamp_ns(), self.ended_spans
        if failed:
            self._outcome = "failure"
        return self._last_attributes()

    def _last_attributes(self) -> dict[str, str | float | int]:
        said: dict[str, str | float | int] = {
            attributes.LABEL + key: value for key, value in [*self.labels.items()]
        }
        if self._outcome is not None:
            said[attributes.TASK_OUTCOME] = self._outcome
        if self._score is not None:
            said[attributes.TASK_SCORE] = float(self._score)
        if self._ended is not None:
            said[attributes.TASK_SPANS] = self._spans_before_end
        return said


class RemoteTask(Task):
    """A task that another process has started, as far as this one works for it. Nothing of it is kept here."""

    def __init__(self, id: str, key: Key) -> None:
        of_this_process = by_id(id)
        super().__init__(None, id, None, None)
        self.key = key
        if of_this_process is not None:
            _known[id] = of_this_process  # under one id, with another key: whoever says so stands back

    def _record(self) -> _recent.Recorded:
        return _recent.Recorded(self.anchor_ns)

    def _record_of(self, sub_task: Task) -> _recent.Recorded:
        return sub_task._record()

    def keep(self, span: object) -> None:
        """Count an ended span."""
        self.ended_spans += 1

    def note_open(self, span: Span) -> None:
        """Its open spans are not looked for."""
        remember(span.get_span_context().span_id, self)


def _pricer() -> Pricer:
    """What prices the calls of summaries in this process."""
    runtime = _runtime.active()
    return _pricer_by(runtime.settings.config if runtime is not None else None)


@functools.cache
def _pricer_by(path: str | None) -> Pricer:
    """By an agentprof.yaml: a process may be instrumented anew with another one."""
    from agentprof.config import Config, ConfigError, load_config
    from agentprof.pricing import Pricer

    try:
        config = load_config(path)
    except ConfigError as error:
        _guard.noted("configuration", f"agentprof: {error}; going on without it")
        config = Config()
    return Pricer(config)


_known: weakref.WeakValueDictionary[str, Task] = weakref.WeakValueDictionary()


def _key_of(task_id: str) -> Key:
    """A new key, unless a task is carried on under its id."""
    known = by_id(task_id)
    return known.key if known is not None else new_key()


def by_id(task_id: object) -> Task | None:
    """The task of this process with an id, if somebody still holds it."""
    return _known.get(task_id)  # type: ignore[call-overload,no-any-return]


_OPEN = 50_000
"""Open spans whose tasks are remembered; some never end."""
_tasks_of_open: dict[int, Task] = {}


def remember(span_id: int, task: Task) -> None:
    """Remember the task of a span that has started, until `task_of` asks for it at its end.

    What the span says of its task may be cut, or pushed out by other attributes.
    """
    while len(_tasks_of_open) >= _OPEN:
        with contextlib.suppress(RuntimeError, KeyError):  # another thread did it
            del _tasks_of_open[next(iter(_tasks_of_open))]
    _tasks_of_open[span_id] = task


def task_of(span: ReadableSpan) -> Task | None:
    """The task of a span that has ended, and forgets it."""
    context = span.context
    task = _tasks_of_open.pop(context.span_id, None) if context is not None else None
    if task is not None:
        return task
    task_id = plain_attributes(span).get(attributes.TASK_ID)
    return by_id(task_id) if task_id is not None else None


def current_task() -> Task | None:
    """The innermost task around the caller, or None outside any."""
    try:
        return _context.task_in()
    except Exception:
        _guard.failed("looking for the current task")
        return None
