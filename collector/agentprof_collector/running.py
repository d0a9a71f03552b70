"""Asks a running collector for what its database holds, over its API."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from agentprof._format import cut, printable
from agentprof.model import EnergyWindow, Outcome
from agentprof_collector.addresses import of_task
from agentprof_collector.errors import AgentprofError, Unreachable
from agentprof_collector.reports import Document, ReportName
from agentprof_collector.reports.asked import moment_text
from agentprof_collector.reports.selection import Selection
from agentprof_collector.settings import TOKEN_VARIABLE

_PATIENCE_S: Final = 120.0
_PAGE: Final = {"tasks": 5_000, "calls": 10_000}
"""Rows asked for at once, by the field that has them."""
_WHOLE: Final = ("parts", "rates", "estimates", "gpu_hours")
"""What is answered in one piece."""
_PARTS: Final = 100_000


class RunningCollector:
    """A collector at an address.

    Args:
        url: of its page and API.
        token: sent with every request; None: none.

    Raises:
        AgentprofError: this is no address.
    """

    def __init__(self, url: str, token: str | None) -> None:
        try:
            target = urlsplit(url)
            port = target.port
        except ValueError as error:
            raise _no_address(url) from error
        if target.scheme not in ("http", "https") or not target.hostname:
            raise _no_address(url)
        self._url = url
        self._base = target.path.rstrip("/") + "/api/v1"
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(target.hostname, port, timeout=_PATIENCE_S)
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def check(self) -> None:
        """Find out whether anybody answers.

        Raises:
            Unreachable: nobody does.
        """
        try:
            self._connection.connect()
        except OSError as error:
            raise self._unreachable(error) from error

    def document(self, name: ReportName, selection: Selection) -> Document:
        """A report; with `task_id` any part of an id that no other task has.

        Raises:
            Unreachable: nobody answers.
            AgentprofError: what the collector says against it.
        """
        if name == "task":
            return self._get(of_task(selection.task_id or ""), [])
        if name in _WHOLE:
            found = self._get(f"/{name}", [*_query(selection), ("limit", str(selection.limit or _PARTS))])
            if selection.limit is None and found["count"] > len(found["rows"]):
                raise AgentprofError(f"there are more than {_PARTS:,} rows: give --limit, or filter.")
        else:
            found = self._all_pages(name, selection)
        if selection.task_id is not None:
            selection = msgspec.structs.replace(selection, task_id=found["selection"]["task_id"])
        return found | {"selection": selection.to_dict()}

    def record(self, task: str, outcome: Outcome, score: float | None) -> Document:
        """Record an outcome; what was recorded. Raises as `document`."""
        body = {"outcome": outcome} | ({} if score is None else {"score": score})
        return self._ask("POST", of_task(task, "/outcome"), msgspec.json.encode(body))

    def record_energy(self, windows: Sequence[EnergyWindow]) -> Document:
        """Keep measured energy, at most 200 windows; what was kept. Raises as `document`."""
        return self._ask("POST", "/energy", msgspec.json.encode({"windows": windows}))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _all_pages(self, field: str, selection: Selection) -> Document:
        """The first page, with the rows of all that follow as far as they are asked for."""
        pages = self._pages(field, selection)
        found = next(pages)
        for page in pages:
            found[field] += page[field]
            found["next"] = page["next"]
        return found

    def _pages(self, field: str, selection: Selection) -> Iterator[Document]:
        wanted, after = selection.limit, selection.after
        while True:
            at_once = _PAGE[field] if wanted is None else min(wanted, _PAGE[field])
            query = [*_query(selection), ("limit", str(at_once))]
            page = self._get(f"/{field}", query + ([("after", after)] if after is not None else []))
            yield page
            after = page["next"]
            if wanted is not None:
                wanted -= len(page[field])
            if after is None or wanted == 0:
                return

    def _get(self, path: str, query: list[tuple[str, str]]) -> Document:
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Document:
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            self._connection.request(method, self._base + path, body, headers)
            response = self._connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._unreachable(error) from error
        return self._understood(response.status, said)

    def _unreachable(self, error: Exception) -> Unreachable:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return Unreachable(self._url, why)

    def _understood(self, status: int, said: bytes) -> Document:
        try:
            found: Any = msgspec.json.decode(said)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            found = None
        if status == http.client.OK and isinstance(found, dict) and found.get("schema") == 1:
            return found
        error = found.get("error") if isinstance(found, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        if status == http.client.UNAUTHORIZED and "Authorization" in self._headers:
            raise AgentprofError(
                f"what {TOKEN_VARIABLE} holds is not the token of the collector at {self._url}."
            )
        if status == http.client.UNAUTHORIZED:
            raise AgentprofError(f"the collector at {self._url} asks for its token: set {TOKEN_VARIABLE}.")
        if isinstance(message, str) and status >= http.client.BAD_REQUEST:
            raise AgentprofError(message)
        raise AgentprofError(f"what answers at {self._url} is no agentprof collector (status {status}).")


def _query(selection: Selection) -> list[tuple[str, str]]:
    """What is asked for, but for the piece of it."""
    fields = {
        "task": selection.task_id,
        "name": selection.name,
        "outcome": selection.outcome,
        "service": selection.service,
        "since": _moment(selection.since_ns),
        "until": _moment(selection.until_ns),
        "q": selection.search,
        "by": selection.by,
        "group_by": selection.group_by,
        "groups": selection.groups,
    }
    given = [(name, str(value)) for name, value in fields.items() if value is not None]
    return given + [("label", f"{key}={value}") for key, value in selection.labels.items()]


def _moment(at_ns: int | None) -> str | None:
    return None if at_ns is None else moment_text(at_ns)


def _no_address(url: str) -> AgentprofError:
    shown = repr(cut(printable(url), 80))
    return AgentprofError(f"--url: expected an address like http://127.0.0.1:8321, got {shown}.")
