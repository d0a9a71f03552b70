"""LiteLLM: the program and the server see the same with and without agentprof, by whatever it sends through."""

import gc
import inspect
import pickle
import re
import subprocess
import sys
from typing import Any

import pytest
from support import litellm_calls
from support.model_server import ModelServer, Reply
from support.real_programs import eventually

from agentprof import _guard
from agentprof import attributes as a
from agentprof.testing import capture

pytest.importorskip("litellm", reason="LiteLLM is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

OUTCOMES = ("good", "repeated", "refused", "cut", "left")
CASES = [
    (provider, outcome, is_async, stream)
    for provider in litellm_calls.MODELS
    for outcome in OUTCOMES
    for is_async in (False, True)
    for stream in (False, True)
    if (stream or outcome not in ("cut", "left")) and (not stream or provider in litellm_calls.STREAMED)
    if outcome != "repeated" or provider in ("anthropic", "openai")  # the library waits for seconds
]


def replies(provider: str, outcome: str, stream: bool) -> list[Reply]:
    """What the server answers, one after the other."""
    good = litellm_calls.good(provider, stream, "cut" if outcome == "cut" else "chunked")
    slow = Reply.json({"error": {"message": "slow", "type": "rate_limit_error"}}, 429)
    if outcome == "refused":
        return [Reply.json({"error": {"message": "no", "type": "invalid_request_error"}}, 400)]
    return [slow, slow, good] if outcome == "repeated" else [good]


def trial(server: ModelServer, provider: str, outcome: str, is_async: bool, stream: bool) -> list[Any]:
    """What the program sees of one call: what it gets, in order, and what is raised."""
    litellm = litellm_calls.library()
    server.replies, server.sent = replies(provider, outcome, stream), []
    asked = litellm_calls.arguments(provider, server.url) | {"num_retries": 3 if outcome == "repeated" else 0}
    if stream:
        asked["stream"] = True
    before = repr(asked)
    seen: list[Any] = []
    try:
        if is_async:
            litellm_calls.run(_take_async(litellm, asked, outcome, seen))
        else:
            _take(litellm.completion(**asked), stream, outcome, seen)
    except Exception as error:  # noqa: BLE001
        seen.append((type(error), _steady(str(error)), type(error.__cause__), type(error.__context__)))
    assert repr(asked) == before
    return seen


def _take(result: Any, stream: bool, outcome: str, seen: list[Any]) -> None:
    seen.append(type(result))
    if not stream:
        seen.append(_steady(repr(result)))
        return
    for number, chunk in enumerate(result):
        seen.append(_steady(repr(chunk)))
        if number and outcome == "left":
            return


async def _take_async(litellm: Any, asked: dict[str, Any], outcome: str, seen: list[Any]) -> None:
    result = await litellm.acompletion(**asked)
    seen.append(type(result))
    if not asked.get("stream"):
        seen.append(_steady(repr(result)))
        return
    number = 0
    async for chunk in result:
        seen.append(_steady(repr(chunk)))
        number += 1
        if number == 2 and outcome == "left":
            return


def _steady(text: str) -> str:
    """Without ids that are random, clocks and addresses."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+", "-", text)
    return re.sub(r"created=\d+|'date': '[^']+'|_response_ms[^,]*|-ms': '?[\d.]+'?|_ms': [\d.]+", "-", text)


def sent_by(server: ModelServer) -> list[Any]:
    """What arrived, without what is another one each time, and without `traceparent`."""
    varying = ("traceparent", "x-amz-date", "authorization", "x-stainless-retry-count", "idempotency-key")
    return [
        (sent.path, sent.body, [(name, value) for name, value in sent.head if name.lower() not in varying])
        for sent in server.sent
        if not sent.path.endswith("/api/show")  # a thread of the library asks for prices when it gets to it
    ]


@pytest.mark.parametrize(("provider", "outcome", "is_async", "stream"), CASES)
def test_twins_see_the_same(provider: str, outcome: str, is_async: bool, stream: bool) -> None:
    """Types, values, chunks, errors, bytes and headers; one call with its attempts."""
    failures = _guard.counts()
    with ModelServer() as server:
        trial(server, provider, outcome, is_async, stream)  # what the library keeps from then on is there
        bare = trial(server, provider, outcome, is_async, stream)
        sent_bare = sent_by(server)
        with capture() as captured:
            traced = trial(server, provider, outcome, is_async, stream)
            # Threads of the library may hold a stream.
            eventually(lambda: captured.spans if gc.collect() >= 0 and captured.spans else None)
        sent = sent_by(server)
    assert traced == bare
    assert sent == sent_bare
    (span,) = captured.spans
    said = span.attributes or {}
    assert said[a.ATTEMPTS] == len(sent) == (3 if outcome == "repeated" else 1)
    refused = {"repeated": ("429", "429"), "refused": ("400",)}.get(outcome)
    assert said.get(a.ATTEMPT_STATUS) == refused
    assert (a.ERROR_TYPE in said) == (outcome in ("refused", "cut"))
    if outcome in ("good", "repeated"):
        assert (said[a.INPUT_TOKENS], said[a.OUTPUT_TOKENS]) == (100, 6)
        assert said.get(a.STREAM_END) == ("complete" if stream else None)
    assert _guard.counts() == failures


def test_the_functions_stay_what_they_are() -> None:
    """Kind, signature, name and pickles, with the functions replaced; then all is put back."""
    litellm = litellm_calls.library()
    before = {name: getattr(litellm, name) for name in ("completion", "acompletion")}
    signatures = {name: inspect.signature(function) for name, function in before.items()}
    with capture():
        for name, function in before.items():
            replaced = getattr(litellm, name)
            assert replaced is not function
            assert inspect.signature(replaced) == signatures[name]
            assert inspect.iscoroutinefunction(replaced) == (name == "acompletion")
            assert replaced.__name__ == name
            assert pickle.loads(pickle.dumps(replaced)) is replaced
    assert {name: getattr(litellm, name) for name in before} == before


def test_an_import_after_instrument_is_seen() -> None:
    """Also `from litellm import completion`, and importing alone makes no span."""
    program = (
        "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'\n"
        "import agentprof\n"
        "from agentprof.testing import capture\n"
        "with capture() as captured:\n"
        "    from litellm import completion\n"
        "    assert not captured.spans\n"
        "    assert completion.__code__.co_filename.endswith('agentprof/seams/litellm.py')\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)
