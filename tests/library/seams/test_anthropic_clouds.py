"""Calls of the anthropic SDK by its clients for clouds."""

import pytest
from support.anthropic_calls import ASKED, SAID
from support.anthropic_wire import MESSAGE, MODEL, PING, STREAM
from support.aws_frames import chunk
from support.model_server import ModelServer, Reply
from support.recorded import only

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")


def test_vertex(server: ModelServer, captured: Captured) -> None:
    """Its path names the model; the provider is known whatever the host."""
    server.replies = [Reply.json(MESSAGE), Reply.stream(STREAM)]
    with anthropic.AnthropicVertex(
        base_url=server.url, region="europe-west1", project_id="p", access_token="secret-token"
    ) as to:
        to.messages.create(**ASKED)
        list(to.messages.create(**ASKED, stream=True))
    assert [sent.path.rpartition(":")[2] for sent in server.sent] == ["rawPredict", "streamRawPredict"]
    for span in captured.spans:
        assert SAID.items() <= dict(span.attributes or {}).items()
        assert (span.attributes or {})[attributes.PROVIDER] == "gcp.vertex_ai"
        assert (span.attributes or {})[attributes.REQUEST_MODEL] == MODEL


def test_bedrock(server: ModelServer, captured: Captured) -> None:
    """Its path names the model, and an event of a stream stands in a frame of AWS."""
    pytest.importorskip("botocore", reason="what the SDK needs for Bedrock is not installed")
    data = [piece.partition(b"data: ")[2].strip() for piece in STREAM if piece is not PING]
    framed = Reply(
        [chunk(piece) for piece in data],
        headers={"content-type": "application/vnd.amazon.eventstream"},
        framing="chunked",
    )
    server.replies = [Reply.json(MESSAGE), framed]
    asked = ASKED | {"model": "global.anthropic.claude-sonnet-5-5"}
    with anthropic.AnthropicBedrock(
        base_url=server.url, aws_region="eu-west-1", aws_access_key="secret", aws_secret_key="secret"
    ) as to:
        to.messages.create(**asked)
        assert [event.type for event in to.messages.create(**asked, stream=True)][-1] == "message_stop"
    assert [sent.path.rpartition("/")[2] for sent in server.sent] == ["invoke", "invoke-with-response-stream"]
    for span in captured.spans:
        said = dict(span.attributes or {})
        assert SAID.items() <= said.items()
        assert said[attributes.PROVIDER] == "aws.bedrock"
        assert said[attributes.REQUEST_MODEL] == asked["model"]
    streamed = dict(captured.spans[1].attributes or {})
    assert streamed[attributes.STREAM_END] == "complete"
    assert streamed[attributes.FIRST_TOKEN] <= streamed[attributes.FIRST_CONTENT]


def test_foundry(server: ModelServer, captured: Captured) -> None:
    """Azure's own host, or a gateway."""
    server.replies = [Reply.json(MESSAGE)]
    with anthropic.AnthropicFoundry(base_url=server.url.removesuffix("/v1"), api_key="secret-key") as to:
        to.messages.create(**ASKED)
    said = only(captured)[1]
    assert SAID.items() <= said.items()
    assert said[attributes.PROVIDER] == "azure.ai.inference"
