"""LiteLLM beyond one chat: other functions, its router, fallbacks, its proxy's cost."""

from collections.abc import Callable
from typing import Any

import pytest
from support import litellm_calls
from support.model_server import CHAT, ModelServer, Reply
from support.twin_outcomes import EVENTS, WHOLE

import agentprof
from agentprof import attributes as a
from agentprof.testing import Captured

pytest.importorskip("litellm", reason="LiteLLM is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

SLOW = Reply.json({"error": {"message": "slow", "type": "rate_limit_error"}}, 429)
EMBEDDED = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.1]}],
    "model": "m",
    "usage": {"prompt_tokens": 11, "total_tokens": 11},
}


def other_calls(litellm: Any, url: str) -> dict[str, tuple[Callable[[], Any], Reply]]:
    """Other functions, with what is answered."""
    of_openai = {"api_base": url, "api_key": "k"}
    asked = {"model": "openai/gpt-4o-mini", "input": "hi", **of_openai}
    return {
        "embedding": (
            lambda: litellm.embedding(model="openai/text-embedding-3-small", input=["hi"], **of_openai),
            Reply.json(EMBEDDED),
        ),
        "responses": (lambda: litellm.responses(**asked), Reply.json(WHOLE["responses"])),
        "responses, stream": (
            lambda: list(litellm.responses(**asked, stream=True)),
            Reply.stream(EVENTS["responses"]),
        ),
        "aresponses": (
            lambda: litellm_calls.run(litellm.aresponses(**asked)),
            Reply.json(WHOLE["responses"]),
        ),
    }


@pytest.mark.parametrize("name", other_calls(None, ""))
def test_other_functions_count_once(server: ModelServer, captured: Captured, name: str) -> None:
    """By SDKs and by its own HTTP paths."""
    call, reply = other_calls(litellm_calls.library(), server.url)[name]
    server.replies = [reply]
    call()
    (span,) = captured.spans
    assert (span.attributes or {})[a.INPUT_TOKENS] == 11
    assert (span.attributes or {})[a.ATTEMPTS] == len(server.sent) == 1


def test_the_proxy_says_what_a_call_cost(server: ModelServer, captured: Captured) -> None:
    """In a header of its answer; the cost is then reported."""
    server.replies = [Reply.json(CHAT, x_litellm_response_cost="0.00042")]
    litellm_calls.library().completion(**litellm_calls.arguments("openai", server.url))
    (span,) = captured.spans
    assert (span.attributes or {})[a.COST] == "0.00042"
    assert (span.attributes or {})[a.COST_SOURCE] == "reported"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_router_makes_a_call_of_each_retry_and_fallback(
    server: ModelServer, captured: Captured, is_async: bool
) -> None:
    """Each is one use of LiteLLM's functions; the task counts all, and what was paid once."""
    litellm = litellm_calls.library()

    def parameters(provider: str) -> dict[str, Any]:
        asked = litellm_calls.arguments(provider, server.url)
        return {name: value for name, value in asked.items() if name != "messages"} | {"max_retries": 0}

    router = litellm.Router(
        model_list=[
            {"model_name": "first", "litellm_params": parameters("anthropic")},
            {"model_name": "second", "litellm_params": parameters("openai")},
        ],
        fallbacks=[{"first": ["second"]}],
        num_retries=1,
        retry_after=0,
    )
    server.replies = [SLOW, SLOW, Reply.json(CHAT)]
    with agentprof.task("t") as task:
        if is_async:
            answer = litellm_calls.run(router.acompletion(model="first", messages=litellm_calls.MESSAGES))
        else:
            answer = router.completion(model="first", messages=litellm_calls.MESSAGES)
    assert answer.choices[0].message.content == "Hello."
    calls = [dict(span.attributes or {}) for span in captured.spans if a.OPERATION in (span.attributes or {})]
    assert [said[a.REQUEST_MODEL] for said in calls] == [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5",
        "gpt-4o-mini",
    ]
    assert [said.get(a.ATTEMPT_STATUS) for said in calls] == [("429",), ("429",), None]
    summary = task.summary().to_dict()
    assert (summary["calls"], summary["errors"]["call"], summary["retries"]["call"]) == (3, 2, 1)
    assert (summary["tokens"]["input"], summary["tokens"]["output"]) == (100, 6)
