from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from support.markup import Markup
from support.raw import SECOND, T0, call_span, task_span, tool_span
from support.serving import Answered, OfStore, Server

from agentprof_collector.page import links as addresses

Read = Callable[[str], Markup]


def links(found: Markup, prefix: str) -> list[str]:
    """Addresses of links that begin so, in order."""
    hrefs = [element.attributes.get("href", "") for element in found.of("a")]
    return [href for href in hrefs if href.startswith(prefix)]


def names(found: Markup) -> list[str]:
    """The tasks of a list, in order."""
    return [href.removeprefix("/tasks/") for href in links(found, "/tasks/")]


def test_tasks_with_their_figures(read: Read, tasks: list[str]) -> None:
    """Latest first: name, outcome, wall, bar, cost with what is missing from it, retries; and all together."""
    found = read("/")
    assert names(found) == tasks
    assert (
        "tasks 5 2 success , 2 failure , 1 unknown wall, median 10.0 s p95 10.0 s, p99 \u2013 (n=5)"
        in found.text
    )
    assert "cost ≥ $0.0175 without 5 calls of models with no known price" in found.text
    assert "≥ $0.00350 without 1 call of a model with no known price" in found.text
    assert "✗ failure" in found.text
    assert "1 tool error" in found.text
    bars = found.of("svg", **{"class": "bar"})
    assert len(bars) == 6
    assert bars[1].attributes["aria-label"] == "the program 70%, the model 20%, tools 10%"
    assert links(found, "/api/v1/") == ["/api/v1/tasks", "/api/v1/openapi.json"]


def test_a_bar_is_as_long_as_its_parts(read: Read, tasks: list[str]) -> None:
    """Pieces follow each other, fill the bar, and are as wide as their share."""
    rects = [element.attributes for element in read("/").of("rect") if "width" in element.attributes]
    pieces = [(rect["class"], int(rect["x"]), int(rect["width"])) for rect in rects[3:6]]
    assert pieces == [("p-model", 0, 2000), ("p-tool", 2000, 1000), ("p-other", 3000, 7000)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"name": "search"}, ["task-4", "task-3"]),
        ({"outcome": "failure"}, ["task-3", "task-1"]),
        ({"label": "customer=globex"}, ["task-3", "task-1"]),
        ({"q": "SEAR"}, ["task-4", "task-3"]),
        ({"q": "task-2"}, ["task-2"]),
        ({"service": "worker", "outcome": "unknown"}, ["task-0"]),
        ({"since": str(T0 + 61 * SECOND), "until": str(T0 + 181 * SECOND)}, ["task-3", "task-2"]),
        ({"since": "1h"}, []),
        ({"limit": "1"}, ["task-4"]),
    ],
)
def test_filters(read: Read, tasks: list[str], query: dict[str, str], expected: list[str]) -> None:
    """Only what fits, with the form as it was filled in; a form sends its empty fields too."""
    empty = dict.fromkeys(("q", "name", "outcome", "label", "service", "since", "until", "group_by"), "")
    found = read("/?" + urlencode(empty | query))
    assert names(found) == expected
    for name, value in query.items():
        field = [one for one in found.elements if one.attributes.get("name") == name]
        options = [one.attributes.get("value") for one in found.of("option") if "selected" in one.attributes]
        assert (
            name == "limit"
            or field[0].attributes.get("value") == value
            or value in options
            or field[0].tag == "select"
        )
    (address,) = links(found, "/api/v1/tasks")
    assert dict(parse_qsl(urlsplit(address).query)) == query
    assert expected or "No task fits" in found.text


def test_what_a_page_shows_is_in_its_json(site: Server, read: Read, tasks: list[str]) -> None:
    """Under the address the page names, with the same filter."""
    found = read("/?outcome=failure&live=0")
    (address,) = links(found, "/api/v1/tasks")
    assert [task["task_id"] for task in site.ask(address).document["tasks"]] == names(found)


@pytest.mark.parametrize(
    "query", ["outcome=ok", "since=never", "label=x", "nothing=1", "after=x", "limit=501"]
)
def test_a_filter_that_cannot_be_used(site: Server, tasks: list[str], query: str) -> None:
    """Is said, with the form to mend it."""
    answered = site.ask(f"/?{query}")
    found = Markup(answered.text)
    assert answered.status == 400
    assert query.split("=")[0] in found.text
    assert found.of("form", action="/")


