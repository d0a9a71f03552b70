"""Models of other publishers on Vertex AI: the path names the model, the body is that of the publisher's own API.

As https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models describes it.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final
from urllib.parse import unquote

from agentprof.dialects._answer import Answer, Asked, EventReader
from agentprof.dialects._format import Format, Told
from agentprof.dialects.anthropic_messages import Messages
from agentprof.dialects.openai_chat import Chat

_PATH: Final = re.compile(r"/publishers/[^/]+/models/([^/:]+):(rawPredict|streamRawPredict)$")
_COUNTS_TOKENS: Final = "count-tokens"
"""What stands for the model where tokens are only counted."""
_PROVIDER: Final = "gcp.vertex_ai"


class OfAnthropic(Messages):
    """A model of Anthropic."""

    path_tells = True
    provider = _PROVIDER


class LikeOpenAI(Chat):
    """A model whose publisher has the format of OpenAI's chat, as Mistral."""

    path_tells = True
    usage_if_asked = False
    provider = _PROVIDER


_of_anthropic, _like_openai = OfAnthropic(), LikeOpenAI()


class Publishers(Format):
    """Which of them a request is in, its body tells."""

    name = "vertex.publishers"
    operation = "chat"
    endpoints: tuple[str, ...] = (":rawPredict", ":streamRawPredict")
    request_fields: tuple[str, ...] = ("messages",)
    path_tells = True
    provider = _PROVIDER

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """Model and streaming, and the format of the body."""
        found = _PATH.search(path)
        if found is None or found[1] == _COUNTS_TOKENS:
            return None
        dialect = _of_anthropic if "anthropic_version" in names else _like_openai
        return Told(unquote(found[1]), found[2].startswith("stream"), dialect)

    def asked(self, body: bytes) -> Asked:
        """Model and streaming, where the body says them too."""
        return _like_openai.asked(body)

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""
        _like_openai.read_body(body, answer)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""
        return _like_openai.event_reader(answer)
