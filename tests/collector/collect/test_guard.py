"""Who may speak to a collector: programs of this machine, or whoever knows the token; no page of another origin."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from support.collecting import PROTOBUF, SPAN, TRACES, Collected, collecting, refusal

from agentprof_collector.collect.guard import is_loopback

TOKEN = "a token of sixteen characters"
OTHER_TOKEN = "a tökèn of sixteen characters"
"""Header values are bytes; a secret may be any text."""
OTHERS = ("http://evil.example", "null", "", "http://127.0.0.1:1", "https://[", "http://", "127.0.0.1")
"""Origins that are not the collector's."""


@pytest.fixture(scope="module")
def open_to_all() -> Iterator[Collected]:
    """On loopback, without a token."""
    with collecting() as collected:
        yield collected


@pytest.fixture(scope="module", params=[TOKEN, OTHER_TOKEN])
def closed(request: pytest.FixtureRequest) -> Iterator[tuple[Collected, str]]:
    """With a token."""
    with collecting(token=request.param) as collected:
        yield collected, request.param


def basic(password: str, name: str = "anyone") -> str:
    """As a browser sends what was typed in."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]:8321", "[::1]"]
)
def test_names_of_this_machine_are_answered(open_to_all: Collected, host: str) -> None:
    """With any port, as it may be mapped."""
    assert open_to_all.pages.ask("/healthz", host=host).status == 200
    assert open_to_all.pages.ask("/api/v1/tasks", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8321",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil.example#localhost",
        "",
        ":8321",
        "[::1",
        "[evil]",
        "127.0.0.2",
        "0.0.0.0",
        "localhost,evil.example",
    ],
)
def test_a_name_that_was_made_to_point_here_is_not(open_to_all: Collected, host: str) -> None:
    """A page under such a name would read everything: its browser takes it for the same origin."""
    for path in ("/healthz", "/metrics", "/api/v1/tasks", "/", "/nothing"):
        assert open_to_all.pages.ask(path, host=host).status == 403
    answered = open_to_all.send(SPAN, host=host)
    assert (answered.status, refusal(answered)[0]) == (403, 7)
    assert open_to_all.received == []


def test_a_page_of_another_origin_may_not_write(open_to_all: Collected) -> None:
    """Its browser names it; it may not send spans from any origin, nor set outcomes."""
    own = f"http://127.0.0.1:{open_to_all.pages.port}"
    for origin in (*OTHERS, own):
        for server in (open_to_all.otlp, open_to_all.pages):
            refused = server.ask(TRACES, "POST", SPAN, content_type=PROTOBUF, origin=origin)
            assert refused.status == 403
    path, outcome = "/api/v1/tasks/t/outcome", {"outcome": "success"}
    for origin in OTHERS:
        assert open_to_all.pages.post_json(path, outcome, origin=origin).status == 403
    host = own.removeprefix("http://")
    assert open_to_all.pages.post_json(path, outcome, origin=own, host=host).status != 403
    assert open_to_all.pages.post_json(path, outcome).status != 403
    assert open_to_all.received == []


def test_a_page_of_another_origin_may_not_read_by_asking_first(open_to_all: Collected) -> None:
    """No answer allows another origin anything."""
    for method in ("OPTIONS", "GET"):
        answered = open_to_all.pages.ask("/api/v1/tasks", method, origin="http://evil.example")
        assert not [name for name in answered.headers if name.startswith("access-control-")]


def test_who_shows_the_token_is_answered(closed: tuple[Collected, str]) -> None:
    """As a bearer, or as the password a browser asks for; under any name of the machine."""
    collected, token = closed
    bearer = f"Bearer {token}".encode().decode("latin-1")
    for shown in (bearer, f"bearer  {bearer[7:]} ", basic(token), basic(token, "")):
        assert collected.pages.ask("/api/v1/tasks", authorization=shown, host="any.name").status == 200
        assert collected.send(SPAN, authorization=shown, host="any.name").status == 200


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/metrics", "/", "/nothing", TRACES])
def test_others_are_told_how(closed: tuple[Collected, str], path: str) -> None:
    """Whatever they ask for, so that nothing is learned by asking."""
    collected, token = closed
    wrong = [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {token[:-1]}x".encode().decode("latin-1"),
        "Basic",
        "Basic ÿ",
        "Basic " + base64.b64encode(token.encode()).decode(),
        basic(token + "x"),
        basic(""),
        "Digest x",
        "Bearer " + "x" * 10_000,
    ]
    for shown in wrong:
        answered = collected.pages.ask(path, authorization=shown)
        assert answered.status == 401
        assert answered.headers["www-authenticate"].startswith("Basic realm=")
    assert collected.pages.ask(path).status == 401
    assert collected.send(SPAN).status == 401
    assert "token" in refusal(collected.send(SPAN))[1]


def test_health_needs_no_token(closed: tuple[Collected, str]) -> None:
    """Who looks after the process need not know it."""
    collected, _ = closed
    assert collected.pages.ask("/healthz").document == {"status": "ok", "troubles": []}
    assert collected.otlp.ask("/healthz").status == 200


def test_a_page_with_the_token_is_still_of_another_origin(closed: tuple[Collected, str]) -> None:
    """A browser adds the password by itself."""
    collected, token = closed
    refused = collected.pages.post_json(
        "/api/v1/tasks/t/outcome",
        {"outcome": "success"},
        origin="http://evil.example",
        authorization=basic(token),
    )
    assert refused.status == 403


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.0.7", False),
        ("127.evil.example", False),
        ("127.0.0.1.evil.example", False),
    ],
)
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    """Names that merely look like it are others."""
    assert is_loopback(host) is expected