def test_pages(read: Read, tasks: list[str]) -> None:
    """From one to the next through all, and back to the first; the filter stays."""
    seen: list[str] = []
    address = "/?limit=2&q=task"
    while True:
        found = read(address)
        seen += names(found)
        following = [one.attributes["href"] for one in found.of("a", rel="next")]
        if not following:
            break
        (address,) = following
        assert "q=task" in address
    assert seen == tasks
    assert "/?limit=2&q=task" in links(found, "/?")


def test_groups(read: Read, tasks: list[str]) -> None:
    """A row a group, which leads to its tasks."""
    found = read("/?group_by=label.customer&q=task")
    (acme, globex) = [href for href in links(found, "/?") if "label=" in href]
    assert "acme 3 2 success , 1 unknown 10.0 s 10.0 s \u2013" in found.text
    assert names(read(acme)) == ["task-4", "task-2", "task-0"]
    assert names(read(globex)) == ["task-3", "task-1"]
    by_outcome = read("/?group_by=outcome")
    assert names(read(next(href for href in links(by_outcome, "/?") if "outcome=unknown" in href))) == [
        "task-0"
    ]
    by_name = read("/?group_by=name")
    assert names(read(next(href for href in links(by_name, "/?name=sea")))) == ["task-4", "task-3"]


def test_very_many_groups_are_bounded(fresh: OfStore, fresh_read: Read) -> None:
    """With a word about those that are not shown."""
    fresh.feed([task_span(f"{n:032x}", f"t{n}", **{"agentprof.label.n": str(n)}) for n in range(600)])
    found = fresh_read("/?group_by=label.n")
    assert len([one for one in found.of("th") if one.attributes.get("scope") == "row"]) == 500
    assert "Shown are the groups that cost most; in others are 100 tasks" in found.text


def test_an_empty_store_says_how_to_send_the_first_span(fresh_read: Read) -> None:
    """Three ways, and the demo."""
    text = fresh_read("/").text
    assert "No task has arrived yet" in text
    for way in ("agentprof run -- python agent.py", "agentprof.instrument()", "OTEL_EXPORTER_OTLP_ENDPOINT="):
        assert way in text


def test_a_page_renews_itself_also_without_scripts(read: Read, tasks: list[str]) -> None:
    """Unless it is told not to."""
    assert [one.attributes["content"] for one in read("/").of("meta", **{"http-equiv": "refresh"})] == ["15"]
    paused = read("/?live=0")
    assert paused.of("meta", **{"http-equiv": "refresh"}) == []
    assert not [one for one in paused.elements if "data-live" in one.attributes]


def test_one_task(read: Read, tasks: list[str]) -> None:
    """Its figures, timeline, waterfall, profile, models, tools, cost, traces, and its JSON."""
    found = read("/tasks/task-3")
    text = found.text
    for said in (
        "search ✗ failure",
        "wall 10.0 s the program 70%",
        "cost ≥ $0.00350 without 1 call of a model with no known price",
        "tokens 2200 2,000 in, 200 out",
        "calls 2 1 tool run, 1 tool error",
        "model 2.00 s 20% in model calls, undivided observed",
        "neither 7.00 s 70%",
        "model gpt-4o-2024-08-06",
        "model own-model",
        "tool search ✗ error",
        "0 2.50 s 5.00 s 7.50 s 10.0 s",
        "input $0.00250",
        "Without 1 call of a model with no known price.",
    ):
        assert said in text, said
    assert links(found, "http") == [f"http://jaeger.example:16686/trace/{3:032x}"]
    assert "/api/v1/tasks/task-3" in links(found, "/api/")
    assert "/?label=customer%3Dglobex" in links(found, "/?")


def test_a_waterfall_stands_on_one_scale(read: Read, tasks: list[str]) -> None:
    """Each run where it began, as long as it took."""
    found = read("/tasks/task-3")
    at = [one.attributes.get("class", "") for one in found.elements].index("run holds")
    rects = [one.attributes for one in found.elements[at:] if one.tag == "rect"][:4]
    assert [(rect["class"], rect["x"], rect["width"]) for rect in rects] == [
        ("p-holds", "0", "10000"),
        ("p-model", "1000", "1000"),
        ("p-tool", "3000", "1000"),
        ("p-model", "5000", "1000"),
    ]


