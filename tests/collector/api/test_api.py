import http.client
import json
import socket
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

import pytest
from support.raw import SECOND, call_span, task_span
from support.serving import OfStore, Server, serving

from agentprof_collector.addresses import encoded, of_task
from agentprof_collector.api import routes
from agentprof_collector.errors import StoreUnusable
from agentprof_collector.reports import REPORTS, to_json
from agentprof_collector.reports.selection import Selection

OUTCOME_BYTES = 16 * 1024
"""Of a body with an outcome at most."""


def quoted(document: Any) -> dict[str, Any]:
    """A document as a client reads it."""
    found: dict[str, Any] = json.loads(to_json(document))
    return found


def test_tasks_are_the_report_of_many_tasks(api: Server, served: OfStore, tasks: list[str]) -> None:
    """The same document, made when everything that arrived is added up."""
    answered = api.ask("/api/v1/tasks")
    assert (answered.status, answered.headers["content-type"]) == (200, "application/json")
    assert answered.body == to_json(REPORTS["tasks"].document(served.store, Selection(limit=100)))
    assert [task["task_id"] for task in answered.document["tasks"]] == tasks
    assert served.brought_up_to_date[-1] is None


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=search", ["task-4", "task-3"]),
        ("outcome=failure", ["task-3", "task-1"]),
        ("outcome=unknown", ["task-0"]),
        ("label=customer=globex", ["task-3", "task-1"]),
        ("label=customer%3Dacme&name=answer", ["task-2", "task-0"]),
        ("label=customer=acme&label=other=x", []),
        ("limit=2", ["task-4", "task-3"]),
    ],
)
def test_filters(api: Server, tasks: list[str], query: str, expected: list[str]) -> None:
    """Only what fits all of them."""
    assert [task["task_id"] for task in api.ask(f"/api/v1/tasks?{query}").document["tasks"]] == expected


def test_pages(api: Server, tasks: list[str]) -> None:
    """`next` leads through all tasks once; groups stay over all."""
    found: list[str] = []
    after = ""
    while True:
        document = api.ask(f"/api/v1/tasks?limit=2{after}").document
        found += [task["task_id"] for task in document["tasks"]]
        assert document["groups"][0]["tasks"] == 5
        if document["next"] is None:
            break
        after = f"&after={document['next']}"
    assert found == tasks


def test_groups(api: Server, tasks: list[str]) -> None:
    """By label, with sums."""
    groups = api.ask("/api/v1/tasks?group_by=label.customer").document["groups"]
    assert [(group["key"], group["tasks"]) for group in groups] == [
        ({"label.customer": "acme"}, 3),
        ({"label.customer": "globex"}, 2),
    ]


def test_one_task_is_its_summary(api: Server, served: OfStore, tasks: list[str]) -> None:
    """Found by its id, or by a part that no other has; brought up to date first."""
    summary = served.store.task("task-3")
    assert summary is not None
    served.brought_up_to_date.clear()
    for text in ("task-3", "…3", "t%E2%80%A63", "-3"):
        answered = api.ask(f"/api/v1/tasks/{text.replace('…', '%E2%80%A6')}")
        assert answered.document == quoted(summary.to_dict())
    assert served.brought_up_to_date[:1] == [("task-3",)]
    assert served.brought_up_to_date[-2:] == [("-3",), ("task-3",)]
    assert Decimal(answered.document["cost_usd"]) == summary.cost_usd


def test_a_waterfall(api: Server, tasks: list[str]) -> None:
    """The runs of a task with the phases of its calls; of more than the limit the longest."""
    document = api.ask("/api/v1/tasks/task-3/waterfall").document
    assert [(row["depth"], row["kind"], row["name"]) for row in document["spans"]] == [
        (0, "task", "search"),
        (1, "model", "gpt-4o-2024-08-06"),
        (1, "tool", "search"),
        (1, "model", "gpt-4o-2024-08-06"),
    ]
    assert (document["count"], document["wall_ns"]) == (4, 10 * SECOND)
    assert [row["error"] for row in document["spans"]] == [False, False, True, False]
    assert document["spans"][1]["phases"] == [{"name": "model", "ns": SECOND, "source": "observed"}]
    assert Decimal(document["spans"][1]["cost_usd"]) == Decimal("0.0035")
    cut = api.ask("/api/v1/tasks/task-3/waterfall?limit=1").document
    assert (len(cut["spans"]), cut["count"]) == (1, 4)


