"""Tasks as a program sees them: the handle with outcome, labels, counters and summary."""

from __future__ import annotations

import functools
import uuid
import weakref
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.trace import Span

from agentprof import _context, _guard, _recent, _runtime, attributes
from agentprof._clock import anchor_ns, stamp_ns
from agentprof.model import Outcome, Usage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from agentprof.pricing import Pricer
    from agentprof.summary import TaskSummary


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
        self, name: str, id: str | None, labels: Mapping[str, str] | None, parent: Task | None
    ) -> None:
        self.name = name
        self.id = id if id is not None else uuid.uuid4().hex
        self.parent = parent
        self.anchor_ns: int = parent.anchor_ns if parent is not None else anchor_ns()
        """Wall time minus stamp, for every span of the task in this process."""
        self.labels: dict[str, str] = {str(key): str(value) for key, value in (labels or {}).items()}
        self._outcome: Outcome | None = None
        self._score: float | None = None
        self._started = stamp_ns()
        self._ended: int | None = None
        self.ended_spans = 0
        """Spans of this task that have ended in this process."""
        self._calls = 0
        self._unpriced = 0
        self._input = 0
        self._output = 0
        self._cost: Decimal | None = None
        self._recorded: _recent.Recorded = (
            parent._recorded if parent is not None else _recent.begin(self.id, self.anchor_ns)
        )
        _known[self.id] = self

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
        self.labels[str(key)] = str(value)

    def spent(self) -> Spent:
        """Running counters, cheap enough to ask in every round of a loop."""
        until = self._ended if self._ended is not None else stamp_ns()
        elapsed_s = (until - self._started) / 1e9
        return Spent(self._calls, self._input, self._output, self._cost, self._unpriced, elapsed_s)

    def summary(self) -> TaskSummary:
        """The task so far, or all of it once it has ended, from the spans of this process.

        Raises:
            LookupError: The process has forgotten the spans (it keeps those of the latest tasks).
        """
        from agentprof.rollup import roll_up, tasks_in
        from agentprof.vocabularies import normalise

        price = _pricer().price
        read = [price(normalise(raw)) for raw in self._recorded.raw_spans()]
        spans = tasks_in(read).get(self.id)
        if not spans:
            raise LookupError(f"no spans of task {self.id} are kept: is agentprof.instrument() active?")
        return roll_up(self.id, spans)

    def note_open(self, span: Span) -> None:
        """Remember an open span of the task, for summaries asked for before it ends."""
        self._recorded.live[span.get_span_context().span_id] = span  # type: ignore[assignment]

    def note_ended(self, span: Span) -> None:
        """Forget it again, just before it ends."""
        self._recorded.live.pop(span.get_span_context().span_id, None)

    def keep(self, span: ReadableSpan) -> None:
        """Record an ended span of the task."""
        self.ended_spans += 1
        _recent.keep(self._recorded, span)

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
                task._cost = cost_usd + (task._cost or 0)
            task = task.parent

    def count_cost(self, cost_usd: Decimal) -> None:
        """Add the cost of something that is not a call."""
        task: Task | None = self
        while task is not None:
            task._cost = cost_usd + (task._cost or 0)
            task = task.parent

    def start_attributes(self) -> dict[str, str]:
        """What the span that starts the task says from the beginning."""
        said = {
            attributes.TASK_ID: self.id,
            attributes.TASK_NAME: self.name,
            attributes.TASK_SOURCE: "declared",
        }
        if self.parent is not None:
            said[attributes.TASK_PARENT_ID] = self.parent.id
        return said | {attributes.LABEL + key: value for key, value in self.labels.items()}

    def end_attributes(self, failed: bool) -> dict[str, str | float | int]:
        """What that span says when the task ends, and marks the task as ended."""
        self._ended = stamp_ns()
        if failed:
            self._outcome = "failure"
        said: dict[str, str | float | int] = {
            attributes.LABEL + key: value for key, value in self.labels.items()
        }
        if self._outcome is not None:
            said[attributes.TASK_OUTCOME] = self._outcome
        if self._score is not None:
            said[attributes.TASK_SCORE] = float(self._score)
        said[attributes.TASK_SPANS] = self.ended_spans
        return said


@functools.cache
def _pricer() -> Pricer:
    """What prices the calls of summaries in this process."""
    from agentprof.config import Config, ConfigError, load_config
    from agentprof.pricing import Pricer

    runtime = _runtime.active()
    try:
        config = load_config(runtime.settings.config if runtime is not None else None)
    except ConfigError as error:
        _guard.noted("configuration", f"agentprof: {error}; going on without it")
        config = Config()
    return Pricer(config)


_known: weakref.WeakValueDictionary[str, Task] = weakref.WeakValueDictionary()


def by_id(task_id: object) -> Task | None:
    """The task of this process with an id, if somebody still holds it."""
    return _known.get(task_id)  # type: ignore[call-overload,no-any-return]


def current_task() -> Task | None:
    """The innermost task around the caller, or None outside any."""
    try:
        return _context.task_in()
    except Exception:
        _guard.failed("looking for the current task")
        return None