def test_phases_stand_inside_a_call(fresh: OfStore, fresh_read: Read) -> None:
    """In their order, those that only a call has in the colours of the timeline."""
    phases = {
        "agentprof__first_token": 2.0,
        "agentprof__attempts": 2,
        "agentprof__attempt__duration": [0.5],
        "agentprof__attempt__backoff": [0.5],
        "agentprof__attempt__status": ["429"],
        "agentprof__phase__connect": 0.25,
        "agentprof__phase_source__connect": "observed",
    }
    fresh.feed([task_span("1" * 32, "t"), call_span("1" * 32, "t", "a", at=0, seconds=4, **phases)])
    found = fresh_read("/tasks/t")
    at = [one.attributes.get("class", "") for one in found.elements].index("run")
    rects = [one.attributes for one in found.elements[at:] if one.tag == "rect"][:5]
    assert [(rect["class"], rect["x"], rect["width"]) for rect in rects] == [
        ("p-failed_attempt", "0", "500"),
        ("p-backoff", "500", "500"),
        ("p-network", "1000", "250"),
        ("p-wait", "1250", "750"),
        ("p-generation", "2000", "2000"),
    ]
    assert "2 attempts" in found.text


def test_doubts_are_said_in_words(fresh: OfStore, fresh_read: Read) -> None:
    """A task whose span has not arrived is incomplete, and live."""
    fresh.feed([call_span("1" * 32, "t", "a")])
    found = fresh_read("/tasks/t")
    assert "! no_root: " in found.text
    assert "incomplete" in found.text
    assert found.of("span", **{"data-live": "5"})
    assert not fresh_read("/tasks/t").of("span", **{"data-live": "0"})


def test_a_part_of_an_id_leads_to_the_task(site: Server, tasks: list[str]) -> None:
    """As on the command line; what fits several, or none, is said."""
    answered = site.ask("/tasks/-3")
    assert (answered.status, answered.headers["location"]) == (303, "/tasks/task-3")
    for path, status, said in (
        ("/tasks/none", 404, "there is no task 'none'"),
        ("/tasks/task-", 409, "is the beginning of several tasks"),
        ("/tasks/", 404, "lacks the id"),
        ("/tasks/a/b", 404, "a slash in the id of a task is written %2F"),
        ("/tasks/%ff", 400, "not UTF-8"),
        ("/tasks/" + "x" * 5000, 400, "longer than 4,096 characters"),
        ("/static/../pages.py", 404, "Not Found"),
        ("/static/..%2fpages.py", 404, "Not Found"),
        ("/static/%2e%2e%5cpages.py", 404, "there is no such file"),
        ("/static/page.py", 404, "there is no such file"),
    ):
        refused = site.ask(path)
        assert refused.status == status, path
        assert said in Markup(refused.text).text, path


def post(site: Server, path: str, fields: dict[str, str], **headers: str) -> Answered:
    """Send a form."""
    headers.setdefault("Content_Type", "application/x-www-form-urlencoded")
    return site.ask(path, "POST", urlencode(fields).encode(), **headers)


def proof(found: Markup) -> str:
    """What stands in the form of an outcome."""
    (field,) = found.of("input", type="hidden")
    return field.attributes["value"]


@pytest.mark.parametrize("task", ["task-0", "a/b?c#d", "x/outcome", "…", "Ünï\n"])
def test_an_outcome_is_recorded_with_the_form(
    fresh_site: Server, fresh: OfStore, fresh_read: Read, task: str
) -> None:
    """And the page of the task says it then; whatever its id."""
    fresh.feed([task_span("1" * 32, task)])
    found = fresh_read(addresses.task(task))
    (form,) = [one for one in found.of("form") if one.attributes["method"] == "post"]
    fields = {"proof": proof(found), "outcome": "failure", "score": "0.5"}
    answered = post(fresh_site, form.attributes["action"], fields)
    assert (answered.status, answered.headers["location"]) == (303, addresses.task(task))
    assert "✗ failure (score 0.5)" in fresh_read(answered.headers["location"]).text
    (fact,) = fresh.store.outcomes_of([task])
    assert (fact.outcome, fact.score) == ("failure", 0.5)


def test_a_form_of_another_site_records_nothing(
    fresh_site: Server, fresh: OfStore, fresh_read: Read, fresh_tasks: list[str]
) -> None:
    """Nor one of another task, with a wrong word, or in another type."""
    right = proof(fresh_read("/tasks/task-0"))
    for fields, status in (
        ({"outcome": "success"}, 403),
        ({"outcome": "success", "proof": ""}, 403),
        ({"outcome": "success", "proof": "é" * 64}, 403),
        ({"outcome": "success", "proof": proof(fresh_read("/tasks/task-1"))}, 403),
        ({"outcome": "won", "proof": right}, 400),
        ({"proof": right}, 400),
        ({"outcome": "success", "score": "much", "proof": right}, 400),
        ({"outcome": "success", "score": "nan", "proof": right}, 400),
        ({"outcome": "success", "score": "1" * 5000, "proof": right}, 413),
        ({f"f{number}": "" for number in range(20)}, 400),
    ):
        assert post(fresh_site, "/tasks/task-0/outcome", fields).status == status, fields
    sent = urlencode({"outcome": "success", "proof": right}).encode()
    for kind in ("text/plain", "multipart/form-data", "application/json"):
        assert fresh_site.ask("/tasks/task-0/outcome", "POST", sent, Content_Type=kind).status == 415
    assert fresh_site.ask("/tasks/task-0/outcome").status == 405
    assert fresh_site.ask("/tasks/task-0", "POST", sent).status == 405
    assert fresh.store.outcomes_of(fresh_tasks) == []