def test_calls_and_parts(api: Server, served: OfStore, tasks: list[str]) -> None:
    """The same documents as the reports; of one task, or of those that fit."""
    assert api.ask("/api/v1/calls").body == to_json(
        REPORTS["calls"].document(served.store, Selection(limit=1000))
    )
    of_one = api.ask("/api/v1/calls?task=…3&limit=1".replace("…", "%E2%80%A6")).document
    assert (of_one["count"], len(of_one["calls"]), of_one["selection"]["task_id"]) == (2, 1, "task-3")
    tools = api.ask("/api/v1/parts?by=tool&outcome=failure").document
    assert [(row["name"], row["runs"], row["errors"]) for row in tools["rows"]] == [("search", 2, 1)]
    assert api.ask("/api/v1/parts?by=model&task=task-1").document["rows"][0]["calls"] == 2


def test_an_outcome_is_recorded(fresh_api: Server, fresh: OfStore, fresh_tasks: list[str]) -> None:
    """With a score; what is answered is what was kept, and the summary has it."""
    answered = fresh_api.post_json("/api/v1/tasks/%E2%80%A60/outcome", {"outcome": "success", "score": 0.25})
    assert answered.status == 200
    document = answered.document
    assert (document["task_id"], document["outcome"], document["score"]) == ("task-0", "success", 0.25)
    (fact,) = fresh.store.outcomes_of(["task-0"])
    assert fact.recorded_ns == document["recorded_ns"]
    summary = fresh_api.ask("/api/v1/tasks/task-0").document
    assert (summary["outcome"], summary["score"]) == ("success", 0.25)


HOSTILE_IDS = [
    "a/b",
    "../../etc/passwd",
    "..",
    "x/outcome",
    "x/waterfall",
    "line\nend\n",
    "nul\0",
    "per%2Fcent",
    "ques?tion#hash&amp=1",
    "'; DROP TABLE tasks; --",
    "<script>alert(1)</script>",
    "Ünï © 漢字",
    " blank ",
    "trace:0",
]


@pytest.mark.parametrize("task", HOSTILE_IDS)
def test_any_id_is_an_id(fresh_api: Server, fresh: OfStore, task: str) -> None:
    """Percent-encoded, in the path of the task and of what is below it, and as a parameter."""
    fresh.feed([task_span("1" * 32, task), call_span("1" * 32, task, "a")])
    for text in (encoded(task), "".join(f"%{byte:02X}" for byte in task.encode())):
        assert fresh_api.ask(f"/api/v1/tasks/{text}").document["task_id"] == task
        assert fresh_api.ask(f"/api/v1/tasks/{text}/waterfall").document["count"] == 2
        assert fresh_api.ask(f"/api/v1/calls?task={text}").document["calls"][0]["task_id"] == task
        assert fresh_api.post_json(f"/api/v1/tasks/{text}/outcome", {"outcome": "failure"}).status == 200
    assert fresh_api.ask(f"/api/v1/tasks/{encoded(task)}").document["outcome"] == "failure"
    assert len(fresh.store.tasks()) == 1


