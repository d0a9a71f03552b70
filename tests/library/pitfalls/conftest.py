"""Failures seen in comparable tools, one test a row of the catalogue, named after the row.

Rows that are tested elsewhere:

| row | where |
|---|---|
| T3, S4, C1 | `library/test_framework_pitfalls.py`: LangChain and LangGraph |
| T5 | `test_t5_...` here for streams of the SDK; through LangChain in `library/test_framework_pitfalls.py` |
| T7, T9, T15 | `library/vocabularies/test_normalise.py`, `library/rollup/test_totals.py`, `library/pricing/` |
| T10, M14 | here for any two scopes; with the real instrumentations `library/twin/test_other_instrumentations.py` |
| C4 | `library/soak/test_soak.py` |
| T6, T8 | `collector/test_trace_pitfalls.py` |
| B1, B5 | here for the SDK; for LiteLLM in `library/test_framework_pitfalls.py` |
| C3 | `library/seams/test_mcp.py`: servers over stdio and HTTP |
"""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from support.model_server import ModelServer


@pytest.fixture
def client(server: ModelServer) -> Iterator[openai.OpenAI]:
    """A client of the endpoint that repeats what failed."""
    with openai.OpenAI(base_url=server.url, api_key="x", max_retries=2, timeout=5) as opened:
        yield opened
