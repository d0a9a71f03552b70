"""The clients of Mistral for Azure and Google Cloud: their paths are others, their calls the same."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from support.model_server import CHAT, STREAM, ModelServer, Reply

from agentprof import _guard, attributes
from agentprof.testing import Captured

ASKED: Any = {"model": "mistral-small-2503", "messages": [{"role": "user", "content": "Hi"}]}


def client(cloud: str, url: str) -> Any:
    """One that sends to a server of ours."""
    pytest.importorskip("mistralai", reason="the SDK is not installed")
    if cloud == "azure":
        module = pytest.importorskip("mistralai.azure.client", reason="a version that is older than 2")
        return module.MistralAzure(api_key="secret-key", server_url=url)
    pytest.importorskip("google.auth", reason="the SDK's extra for Google Cloud is not installed")
    module = pytest.importorskip("mistralai.gcp.client", reason="a version that is older than 2")
    return module.MistralGCP(project_id="p", access_token="secret-token", server_url=url)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("cloud", "provider"), [("azure", None), ("gcp", "gcp.vertex_ai")])
def test_a_call(cloud: str, provider: str | None, server: ModelServer, captured: Captured) -> None:
    """Whole and streamed, with model and tokens; on Google Cloud the path says who serves it."""
    failures = _guard.counts()
    held = client(cloud, server.url.removesuffix("/v1"))
    server.replies = [Reply.json(CHAT)]
    held.chat.complete(**ASKED)
    server.replies = [Reply.stream(STREAM)]
    assert len(list(held.chat.stream(**ASKED))) == 5
    whole, stream = (dict(span.attributes or {}) for span in captured.spans)
    for said in (whole, stream):
        assert said[attributes.REQUEST_MODEL] == "mistral-small-2503"
        assert (said[attributes.INPUT_TOKENS], said[attributes.OUTPUT_TOKENS]) == (100, 6)
        assert said.get(attributes.PROVIDER) == provider
        assert attributes.FINGERPRINT_REQUEST in said
    assert attributes.FIRST_TOKEN in stream
    del held
    gc.collect()  # nobody has closed it
    assert _guard.counts() == failures
