"""What is kept of the headers of answers, and what is not."""

from typing import Any

import pytest

from agentprof import _guard, attributes
from agentprof._headers import say_headers

LIMIT = attributes.RATE_LIMIT


def said(refused: bool = False, **headers: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    failures = _guard.counts()
    say_headers(found, pairs, refused=refused)
    assert _guard.counts() == failures
    return found


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            {"X_RateLimit_Limit_Requests": "10", "x_ratelimit_remaining_tokens": "0"},
            {LIMIT + "requests.limit": 10, LIMIT + "tokens.remaining": 0},
        ),
        (
            {"x_ratelimit_limit_requests_day": "900", "x_ratelimit_remaining_tokens_minute": "5"},
            {LIMIT + "requests.limit": 900, LIMIT + "tokens.remaining": 5},
        ),
        ({"anthropic_ratelimit_output_tokens_limit": "8000"}, {LIMIT + "output_tokens.limit": 8000}),
        ({"request_id": "req_1", "x_request_id": "req_2"}, {attributes.REQUEST_ID: "req_1"}),
        ({"x_request_id": "a b"}, {}),
        ({"x_request_id": "a" * 200}, {}),
        ({"x_ratelimit_limit_tokens": "-1", "x_ratelimit_limit_requests": "many"}, {}),
        ({"x_ratelimit_limit_tokens": "9" * 40}, {}),
        ({"x_ratelimit_reset_tokens": "1m2s", "set_cookie": "secret", "authorization": "secret"}, {}),
        ({"retry_after": "3"}, {}),
    ],
)
def test_answers(headers: dict[str, str], expected: dict[str, Any]) -> None:
    """Numbers of a known name and an id, whatever the case of the name; all else is left."""
    assert said(**headers) == expected


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
