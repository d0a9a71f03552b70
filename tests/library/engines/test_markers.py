"""Answers without a marker of an engine are not handed to any."""

import pytest

from agentprof import engines
from agentprof.dialects import Answer
from agentprof.engines.table import ENGINES


@pytest.mark.parametrize("marker", sorted({marker for engine in ENGINES for marker in engine.MARKERS}))
def test_every_marker_is_among_those_that_are_looked_for(marker: bytes) -> None:
    """A marker that only its engine knew would never reach it."""
    assert engines._marked(b'{"id":"1",' + marker + b":null}") is not None


def test_a_plain_answer_has_none() -> None:
    """As OpenAI ends its streams."""
    body = b'{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}'
    answer = Answer()
    engines.read_body(body, answer)
    assert engines._marked(body) is None
    assert answer.engine is None
