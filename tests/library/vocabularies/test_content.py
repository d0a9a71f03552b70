"""Which attributes of other tools hold what was said."""

from __future__ import annotations

import pytest

from agentprof.vocabularies import VOCABULARIES, is_read
from agentprof.vocabularies.content import SPAN_LIMIT, VALUE_LIMIT, content_of, is_content


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.input.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.prompt.0.content",
        "llm.input_messages.12.message.content",
        "output.value",
        "traceloop.entity.input",
    ],
)
def test_what_was_said_is_content_and_is_not_read(name: str) -> None:
    """In the names of each vocabulary; nothing but `--keep-content` looks at it."""
    assert is_content(name)
    assert not is_read(name)


def test_names_that_are_read_are_no_content() -> None:
    """Neither are names of models, prompts and tools."""
    read = {name for one in VOCABULARIES for names in one.fields.values() for name in names}
    assert not [name for name in read if is_content(name)]
    assert not is_content("gen_ai.prompt.name")
    assert not is_content("gen_ai.tool.name")


def test_long_content_is_cut() -> None:
    """Of each attribute and of the whole span; what is no text is JSON."""
    found = content_of({f"gen_ai.prompt.{n}.content": "x" * 100_000 for n in range(9)})
    assert {len(text) for text in found.values()} == {VALUE_LIMIT}
    assert sum(map(len, found.values())) == SPAN_LIMIT
    assert content_of({"gen_ai.input.messages": [{"role": "user"}], "other": "x"}) == {
        "gen_ai.input.messages": '[{"role":"user"}]'
    }
