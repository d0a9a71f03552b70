"""OpenAI images, audio and moderations: what they say of their own use; the media are not looked at."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from agentprof.dialects._answer import CONTENT, NOTHING, Answer, EventReader
from agentprof.dialects._format import Format
from agentprof.dialects._openai_error import error_type
from agentprof.dialects._openai_usage import RawUsage, read_usage
from agentprof.dialects._tolerant import Tolerant

_CONTENT_ENDS: Final = (".delta", ".partial_image")
_LAST_ENDS: Final = (".done", ".completed")


class Body(msgspec.Struct):
    """A whole answer."""

    id: str | None = None
    model: str | None = None
    usage: RawUsage | None = None
    error: Any = None


class Event(msgspec.Struct):
    """An event of a stream."""

    type: str | None = None
    usage: RawUsage | None = None
    error: Any = None
    code: Any = None


_read_body = Tolerant(Body)
_read_event = Tolerant(Event)


class Media(Format):
    """What images, audio and moderations have in common."""

    operation = "generate_content"
    sections: tuple[tuple[str, str], ...] = (("prompt", "user"), ("input", "user"))
    conversation = ""
    results_in_messages = False
    text_key = b""
    type_says_all = False
    may_be_binary = True
    usage_if_asked = False

    def read_body(self, body: bytes, answer: Answer) -> None:
        """Read a whole answer, which may be a text or the bytes of a medium too."""
        read = _read_body(body)
        if read is None:
            return
        answer.response_id = read.id
        answer.model = read.model
        read_usage(read.usage, answer)
        if read.error:
            answer.error_type = error_type(read.error)

    def event_reader(self, answer: Answer) -> EventReader:
        """A reader for one stream."""

        def read_event(data: bytes) -> int:
            event = _read_event(data)
            if event is None:
                return NOTHING
            kind = event.type or ""
            read_usage(event.usage, answer)
            if event.error or kind == "error":
                answer.error_type = error_type(event.error or {"code": event.code})
            if kind.endswith(_LAST_ENDS):
                answer.whole = True
                return NOTHING
            return CONTENT if kind.endswith(_CONTENT_ENDS) else NOTHING

        return read_event


class Images(Media):
    """Images made or changed."""

    name = "openai.images"
    endpoints: tuple[str, ...] = ("/images/generations", "/images/edits", "/images/variations")
    request_fields: tuple[str, ...] = ("prompt", "image")


class Transcriptions(Media):
    """Speech to text. Requests are forms with a file, so a program without the SDK is not read."""

    name = "openai.transcriptions"
    endpoints: tuple[str, ...] = ("/audio/transcriptions", "/audio/translations")
    request_fields: tuple[str, ...] = ("file",)


class Speech(Media):
    """Text to speech."""

    name = "openai.speech"
    endpoints: tuple[str, ...] = ("/audio/speech",)
    request_fields: tuple[str, ...] = ("input",)


class Moderations(Media):
    """Texts and images judged."""

    name = "openai.moderations"
    operation = "moderation"
    endpoints: tuple[str, ...] = ("/moderations",)
    request_fields: tuple[str, ...] = ("input",)
    may_be_binary = False
