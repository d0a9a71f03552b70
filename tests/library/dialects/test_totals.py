"""The counts of every recorded answer add up to the provider's own total, but where the provider's do not.

Run with `-s` for a table of how each provider adds up.
"""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import openai
import pytest
from support.recordings import Recordings, send

import agentprof
from agentprof._arrivals import Arrivals
from agentprof.dialects import Answer, dialect_of
from agentprof.model import Usage
from agentprof.testing import capture

_SOUND = "the total has the sound of the prompt, which is billed by the second and in no other count"
DIFFERING = {
    "mistral.openai_chat.ruby_llm.chat_audio_models_mistral_voxtral_small_latest_can_understan.8a0b0.0": _SOUND,
    "mistral.openai_chat.ruby_llm.chat_audio_models_mistral_voxtral_small_latest_can_understan.56cce.0": _SOUND,
}
AT_LEAST = 2300
"""Recordings with usage and a total, of formats that are read."""


@pytest.fixture(scope="module")
def recordings(shared: Path) -> Recordings:
    """The recorded traffic of model APIs."""
    return Recordings(shared / "data" / "recordings")


def usage_of(recording: dict[str, Any], streamed: bool) -> Usage | None:
    """What the dialect of a recording's path reads in its answer."""
    dialect = dialect_of(recording["path"])
    if dialect is None:
        return None
    answer = Answer()
    arrivals = Arrivals(dialect, answer, None, streamed)
    response = recording["response"]
    body = response.get("body", "").encode("utf8", "surrogatepass")
    arrivals.chunk(base64.b64decode(response["body_b64"]) if "body_b64" in response else body)
    arrivals.complete()
    return answer.usage


def how(truth: dict[str, Any], usage: Usage) -> str:
    """How a provider's total is made of its counts as it reports them."""
    given, output = truth["input_tokens"] or 0, truth["output_tokens"] or 0
    total, reasoning = truth["total_tokens"], truth["reasoning_tokens"] or 0
    cached = (truth["cached_input_tokens"] or 0) + (truth["cache_write_tokens"] or 0)
    if total == given + output:
        beside = usage.input is not None and usage.input > given
        return "input + output, the cache left out" if beside else "input + output"
    if reasoning and total == given + output + reasoning:
        return "input + output + reasoning"
    if cached and total == given + cached + output:
        return "input + cache + output"
    if total == given + output + reasoning + (truth["usage_raw"] or {}).get("toolUsePromptTokenCount", 0):
        return "input + what tools put there + output + reasoning"
    return "DIFFERS"


def test_totals(recordings: Recordings) -> None:
    """A mark where the provider's total is another number, and only there."""
    differing, table, checked = set(), Counter[tuple[str, str, str]](), 0
    for name, truth in recordings.truths.items():
        if truth["total_tokens"] is None or truth["status"] != 200:
            continue
        usage = usage_of(recordings.recorded(name), bool(truth["streaming"]))
        if usage is None:
            continue
        checked += 1
        table[truth["api"], truth["provider"], how(truth, usage)] += 1
        if usage.total_differs:
            differing.add(name)
        elif usage.input is not None and (usage.cache_read or 0) <= (truth["input_tokens"] or 0):
            assert usage.input + (usage.output or 0) == truth["total_tokens"], name
    print()
    for (api, provider, sum_of), count in sorted(table.items()):
        print(f"{api:20} {provider:18} {count:5}  {sum_of}")
    assert differing == set(DIFFERING)
    assert checked >= AT_LEAST


@pytest.mark.filterwarnings("ignore")
def test_another_total_is_a_warning(recordings: Recordings) -> None:
    """From the bytes through the SDK to the summary of the task."""
    with (
        openai.OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0, timeout=20) as client,
        recordings.served() as server,
        capture(),
        agentprof.task("listen") as task,
    ):
        for name in DIFFERING:
            send(client.copy(base_url=server.url(name, "/v1")), server.store.by_name[name])
    summary = task.summary()
    assert summary is not None
    assert {w.code: w.count for w in summary.warnings} == {"total_differs": 2}
    assert (summary.tokens["input"], summary.tokens["output"]) == (18, 449)
