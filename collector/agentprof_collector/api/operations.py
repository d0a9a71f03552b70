"""Everything that can be asked of the API: one list, from which both the routes and their document are made."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentprof.model import EnergyWindow, OutcomeFact
from agentprof.summary import TaskSummary
from agentprof_collector.api.answers import Refused
from agentprof_collector.api.parameters import (
    AFTER,
    AFTER_CALL,
    BY,
    FILTERS,
    GROUP_BY,
    GROUPS_LIMIT,
    RATES_BY,
    TASK,
    Parameter,
    limit,
)
from agentprof_collector.api.schemas import (
    CallsAnswer,
    ContentAnswer,
    EnergyAnswer,
    EnergyBody,
    EstimatesAnswer,
    GpuHoursAnswer,
    OutcomeAnswer,
    OutcomeBody,
    PartsAnswer,
    RatesAnswer,
    TasksAnswer,
    WaterfallAnswer,
)
from agentprof_collector.collect.served import Served
from agentprof_collector.find import find_task
from agentprof_collector.reports import REPORTS, Document, ReportName, content, waterfall
from agentprof_collector.reports import asked as asked_for
from agentprof_collector.reports.selection import Selection

PREFIX = "/api/v1"
TASKS_LIMIT, TASKS_MOST = 100, 5_000
ROWS_LIMIT, ROWS_MOST = 1_000, 10_000
PARTS_MOST = 100_000


class Asked(NamedTuple):
    """A request that was found to be as expected."""

    parameters: Mapping[str, Any]
    task: str = ""
    """The id, or part of one, in the path."""
    body: Any = None


class Operation(NamedTuple):
    """A method of a path."""

    method: str
    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    answer: type[msgspec.Struct]
    document: Callable[[Served, Asked], Document]
    """Called by a thread that may wait; raises `Refused` or an `AgentprofError`."""
    body: type[msgspec.Struct] | None = None
    body_bytes: int = 16 * 1024
    """Of a request at most; an outcome takes some dozens."""


def _tasks(served: Served, asked: Asked) -> Document:
    served.up_to_date()
    return _report(served, "tasks", selection(asked, TASKS_LIMIT))


def _task(served: Served, asked: Asked) -> Document:
    task_id = current_task(served, asked.task)
    return _report(served, "task", Selection(task_id=task_id))


def _waterfall(served: Served, asked: Asked) -> Document:
    task_id = current_task(served, asked.task)
    chosen = Selection(task_id=task_id, limit=asked.parameters.get("limit", ROWS_LIMIT))
    return waterfall.document(served.store, chosen)


def _content(served: Served, asked: Asked) -> Document:
    task_id = current_task(served, asked.task)
    chosen = Selection(task_id=task_id, limit=asked.parameters.get("limit", ROWS_LIMIT))
    return content.document(served.store, chosen)


def _energy(served: Served, asked: Asked) -> Document:
    body: EnergyBody = asked.body
    for number, window in enumerate(body.windows):
        if (wrong := _wrong_with(window)) is not None:
            raise Refused(400, f"windows[{number}]: {wrong}", "windows")
    if body.windows:
        served.record_energy(body.windows)
    return {"schema": 1, "windows": len(body.windows)}


def _wrong_with(window: EnergyWindow) -> str | None:
    """Why a window cannot be one; None: it can."""
    if not 0 <= window.start_ns < window.end_ns < _LARGEST:
        return "expected start_ns before end_ns, ns since 1970"
    if window.end_ns - window.start_ns > _DAY_NS:
        return "expected end_ns at most a day after start_ns"
    if window.end_ns > time.time_ns() + _DAY_NS:
        return "expected an end_ns that is past"
    if not 0 <= window.energy_uj < _LARGEST:
        return "expected energy_uj of 0 or more"
    if not 0 <= window.running_low <= window.running_high < _LARGEST:
        return "expected running_low of 0 or more, and no more than running_high"
    if window.tokens is not None and not 0 <= window.tokens < _LARGEST:
        return "expected tokens of 0 or more, or null"
    if not window.server or len(window.server) > _NAME_LIMIT or len(window.node) > _NAME_LIMIT:
        return f"expected the names of server and node, at most {_NAME_LIMIT} characters each"
    return None


def _rows(name: ReportName) -> Callable[[Served, Asked], Document]:
    """A report whose rows are of one task or of all that fit."""
    return lambda served, asked: _report(served, name, _rows_of(served, asked))


def _rows_of(served: Served, asked: Asked) -> Selection:
    chosen = selection(asked, ROWS_LIMIT)
    if "task" not in asked.parameters:
        served.up_to_date()
        return chosen
    given = set(asked.parameters) & {parameter.name for parameter in FILTERS}
    if given:
        raise Refused(400, f"task stands for one task; leave out {', '.join(sorted(given))}", "task")
    return msgspec.structs.replace(chosen, task_id=current_task(served, asked.parameters["task"]))


def _record(served: Served, asked: Asked) -> Document:
    body: OutcomeBody = asked.body
    return record(served, current_task(served, asked.task), body)


def record(served: Served, task_id: str, body: OutcomeBody) -> Document:
    """Keep an outcome, and say what was kept."""
    if body.score is not None and not math.isfinite(body.score):
        raise Refused(400, "score: expected a finite number", "score")
    fact = OutcomeFact(task_id=task_id, outcome=body.outcome, score=body.score, recorded_ns=time.time_ns())
    served.record_outcome(fact)
    return {"schema": 1, **msgspec.to_builtins(fact)}


def current_task(served: Served, text: str) -> str:
    """The id of the task that is meant, with all that has arrived for it added up.

    Raises:
        TaskNotFound: none.
        TaskAmbiguous: several.
    """
    # What has just arrived has no row that it could be found by.
    served.up_to_date([text])
    task_id = find_task(served.store, text)
    if task_id != text:
        served.up_to_date([task_id])
    return task_id


def _report(served: Served, name: ReportName, selection: Selection) -> Document:
    return REPORTS[name].document(served.store, selection)


def selection(asked: Asked, default_limit: int) -> Selection:
    """What the parameters select.

    Raises:
        Refused: they contradict each other.
    """
    values = {
        _FIELDS.get(name, name): value
        for name, value in asked.parameters.items()
        if name not in ("label", "task")
    }
    values.setdefault("limit", default_limit)
    return Selection(labels=_labels(asked.parameters.get("label", ())), **values)


def _labels(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    try:
        return asked_for.labels(pairs)
    except ValueError as error:
        raise Refused(400, f"label: {error}", "label") from error


# Where a parameter and its field in a selection have different names.
_FIELDS = {"q": "search", "since": "since_ns", "until": "until_ns"}
_TASK_PATH = f"{PREFIX}/tasks/{{id}}"
_LARGEST = 2**62
_NAME_LIMIT = 256
_DAY_NS = 86_400 * 10**9

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        f"{PREFIX}/tasks",
        "Many tasks, latest start first, and groups of them.",
        (*FILTERS, GROUP_BY, GROUPS_LIMIT, limit(TASKS_LIMIT, TASKS_MOST, "tasks"), AFTER),
        TasksAnswer,
        _tasks,
    ),
    Operation("GET", _TASK_PATH, "The summary of one task.", (), TaskSummary, _task),
    Operation(
        "GET",
        f"{_TASK_PATH}/waterfall",
        "The runs of one task, one below the other.",
        (limit(ROWS_LIMIT, ROWS_MOST, "runs"),),
        WaterfallAnswer,
        _waterfall,
    ),
    Operation(
        "GET",
        f"{_TASK_PATH}/content",
        "What was said in one task, where the collector keeps it.",
        (limit(ROWS_LIMIT, ROWS_MOST, "spans"),),
        ContentAnswer,
        _content,
    ),
    Operation(
        "POST",
        f"{_TASK_PATH}/outcome",
        "Record how a task ended; the last outcome recorded holds.",
        (),
        OutcomeAnswer,
        _record,
        OutcomeBody,
    ),
    Operation(
        "GET",
        f"{PREFIX}/calls",
        "Model calls, one row each, of one task or of all that fit.",
        (TASK, *FILTERS, limit(ROWS_LIMIT, ROWS_MOST, "calls"), AFTER_CALL),
        CallsAnswer,
        _rows("calls"),
    ),
    Operation(
        "GET",
        f"{PREFIX}/parts",
        "Where time, tokens and money went, by step, agent, tool or model.",
        (BY, TASK, *FILTERS, limit(ROWS_LIMIT, PARTS_MOST, "rows")),
        PartsAnswer,
        _rows("parts"),
    ),
    Operation(
        "GET",
        f"{PREFIX}/rates",
        "How fast calls were, by the length of their context or by how many ran at once.",
        (RATES_BY, TASK, *FILTERS, limit(ROWS_LIMIT, PARTS_MOST, "rows")),
        RatesAnswer,
        _rows("rates"),
    ),
    Operation(
        "GET",
        f"{PREFIX}/estimates",
        "Estimates of queue and prefill where no server reports them, by endpoint.",
        (TASK, *FILTERS, limit(ROWS_LIMIT, PARTS_MOST, "rows")),
        EstimatesAnswer,
        _rows("estimates"),
    ),
    Operation(
        "GET",
        f"{PREFIX}/gpu_hours",
        "What tokens and successes cost on GPUs paid by the hour, at the utilisation of their calls.",
        (*FILTERS, limit(ROWS_LIMIT, PARTS_MOST, "rows")),
        GpuHoursAnswer,
        _rows("gpu_hours"),
    ),
    Operation(
        "POST",
        f"{PREFIX}/energy",
        "Keep measured energy of endpoints; the tasks of that time are added up again.",
        (),
        EnergyAnswer,
        _energy,
        EnergyBody,
        256 * 1024,
    ),
)