@pytest.mark.parametrize(
    ("path", "status", "parameter", "message"),
    [
        ("/tasks?limit=0", 400, "limit", "limit: expected a whole number from 1 to 5,000, got '0'"),
        ("/tasks?limit=5001", 400, "limit", "limit: expected a whole number from 1 to 5,000, got '5001'"),
        ("/tasks?limit=1e3", 400, "limit", "limit: expected a whole number from 1 to 5,000, got '1e3'"),
        ("/tasks?limit=%D9%A1", 400, "limit", "limit: expected a whole number from 1 to 5,000, got '\u0661'"),
        ("/tasks?limit=1&limit=1", 400, "limit", "limit may be given once"),
        ("/tasks?outcome=ok", 400, "outcome", "outcome: expected one of success, failure, unknown, got 'ok'"),
        ("/tasks?label=acme", 400, "label", "label: expected KEY=VALUE, got 'acme'"),
        ("/tasks?label=a=1&label=a=2", 400, "label", "label: two values of one label; no task has both"),
        (
            "/tasks?group_by=label.",
            400,
            "group_by",
            "group_by: expected name, outcome or label.KEY, got 'label.'",
        ),
        ("/parts", 400, "by", "by is missing: expected one of step, agent, tool, model"),
        ("/calls?task=task-1&name=x", 400, "task", "task stands for one task; leave out name"),
        ("/tasks/task-1?limit=3", 400, "limit", "there is no parameter 'limit'; there are none here"),
        (
            "/tasks/none",
            404,
            None,
            "there is no task 'none'. agentprof report lists the tasks that are there.",
        ),
        (
            "/calls?task=none",
            404,
            None,
            "there is no task 'none'. agentprof report lists the tasks that are there.",
        ),
        ("/tasks/", 404, None, "the path lacks the id of a task"),
        ("/tasks/%ff", 400, None, "the path is not UTF-8, percent-encoded"),
        (
            "/tasks/a/b",
            404,
            None,
            "there is nothing at this path (a slash in the id of a task is written %2F)",
        ),
        ("/nothing", 404, None, "there is nothing at this path; /api/v1/openapi.json lists what there is"),
    ],
)
def test_what_is_not_as_expected_is_said(
    api: Server, tasks: list[str], path: str, status: int, parameter: str | None, message: str
) -> None:
    """Which parameter, what was expected and what came."""
    answered = api.ask(f"/api/v1{path}")
    assert (answered.status, answered.headers["content-type"]) == (status, "application/json")
    expected = {"status": status, "message": message}
    assert answered.document == {
        "error": expected if parameter is None else expected | {"parameter": parameter}
    }


def test_an_unknown_parameter_is_named_with_those_there_are(api: Server) -> None:
    """A filter that is misspelt does not select everything."""
    error = api.ask("/api/v1/tasks?nmae=x").document["error"]
    assert error["parameter"] == "nmae"
    assert error["message"].startswith("there is no parameter 'nmae'; there are name, outcome, label")


def test_a_part_of_several_ids_is_ambiguous(api: Server, tasks: list[str]) -> None:
    """Naming some of them."""
    error = api.ask("/api/v1/tasks/task-").document["error"]
    assert error["status"] == 409
    assert "'task-' is the beginning of several tasks: task-0, task-1" in error["message"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b"outcome=success", {"Content_Type": "application/x-www-form-urlencoded"}, 415, "application/json"),
        (b'{"outcome":"success"}', {"Content_Type": "text/plain"}, 415, "application/json"),
        (b'{"outcome":"success"}', {}, 415, "application/json"),
        (b"{}", {"Content_Type": "application/json", "Content_Encoding": "gzip"}, 415, "Content-Encoding"),
        (b"{", {"Content_Type": "application/json"}, 400, "the body is not as expected"),
        (b"[" * 10_000, {"Content_Type": "application/json"}, 400, "the body is not as expected"),
        (b'{"outcome":"won"}', {"Content_Type": "application/json"}, 400, "Invalid enum value 'won'"),
        (
            b'{"outcome":"success","scor":1}',
            {"Content_Type": "application/json"},
            400,
            "unknown field `scor`",
        ),
        (b'{"outcome":"success","score":"1"}', {"Content_Type": "application/json"}, 400, "$.score"),
        (b'{"outcome":"success","score":NaN}', {"Content_Type": "application/json"}, 400, "as expected"),
        (b'{"outcome":"success","score":1e999}', {"Content_Type": "application/json"}, 400, "expected"),
        (b'{"outcome":"\xff"}', {"Content_Type": "application/json"}, 400, "as expected"),
        (b" " * (OUTCOME_BYTES + 1), {"Content_Type": "application/json"}, 413, "at most 16,384 bytes"),
    ],
)
def test_a_body_that_is_not_an_outcome(
    api: Server,
    served: OfStore,
    tasks: list[str],
    body: bytes,
    headers: dict[str, str],
    status: int,
    message: str,
) -> None:
    """Is refused and records nothing; a form of another site could not be JSON."""
    answered = api.ask("/api/v1/tasks/task-0/outcome", "POST", body, **headers)
    assert answered.status == answered.document["error"]["status"] == status
    assert message in answered.document["error"]["message"]
    assert served.store.outcomes_of(tasks) == []


