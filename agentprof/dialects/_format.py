"""What holds for most wire formats: a dialect says only where it differs."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NamedTuple, Protocol

from agentprof.dialects._answer import Answer, Asked
from agentprof.dialects._tolerant import Tolerant

_read_asked = Tolerant(Asked)


class Told(NamedTuple):
    """What a path says of the requests that are posted to it."""

    model: str | None
    stream: bool
    dialect: Any = None
    """The format of this request where several are served on the path; None: the one that was asked."""


class Frames(Protocol):
    """Splits a streamed body into its events, whatever the pieces it arrives in."""

    rest: bytes
    """Bytes of an event that is not complete yet."""
    done: bool
    """Whether a mark that closes the stream was seen."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that is complete with these bytes."""

    def finish(self) -> list[bytes]:
        """The data of a last event that nothing ended."""


class Format:
    """A wire format whose requests say all in their bodies and whose streams are server-sent events."""

    sections: tuple[tuple[str, str], ...] = ()
    conversation = ""
    results_in_messages = False
    text_key = b""
    type_says_all = False
    may_be_binary = False
    usage_if_asked = False
    needs_model = False
    path_tells = False
    streams_unasked = False
    reads_headers = False
    provider: str | None = None

    def told_by(self, path: str, names: Container[str]) -> Told | None:
        """What the path says; None: nothing, or it is no path of this format after all.

        Where the path does not tell, another format that is served on it too may be named by the names in a body.
        """
        return None

    def asked(self, body: bytes) -> Asked:
        """Model and streaming, as the body of a request says them."""
        return _read_asked(body) or Asked()

    def read_headers(self, headers: Iterable[tuple[bytes, bytes]], answer: Answer) -> None:
        """Add what the headers of an answer say, where `reads_headers`."""

    def frames(self, start: bytes) -> Frames | None:
        """What splits a stream that begins with these bytes; None: it is one of server-sent events."""
        return None
