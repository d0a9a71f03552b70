"""What repeats and also asks others: which requests of one use are attempts of one call, and which are calls."""

from itertools import pairwise

import httpx2
import pytest
from support.model_server import CHAT, STREAM, ModelServer, Reply

from agentprof import _repeated
from agentprof import attributes as a
from agentprof._repeated import ScopeOfTarget
from agentprof.testing import Captured

SLOW = Reply.json({"error": {"message": "slow"}}, 429)
GOOD = Reply.json(CHAT)


def ask(server: ModelServer, *models: str) -> None:
    """One use, in which models are asked one after the other."""
    scope = _repeated.open_scope(ScopeOfTarget)
    assert scope is not None
    error: Exception | None = None
    with httpx2.Client() as client:
        for model in models:
            body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
            answer = client.post(f"{server.url}/chat/completions", json=body)
            error = ValueError("refused") if answer.status_code == 429 else None
    scope.end(error)


@pytest.mark.parametrize(
    ("replies", "models", "expected"),
    [
        ([GOOD], ["m"], [("m", 1, (), None)]),
        ([SLOW, SLOW, GOOD], ["m", "m", "m"], [("m", 3, ("429", "429"), None)]),
        ([SLOW, GOOD], ["m", "n"], [("m", 1, ("429",), "429"), ("n", 1, (), None)]),
        ([SLOW, SLOW, GOOD], ["m", "m", "n"], [("m", 2, ("429", "429"), "429"), ("n", 1, (), None)]),
        ([GOOD, GOOD], ["m", "m"], [("m", 1, (), None), ("m", 1, (), None)]),
        ([GOOD, SLOW, GOOD], ["m", "m", "m"], [("m", 1, (), None), ("m", 2, ("429",), None)]),
        ([SLOW, SLOW], ["m", "m"], [("m", 2, ("429", "429"), "ValueError")]),
    ],
    ids=["once", "repeated", "fallback", "repeated, then fallback", "asked again", "mixed", "never"],
)
def test_which_requests_are_attempts(
    server: ModelServer,
    captured: Captured,
    replies: list[Reply],
    models: list[str],
    expected: list[tuple[str, int, tuple[str, ...], str | None]],
) -> None:
    """Those to the same place after one that failed; nothing lasts longer than its own exchanges."""
    server.replies = replies
    ask(server, *models)
    said = [span.attributes or {} for span in captured.spans]
    found = [
        (one[a.REQUEST_MODEL], one[a.ATTEMPTS], one.get(a.ATTEMPT_STATUS, ()), one.get(a.ERROR_TYPE))
        for one in said
    ]
    assert found == expected
    for one in said:
        pauses = one.get(a.ATTEMPT_BACKOFF, ())
        assert isinstance(pauses, tuple)
        if one.get(a.ERROR_TYPE):
            assert pauses[-1] == 0
    ends = [(span.start_time or 0, span.end_time or 0) for span in captured.spans]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))


def test_a_stream_ends_when_it_was_read(server: ModelServer, captured: Captured) -> None:
    """Not when the use that made it is over."""
    server.replies = [Reply.stream(STREAM)]
    scope = _repeated.open_scope(ScopeOfTarget)
    assert scope is not None
    body = {"model": "m", "messages": [], "stream": True}
    with httpx2.Client() as client:
        request = client.build_request("POST", f"{server.url}/chat/completions", json=body)
        answer = client.send(request, stream=True)
        scope.end(None)
        assert captured.spans == []
        answer.read()
    (span,) = captured.spans
    assert (span.attributes or {})[a.STREAM_END] == "complete"
    assert (span.attributes or {})[a.OUTPUT_TOKENS] == 6


def test_a_second_stream_leaves_the_first_alone(server: ModelServer, captured: Captured) -> None:
    """A stream that still is to be read is no failed attempt of what is asked after it."""
    server.replies = [Reply.stream(STREAM), GOOD]
    scope = _repeated.open_scope(ScopeOfTarget)
    assert scope is not None
    with httpx2.Client() as client:
        url = f"{server.url}/chat/completions"
        streamed = client.build_request("POST", url, json={"model": "m", "messages": [], "stream": True})
        answer = client.send(streamed, stream=True)
        client.post(url, json={"model": "m", "messages": []})
        answer.read()
    scope.end(None)
    assert len(captured.spans) == 2
    assert all((span.attributes or {})[a.ATTEMPTS] == 1 for span in captured.spans)
    assert all(a.ERROR_TYPE not in (span.attributes or {}) for span in captured.spans)