def test_a_body_of_unknown_length_is_bounded(api: Server, tasks: list[str]) -> None:
    """Refused as soon as it is too long, before it has ended."""
    head = (
        b"POST /api/v1/tasks/task-0/outcome HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", api.port), timeout=30) as connection:
        connection.sendall(head + (b"400\r\n" + b" " * 1024 + b"\r\n") * (OUTCOME_BYTES // 1024 + 1))
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v1/tasks", "GET, HEAD, OPTIONS"),
        ("/api/v1/tasks/task-0", "GET, HEAD, OPTIONS"),
        ("/api/v1/tasks/task-0/outcome", "OPTIONS, POST"),
        ("/api/v1/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
def test_methods(api: Server, tasks: list[str], path: str, allowed: str) -> None:
    """What a path does not do is refused with what it does; HEAD is GET without the body."""
    for method in ("DELETE", "PUT", "PATCH", "TRACE"):
        answered = api.ask(path, method)
        assert (answered.status, answered.headers["allow"]) == (405, allowed)
        assert answered.document["error"]["message"].startswith("expected ")
    asked = api.ask(path, "OPTIONS", Origin="https://elsewhere.example")
    assert (asked.status, asked.headers["allow"], asked.body) == (204, allowed, b"")
    head = api.ask(path, "HEAD")
    assert (head.status, head.body) == (405 if "POST" in allowed else 200, b"")
    if head.status == 200:
        assert head.headers["content-length"] == str(len(api.ask(path).body))


def test_headers_keep_answers_to_whom_they_are_for(api: Server, tasks: list[str]) -> None:
    """Of answers and errors: not kept, not guessed at, not framed, not for other sites."""
    for path in ("/api/v1/tasks", "/api/v1/tasks/none", "/api/v1/openapi.json", "/api/x"):
        headers = api.ask(path, Origin="https://elsewhere.example").headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["referrer-policy"] == "no-referrer"
        assert not [name for name in headers if name.startswith("access-control-")]


SQL = ["'", "' OR '1'='1", "'; DROP TABLE tasks; --", "%", "_", "\\", "\0", '"', "$name", "?", "1) --"]


@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_parameter_is_a_text(
    fresh_api: Server, fresh: OfStore, fresh_tasks: list[str], text: str
) -> None:
    """It selects nothing, breaks nothing, and finds the task that is named so."""
    sent = quote(text, safe="")
    for query in (f"name={sent}", f"label=customer={sent}", f"label={quote('k' + text, safe='')}=v"):
        answered = fresh_api.ask(f"/api/v1/tasks?{query}")
        assert (answered.status, answered.document["tasks"]) == (200, []), query
    fresh.feed([task_span("9" * 32, f"id {text}", name=text, **{f"agentprof.label.{text}": text})])
    for query in (f"name={sent}", f"label={quote(text.replace('=', '') or 'x', safe='')}={sent}"):
        found = fresh_api.ask(f"/api/v1/tasks?{query}").document["tasks"]
        assert "=" in text or [task["task_id"] for task in found] == [f"id {text}"]
    groups = fresh_api.ask(f"/api/v1/tasks?group_by=label.{sent}").document["groups"]
    assert {group["key"][f"label.{text}"]: group["tasks"] for group in groups} == {text: 1, None: 5}
    assert len(fresh.store.tasks()) == 6


def test_long_texts_are_refused(api: Server, tasks: list[str]) -> None:
    """Ids and parameters; what is longer than a server takes at all is its own affair."""
    for path in ("/tasks/{}", "/tasks?name={}", "/calls?task={}", "/tasks?label=k%3D{}"):
        answered = api.ask("/api/v1" + path.format("x" * 5000))
        assert answered.status == 400
        assert "longer than 4,096 characters" in answered.document["error"]["message"]
        assert len(answered.body) < 300


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            StoreUnusable(Path("a.duckdb"), "cannot be written (disk full)"),
            503,
            "a.duckdb: cannot be written (disk full).",
        ),
        (ValueError("a prompt"), 500, "a mistake of agentprof itself: ValueError."),
    ],
)
def test_an_error_inside_is_said(
    fresh: OfStore, caplog: pytest.LogCaptureFixture, error: Exception, status: int, message: str
) -> None:
    """With when to come again where that helps; what an error quotes is not passed on, its place is logged."""

    class Failing(OfStore):
        def up_to_date(self, task_ids: Any = None) -> None:
            raise error

    with serving(routes(Failing(fresh.store))) as server:
        for _ in range(2):
            answered = server.ask("/api/v1/tasks")
            assert answered.status == answered.document["error"]["status"] == status
            assert answered.document["error"]["message"].startswith(message)
    assert ("retry-after" in answered.headers) == (status == 503)
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("agentprof")]
    assert len(logged) == (2 if status == 500 else 0)
    assert all("ValueError at " in line and "a prompt" not in line for line in logged)


