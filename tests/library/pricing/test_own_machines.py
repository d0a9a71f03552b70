"""Models on machines of one's own are not priced from a table of hosted ones."""

from __future__ import annotations

import pytest
from support.spans import call, usage

from agentprof.pricing import Pricer

pytest.importorskip("genai_prices", reason="prices need the extra `prices`")

NOW_NS = 1_795_000_000 * 10**9
OPEN = [
    "deepseek-r1:8b",
    "deepseek-chat",
    "mistral-large-latest",
    "gpt-oss-20b",
    "openai/gpt-oss-120b",
    "qwen3:0.6b",
]
HOSTED = [
    "gpt-4o",
    "gpt-4o-mini-2024-07-18",
    "o3",
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
]


def priced(model: str, server: str | None, provider: str | None = None) -> bool:
    """Whether a call of a million tokens gets an amount."""
    span = call(
        "c", NOW_NS, NOW_NS + 9, model=model, server=server, provider=provider, usage=usage(10**6, 10**6)
    )
    found = Pricer().price(span).call
    assert found is not None
    assert found.cost is not None
    assert (found.cost.amount_usd is None) == ("unknown_model" in found.cost.unpriced)
    return found.cost.amount_usd is not None


@pytest.mark.parametrize(
    "server", ["127.0.0.1:8000", "localhost:11434", "10.1.2.3", "[::1]:80", "192.168.1.5:1234"]
)
@pytest.mark.parametrize("model", OPEN)
def test_a_model_anyone_may_run_has_no_list_price_on_a_private_address(server: str, model: str) -> None:
    """Nobody charges it there, as far as is known."""
    assert not priced(model, server)


@pytest.mark.parametrize("model", HOSTED)
def test_a_hosted_model_behind_a_gateway_has_its_price(model: str) -> None:
    """It cannot run anywhere else."""
    assert priced(model, "127.0.0.1:4000")


def test_a_known_provider_or_a_public_host_has_its_price() -> None:
    """The rule is for private addresses that say nothing else."""
    assert priced("deepseek-chat", "127.0.0.1:4000", "deepseek")
    assert priced("deepseek-chat", "api.deepseek.com:443")
    assert priced("deepseek-chat", None)