def test_headers_keep_pages_to_themselves(site: Server, tasks: list[str]) -> None:
    """Pages, errors, answers to forms and files: nothing from elsewhere runs in them, nobody frames them."""
    for path in (
        "/",
        "/tasks/task-0",
        "/tasks/none",
        "/?outcome=x",
        "/tasks/-0",
        "/static/page.css",
        "/static/x",
    ):
        headers = site.ask(path).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "style-src": "'self'",
            "script-src": "'self'",
            "img-src": "'self'",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == (
            "public, max-age=86400, immutable" if path == "/static/page.css" else "no-store"
        )
        assert not [name for name in headers if name.startswith("access-control-")]


def test_files_are_what_pages_ask_for(site: Server, read: Read, tasks: list[str]) -> None:
    """Each is there, in its type; nothing comes from elsewhere."""
    found = read("/")
    files = [href for href in found.addresses if href.startswith("/static/")]
    assert len(files) == 3
    types = {site.ask(file).headers["content-type"].partition(";")[0] for file in files}
    assert types == {"text/css", "text/javascript", "image/svg+xml"}
    assert all(address.startswith(("/", "#")) for address in found.addresses)
    style = site.ask(next(file for file in files if "css" in file)).text
    assert "url(" not in style
    assert "@import" not in style
    assert ".p-failed_attempt{" in style


def test_methods(site: Server, tasks: list[str]) -> None:
    """HEAD is GET without the body; what is not there is refused."""
    for path in ("/", "/tasks/task-0", "/static/page.js"):
        head = site.ask(path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert site.ask(path, "DELETE").status == 405
        assert site.ask(path, "OPTIONS").headers["allow"] == "GET, HEAD, OPTIONS"


def test_a_large_task_stays_readable(fresh: OfStore, fresh_read: Read) -> None:
    """Of 10,000 runs the longest are drawn, and the others counted."""
    spans = [task_span("1" * 32, "big")]
    for number in range(10_000):
        length = 0.0001 * (1 + number % 50)
        spans.append(
            tool_span("1" * 32, "big", f"s{number}", name=f"tool {number}", at=number / 1000, seconds=length)
        )
    fresh.feed(spans)
    found = fresh_read("/tasks/big")
    assert len([one for one in found.of("svg") if one.attributes.get("class", "").startswith("run")]) == 300
    assert "9,701 shorter runs are not drawn (those drawn last 4.90 ms or longer)" in found.text
    assert "9,901 rows with less time are in the JSON" in found.text
    assert "9,900 more are in the JSON" in found.text
    assert len(found.elements) < 10_000


def test_a_row_shows_some_labels_and_how_many_more(fresh: OfStore, fresh_read: Read) -> None:
    """The page of the task shows all of them."""
    labels = {f"agentprof.label.key{n:02}": f"value{n:02}" for n in range(20)}
    fresh.feed(
        [task_span("1" * 32, "many", **labels), task_span("2" * 32, "one", **{"agentprof.label.k": "v"})]
    )
    found = fresh_read("/")
    assert len(found.of("a", **{"class": "chip"})) == 8 + 1
    assert len(found.of("span", **{"class": "chip"})) == 1
    assert "key07=value07 +12" in found.text
    page = fresh_read("/tasks/many").text
    assert all(f"key{n:02}=value{n:02}" in page for n in range(20))


@pytest.mark.parametrize("task_id", [".", ".."])
def test_tasks_whose_id_is_a_step_of_a_path(task_id: str, fresh: OfStore, fresh_read: Read) -> None:
    """The list leads to the page of the task, and that to its figures and the form of its outcome."""
    fresh.feed([task_span("1" * 32, task_id), call_span("1" * 32, task_id, "a")])
    (address,) = links(fresh_read("/"), "/tasks/")
    assert address == f"/tasks/?id={task_id}"
    page = fresh_read(address)
    assert f"/api/v1/tasks/?id={task_id}" in links(page, "/api/v1/")
    assert [form.attributes["action"] for form in page.of("form")] == [f"/tasks//outcome?id={task_id}"]