def test_two_requests_after_each_other_on_one_connection(api: Server, tasks: list[str]) -> None:
    """A refused request does not end it, unless it was too large."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=30)
    for path, status in (("/api/v1/tasks?limit=x", 400), ("/api/v1/tasks", 200), ("/api/v1/tasks/none", 404)):
        connection.request("GET", path)
        response = connection.getresponse()
        assert (response.status, bool(response.read())) == (status, True)
    connection.close()


def test_groups_are_bounded(api: Server, tasks: list[str]) -> None:
    """Of more groups than asked for those that cost most; what is in the others, and how to see them, is said."""
    every = api.ask("/api/v1/tasks?group_by=label.customer").document
    assert every["groups_left_out"] is None
    costs = {group["key"]["label.customer"]: Decimal(group["total_cost_usd"]) for group in every["groups"]}
    assert costs["acme"] > costs["globex"]
    cut = api.ask("/api/v1/tasks?group_by=label.customer&groups=1").document
    assert cut["groups"] == [group for group in every["groups"] if group["key"]["label.customer"] == "acme"]
    left_out = cut["groups_left_out"]
    assert (left_out["tasks"], Decimal(left_out["total_cost_usd"])) == (2, costs["globex"])
    assert "groups=N" in left_out["hint"]
    assert "since" in left_out["hint"]


def test_a_field_of_very_many_values(fresh: OfStore, fresh_api: Server) -> None:
    """Without a number given 1,000 groups are answered; the figures of all others add up."""
    values = 1_200
    for begin in range(0, values, 400):
        fresh.feed(
            [
                task_span(f"{n:032x}", f"task {n}", **{"agentprof.label.request": f"{n:05}"})
                for n in range(begin, begin + 400)
            ]
        )
    document = fresh_api.ask("/api/v1/tasks?group_by=label.request&limit=1").document
    assert [group["key"]["label.request"] for group in document["groups"]] == [
        f"{n:05}" for n in range(1_000)
    ]
    assert document["groups_left_out"]["tasks"] == values - 1_000
    more = fresh_api.ask("/api/v1/tasks?group_by=label.request&limit=1&groups=10000").document
    assert (len(more["groups"]), more["groups_left_out"]) == (values, None)
    refused = fresh_api.ask("/api/v1/tasks?group_by=label.request&groups=10001")
    assert (refused.status, refused.document["error"]["parameter"]) == (400, "groups")


@pytest.mark.parametrize("task_id", [".", "..", "...", "%2E", "./a", "a/..", "../tasks", "?id=.", "/", "#"])
def test_ids_that_are_steps_of_a_path(task_id: str, fresh: OfStore, fresh_api: Server) -> None:
    """Found at an address that browsers and libraries leave as it is, and everything below it, too."""
    fresh.feed([task_span("1" * 32, task_id), call_span("1" * 32, task_id, "a")])
    path = "/api/v1" + of_task(task_id)
    resolved = urlsplit(urljoin("http://x/api/", path)).path
    assert resolved == path.partition("?")[0]
    assert unquote(resolved.rpartition("/")[2]) not in (".", "..")
    assert fresh_api.ask(path).document["task_id"] == task_id
    for below in ("/waterfall", "/content"):
        assert fresh_api.ask("/api/v1" + of_task(task_id, below)).document["task_id"] == task_id
    kept = fresh_api.post_json("/api/v1" + of_task(task_id, "/outcome"), {"outcome": "failure"})
    assert (kept.status, kept.document["task_id"]) == (200, task_id)
    assert fresh_api.ask(path).document["outcome"] == "failure"


def test_an_id_behind_a_path_without_one(api: Server, tasks: list[str]) -> None:
    """Counts only where the path has none, and may be any part of an id, as in a path."""
    assert api.ask("/api/v1/tasks/?id=task-3").document["task_id"] == "task-3"
    assert api.ask("/api/v1/tasks/?id=nobody").status == 404
    assert api.ask("/api/v1/tasks/").status == 404
    beside = api.ask("/api/v1/tasks/task-3?id=task-2")
    assert (beside.status, beside.document["error"]["parameter"]) == (400, "id")
