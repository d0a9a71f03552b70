"""Requests for pages: read, checked, answered from the documents of the reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agentprof_collector.api import parameters, paths
from agentprof_collector.api.answers import Refused
from agentprof_collector.api.operations import Asked, current_task, record, selection
from agentprof_collector.api.resources import read_body, without_operation
from agentprof_collector.api.schemas import OutcomeBody
from agentprof_collector.collect.served import Served
from agentprof_collector.page import answers, form, links
from agentprof_collector.page.task_page import task_view
from agentprof_collector.page.tasks_page import GROUPS, Given, filter_view, tasks_view
from agentprof_collector.page.waterfall import ROWS
from agentprof_collector.reports import REPORTS, waterfall
from agentprof_collector.reports.selection import Selection

TASKS, TASKS_MOST = 50, 500
"""Tasks of a page, and of one that is asked for with `limit`."""
_FORM_LIMIT = 4096
"""Bytes of the form of an outcome."""

_PARAMETERS = (
    *parameters.FILTERS,
    parameters.GROUP_BY,
    parameters.limit(TASKS, TASKS_MOST, "tasks"),
    parameters.AFTER,
    parameters.Parameter(
        "live", "`0`: the page does not renew itself.", {"enum": ["0", "1"]}, parameters.one_of(("0", "1"))
    ),
)


class _Pages(answers.PageEndpoint):
    """Pages on a store.

    Args:
        served: the collector.
        limiter: how many requests may be in the store at once.
    """

    def __init__(self, served: Served, limiter: anyio.CapacityLimiter) -> None:
        self._served = served
        self._limiter = limiter

    async def _in_thread(self, make: Callable[[], Response]) -> Response:
        return await anyio.to_thread.run_sync(make, limiter=self._limiter)


class TasksPage(_Pages):
    """Many tasks."""

    async def answer(self, request: Request) -> Response:
        """The page; a filter that is not as expected is shown again with what was expected."""
        if (early := without_operation(request.method, {"GET"})) is not None:
            return early
        # A form sends its empty fields too.
        given = [(name, value) for name, value in request.query_params.multi_items() if value]
        try:
            found = parameters.read(_PARAMETERS, given)
        except Refused as refused:
            shown = [(name, value) for name, value in given if len(value) <= parameters.TEXT_LIMIT]
            return answers.page(
                "tasks_refused.html", refused.status, filter=filter_view(shown), message=str(refused)
            )
        found.pop("live", None)
        return await self._in_thread(lambda: self._page(given, selection(Asked(found), TASKS)))

    def _page(self, given: Given, chosen: Selection) -> Response:
        chosen = msgspec.structs.replace(chosen, groups=GROUPS)
        document = REPORTS["tasks"].document(self._served.store, chosen)
        return answers.page("tasks.html", **tasks_view(document, given, time.time_ns()))


class TaskPages(_Pages):
    """One task, and the form of its outcome."""

    async def answer(self, request: Request) -> Response:
        """The page, or where to go after the outcome was recorded."""
        first, *more = paths.segments(request.scope, "/tasks")
        if more not in ([], ["outcome"]):
            raise Refused(404, "there is no such page (a slash in the id of a task is written %2F)")
        text = paths.task_text(first, request.query_params.multi_items())
        if more:
            if (early := without_operation(request.method, {"POST"})) is not None:
                return early
            raw = await read_body(request, _FORM_LIMIT, "application/x-www-form-urlencoded")
            return await self._in_thread(lambda: self._recorded(text, raw))
        if (early := without_operation(request.method, {"GET"})) is not None:
            return early
        return await self._in_thread(lambda: self._page(text))

    def _page(self, text: str) -> Response:
        task_id = current_task(self._served, text)
        if task_id != text:
            return answers.to(links.task(task_id))
        store = self._served.store
        summary = REPORTS["task"].document(store, Selection(task_id=task_id))
        runs = waterfall.document(store, Selection(task_id=task_id, limit=ROWS))
        view = task_view(summary, runs, self._served.jaeger_url, time.time_ns())
        return answers.page("task.html", **view)

    def _recorded(self, task_id: str, raw: bytes) -> Response:
        try:
            sent = parse_qs(raw.decode(), strict_parsing=True, max_num_fields=10, keep_blank_values=True)
        except (ValueError, UnicodeError) as error:
            raise Refused(400, "the form is not as expected") from error
        fields = {name: values[0] for name, values in sent.items()}
        if not form.is_proof(task_id, fields.get("proof", "")):
            raise Refused(
                403, "this form is not of this page, or of one from before a restart; load it again"
            )
        record(self._served, current_task(self._served, task_id), _outcome(fields))
        return answers.to(links.task(task_id))


def _outcome(fields: dict[str, str]) -> OutcomeBody:
    outcome, score = fields.get("outcome", ""), fields.get("score", "").strip()
    if outcome not in ("success", "failure"):
        raise Refused(400, "outcome: expected success or failure", "outcome")
    try:
        return OutcomeBody(outcome=outcome, score=float(score) if score else None)  # type: ignore[arg-type]
    except ValueError as error:
        raise Refused(400, "score: expected a number", "score") from error
