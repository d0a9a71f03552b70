"""Usage objects as providers send them, and the one form they become."""

import decimal
import json
from decimal import Decimal
from typing import Any

import pytest

from agentprof.dialects import Answer, dialect_of
from agentprof.model import Usage


def read(usage: dict[str, Any], path: str = "/chat/completions") -> Answer:
    dialect = dialect_of(path)
    assert dialect is not None
    answer = Answer()
    dialect.read_body(json.dumps({"usage": usage}).encode(), answer)
    return answer


CHAT = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(CHAT, Usage(input=100, output=20), id="plain"),
        pytest.param(
            CHAT | {"prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8}},
            Usage(input=100, output=20, cache_read=64, cache_write=8),
            id="parts of the input are not added to it",
        ),
        pytest.param(
            CHAT | {"completion_tokens_details": {"reasoning_tokens": 15}},
            Usage(input=100, output=20, reasoning=15),
            id="reasoning is a part of the output",
        ),
        pytest.param(
            CHAT | {"completion_tokens_details": {"reasoning_tokens": 15}, "total_tokens": 135},
            Usage(input=100, output=35, reasoning=15),
            id="reasoning beside the output, as the total says",
        ),
        pytest.param(
            CHAT | {"prompt_tokens_details": {"cached_tokens": 190}},
            Usage(input=290, output=20, cache_read=190),
            id="a cache beside the input, as it is larger",
        ),
        pytest.param(
            CHAT | {"prompt_cache_hit_tokens": 30, "prompt_cache_miss_tokens": 70},
            Usage(input=100, output=20, cache_read=30),
            id="deepseek",
        ),
        pytest.param(CHAT | {"cached_tokens": 5}, Usage(input=100, output=20, cache_read=5), id="together"),
        pytest.param(
            CHAT | {"num_cached_tokens": 6}, Usage(input=100, output=20, cache_read=6), id="mistral"
        ),
        pytest.param({"prompt_tokens": 8, "total_tokens": 8}, Usage(input=8), id="embeddings have no output"),
        pytest.param(
            {"prompt_tokens": 8, "total_tokens": 9},
            Usage(input=8, total_differs=True),
            id="embeddings whose total is another",
        ),
        pytest.param(
            {
                "input_tokens": 26,
                "output_tokens": 4,
                "total_tokens": 30,
                "input_token_details": {"text_tokens": 5, "audio_tokens": 21},
            },
            Usage(input=26, output=4, media={"input_audio": 21}),
            id="transcriptions write details with one s less",
        ),
        pytest.param(
            {"prompt_tokens": 0, "completion_tokens": 0}, Usage(input=0, output=0), id="zero is known"
        ),
        pytest.param({"prompt_tokens": None, "completion_tokens": None}, None, id="null is unknown"),
        pytest.param({"total_tokens": 7}, None, id="a total alone says neither"),
    ],
)
def test_tokens(usage: dict[str, Any], expected: Usage | None) -> None:
    """Input includes the cache, output includes reasoning, what is not said is unknown."""
    assert read(usage).usage == expected


@pytest.mark.parametrize(
    ("fields", "cost_usd"),
    [
        pytest.param({"cost": 0.00000000123}, "1.23E-9", id="to the last digit"),
        pytest.param({"cost": 0}, "0", id="free is known"),
        pytest.param({"cost": {"input_tokens_cost": 0.1, "total_cost": 0.105}}, "0.105", id="perplexity"),
        pytest.param(
            {"cost": 0.0002, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.004}},
            "0.0042",
            id="fee and upstream of one's own key",
        ),
        pytest.param(
            {"cost": 0.0002, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.0002}},
            "0.0002",
            id="upstream is in the charge",
        ),
        pytest.param({"cost_in_usd_ticks": 6306000}, "0.0006306000", id="xai"),
        pytest.param({"cost_in_usd_ticks": 0}, None, id="no ticks is not free"),
        pytest.param({"cost_in_usd_ticks": -5}, None, id="negative ticks"),
        pytest.param({"cost": None}, None, id="null"),
        pytest.param({"cost": "much"}, None, id="no number"),
        pytest.param({"cost": -1}, None, id="negative"),
        pytest.param({"cost": 0.25, "prompt_tokens_details": 3}, "0.25", id="beside a wrong field"),
    ],
)
def test_reported_cost(fields: dict[str, Any], cost_usd: str | None) -> None:
    """What the provider or gateway charged is exact, and absent where it is not told.

    A program may have set its decimal context to a few digits, and to raise for any digit lost.
    """
    with decimal.localcontext(decimal.Context(prec=2, traps=[decimal.Inexact])):
        found = read(CHAT | fields).cost_usd
    assert found == (None if cost_usd is None else Decimal(cost_usd))
    assert found is None or str(found.normalize()) == str(Decimal(cost_usd or 0).normalize())


def test_server_tools_are_not_counted_twice() -> None:
    """Items of the output and the count in the usage are the same uses: the larger number holds."""
    dialect = dialect_of("/responses")
    assert dialect is not None
    answer = Answer()
    body = {
        "output": [
            {"type": "web_search_call"},
            {"type": "web_search_call"},
            {"type": "code_interpreter_call"},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 3}},
    }
    dialect.read_body(json.dumps(body).encode(), answer)
    assert answer.server_tools == {"web_search": 3, "code_interpreter": 1}


def test_groq_streams() -> None:
    """Groq's own place for the usage of a stream is read where the usual one is empty."""
    dialect = dialect_of("/chat/completions")
    assert dialect is not None
    answer = Answer()
    dialect.event_reader(answer)(json.dumps({"choices": [], "x_groq": {"usage": CHAT}}).encode())
    assert answer.usage == Usage(input=100, output=20)
