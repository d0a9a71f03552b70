"""What the bytes of model APIs mean: one module a wire format, all found through `DIALECTS`.

A dialect reads serialised requests and received answers. It imports no SDK, touches no object of the
program, and takes any bytes: what it cannot read stays unknown.
"""

from __future__ import annotations

from typing import Final, Protocol

from agentprof.dialects import openai_chat, openai_embeddings, openai_responses
from agentprof.dialects._answer import CONTENT, NOTHING, THINKING, Answer, Asked, EventReader

__all__ = [
    "CONTENT",
    "DIALECTS",
    "NOTHING",
    "THINKING",
    "Answer",
    "Asked",
    "Dialect",
    "EventReader",
    "dialect_of",
]


class Dialect(Protocol):
    """One wire format."""

    name: str
    operation: str
    """As the GenAI conventions call it: `chat`, `embeddings`, `text_completion`."""
    endpoints: tuple[str, ...]
    """Ends of the paths it is served on; only POST is a call."""
    text_key: bytes
    """The key of the text in an event of a stream, with its colon; empty: there is none."""
    type_says_all: bool
    """Whether events name their type, so that one of a text type has nothing else of interest."""

    def asked(self, body: bytes) -> Asked:
        """Read a request."""

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer."""

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one streamed answer."""


DIALECTS: Final[tuple[Dialect, ...]] = (
    openai_chat.Chat(),
    openai_chat.Completions(),
    openai_responses.Responses(),
    openai_embeddings.Embeddings(),
)

_BY_ENDPOINT: Final = {end: dialect for dialect in DIALECTS for end in dialect.endpoints}
_known: dict[str, Dialect | None] = {}


def dialect_of(path: str) -> Dialect | None:
    """The dialect served on a path, or None where it is no model endpoint.

    Args:
        path: Path or URL of a POST, without query.
    """
    try:
        return _known[path]
    except KeyError:
        found = next((dialect for end, dialect in _BY_ENDPOINT.items() if path.endswith(end)), None)
        if len(_known) < 1000:
            _known[path] = found
        return found
