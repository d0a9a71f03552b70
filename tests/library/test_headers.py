"""What is kept of the headers of answers, and what is not."""

from typing import Any

import httpx2
import pytest

from agentprof import _guard, _headers, attributes
from agentprof._headers import say_headers
from agentprof.dialects import Answer

LIMIT = attributes.RATE_LIMIT


def said(refused: bool = False, **headers: str) -> dict[str, Any]:
    """The same from pairs and from the headers of httpx2."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    found: list[dict[str, Any]] = []
    failures = _guard.counts()
    for given in (
        [(name.encode(), value.encode()) for name, value in named.items()],
        httpx2.Headers(named),
    ):
        found.append({})
        say_headers(found[-1], given, Answer(), refused, None)
    assert _guard.counts() == failures
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"X_RateLimit_Limit_Requests": "100", "x_ratelimit_remaining_requests": "9"},
            {LIMIT + "requests.limit": 100, LIMIT + "requests.remaining": 9},
        ),
        ({"x_ratelimit_limit_requests": "100", "x_ratelimit_remaining_requests": "10"}, {}),
        ({"x_ratelimit_limit_requests": "10", "x_ratelimit_remaining_requests": "9"}, {}),
        ({"x_ratelimit_limit_requests": "10000", "x_ratelimit_remaining_requests": "9999"}, {}),
        (
            {"x_ratelimit_limit_requests": "10000", "x_ratelimit_remaining_requests": "7"},
            {LIMIT + "requests.limit": 10000, LIMIT + "requests.remaining": 7},
        ),
        (
            {"x_ratelimit_limit_tokens_minute": "900", "x_ratelimit_remaining_tokens_minute": "0"},
            {LIMIT + "tokens.limit": 900, LIMIT + "tokens.remaining": 0},
        ),
        ({"anthropic_ratelimit_output_tokens_limit": "8000"}, {LIMIT + "output_tokens.limit": 8000}),
        ({"x_request_id": "req_1", "request_id": "req_2"}, {attributes.REQUEST_ID: "req_1"}),
        ({"request_id": "req_2"}, {attributes.REQUEST_ID: "req_2"}),
        ({"x_request_id": "a b"}, {}),
        ({"x_request_id": "a" * 200}, {}),
        ({"anthropic_ratelimit_tokens_limit": "-1", "anthropic_ratelimit_requests_limit": "many"}, {}),
        ({"anthropic_ratelimit_tokens_limit": "9" * 40}, {}),
        ({"x_ratelimit_limit_tokens": "1000", "x_ratelimit_remaining_tokens": "no"}, {}),
        ({"x_ratelimit_reset_tokens": "1m2s", "set_cookie": "secret", "authorization": "secret"}, {}),
        ({"retry_after": "3"}, {}),
        ({"openai_processing_ms": "412"}, {attributes.HEADER + "openai-processing-ms": "412"}),
        (
            {"X_Total_Time": "1480", "x_compute_time": "1.480", "x_compute_type": "gpu"},
            {attributes.HEADER + "x-total-time": "1480", attributes.HEADER + "x-compute-time": "1.480"},
        ),
        ({"server_timing": "x" * 300}, {}),
    ],
)
def test_answers(headers: dict[str, str], expected: dict[str, Any]) -> None:
    """Numbers of a known name, an id and times, whatever the case of the name; limits where they come near."""
    assert said(**headers) == expected


def test_a_refusal_says_the_limits_too() -> None:
    """Whatever is left."""
    limits = {"x_ratelimit_limit_requests": "100", "x_ratelimit_remaining_requests": "50"}
    assert said(refused=True, **limits) == {LIMIT + "requests.limit": 100, LIMIT + "requests.remaining": 50}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": "3", "retry_after_ms": "250"}, 0.25),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "-1"}, None),
        ({}, None),
    ],
)
def test_refusals(headers: dict[str, str], expected: float | None) -> None:
    """How long to wait, in seconds; a date is not read."""
    assert said(refused=True, **headers).get(attributes.RETRY_AFTER) == expected


def test_the_same_names_again() -> None:
    """What is remembered is where headers stand, not what they say; of two of one name the last holds."""
    for identity in ("req_1", "req_2"):
        assert said(x_request_id=identity, server="a") == {attributes.REQUEST_ID: identity}
    assert said(server="a", x_request_id="req_3") == {attributes.REQUEST_ID: "req_3"}
    twice = httpx2.Headers([("x-request-id", "req_4"), ("x-request-id", "req_5")])
    found: dict[str, Any] = {}
    say_headers(found, twice, Answer(), False, None)
    assert found == {attributes.REQUEST_ID: "req_5"}


def test_names_that_change_all_the_time() -> None:
    """They are read all the same, and few of them are kept."""
    for number in range(50):
        assert said(**{f"x_{number}": "1", "x_request_id": f"r{number}"}) == {
            attributes.REQUEST_ID: f"r{number}"
        }
    assert all(len(alike) <= _headers._MOST_LAYOUTS for alike in _headers._layouts.values())
    long = {f"x_{'n' * 300}{number}": "1" for number in range(10)}
    assert said(**long, request_id="req_1") == {attributes.REQUEST_ID: "req_1"}
    kept = {name for alike in _headers._layouts.values() for layout in alike for name in layout.names}
    assert not any(name.startswith(b"x-nnn") for name in kept)
