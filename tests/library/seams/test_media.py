"""Images, audio, moderations, batches and answers in the background, through the real SDK."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from opentelemetry.trace import StatusCode
from support.model_server import ModelServer, Reply
from support.sdk_styles import RESPONSE
from support.timed_calls import EARLY, LATE

from agentprof import attributes
from agentprof.testing import Captured

pytestmark = pytest.mark.usefixtures("nothing_fails_inside")

SOUND = ("voice.wav", b"RIFF secret-sound", "audio/wav")
IMAGE = ("image.png", b"\x89PNG secret-image", "image/png")


def client(server: ModelServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, **{"api_key": "secret-key", "max_retries": 0} | options)


def event(**fields: Any) -> bytes:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n".encode()


def said_by(captured: Captured) -> dict[str, Any]:
    assert len(captured.spans) == 1
    assert "secret" not in captured.spans[0].to_json()
    return dict(captured.spans[0].attributes or {})


def used(said: dict[str, Any]) -> tuple[Any, Any]:
    return said.get(attributes.INPUT_TOKENS), said.get(attributes.OUTPUT_TOKENS)


USAGE = {
    "input_tokens": 50,
    "output_tokens": 1056,
    "total_tokens": 1106,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
}
IMAGES = {"created": 1, "data": [{"b64_json": "c2VjcmV0"}], "usage": USAGE}


def test_images(server: ModelServer, captured: Captured) -> None:
    """A call with the tokens it reports; the size of the prompt is known, the image is not looked at."""
    server.replies = [Reply.json(IMAGES)]
    with client(server) as to:
        answer = to.images.generate(model="gpt-image-1", prompt="a cat")
    assert answer.data is not None
    assert captured.spans[0].name == "generate_content gpt-image-1"
    said = said_by(captured)
    assert used(said) == (50, 1056)
    assert said[attributes.INPUT_BYTES + "user"] == len('"a cat"')


def test_edited_images(server: ModelServer, captured: Captured) -> None:
    """A form with a file: the model is known from the arguments, of the rest there is no fingerprint."""
    server.replies = [Reply.json(IMAGES)]
    with client(server) as to:
        to.images.edit(model="gpt-image-1", image=IMAGE, prompt="a secret cat")
    said = said_by(captured)
    assert (said[attributes.REQUEST_MODEL], used(said)) == ("gpt-image-1", (50, 1056))
    assert attributes.FINGERPRINT_REQUEST not in said


def test_streamed_images(server: ModelServer, captured: Captured) -> None:
    """The first partial image is the first token; the last event has the usage."""
    partial = {"type": "image_generation.partial_image", "b64_json": "eA==", "partial_image_index": 0}
    done = {"type": "image_generation.completed", "b64_json": "eA==", "usage": USAGE}
    server.replies = [Reply.stream([event(**partial), event(**done)])]
    with client(server) as to:
        events = to.images.generate(model="gpt-image-1", prompt="a cat", stream=True, partial_images=1)
        assert [seen.type for seen in events] == [partial["type"], done["type"]]
    said = said_by(captured)
    assert used(said) == (50, 1056)
    assert attributes.FIRST_TOKEN in said
    assert said[attributes.STREAM_END] == "complete"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["transcriptions", "translations"])
def test_transcriptions(server: ModelServer, captured: Captured, kind: str) -> None:
    """Tokens where the model is billed by them."""
    usage = {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59}
    server.replies = [Reply.json({"text": "secret words", "usage": usage})]
    with client(server) as to:
        answer = getattr(to.audio, kind).create(model="gpt-4o-transcribe", file=SOUND)
    assert answer.text == "secret words"
    said = said_by(captured)
    assert (said[attributes.REQUEST_MODEL], used(said)) == ("gpt-4o-transcribe", (14, 45))


def test_a_transcription_billed_by_time(server: ModelServer, captured: Captured) -> None:
    """And one that is a plain text have no tokens, and are no errors."""
    server.replies = [Reply.json({"text": "words", "usage": {"type": "duration", "seconds": 3}})]
    with client(server) as to:
        to.audio.transcriptions.create(model="whisper-1", file=SOUND)
        server.replies = [Reply(b"secret words", headers={"content-type": "text/plain"})]
        to.audio.transcriptions.create(model="whisper-1", file=SOUND, response_format="text")
    for span in captured.spans:
        assert used(dict(span.attributes or {})) == (None, None)
        assert span.status.status_code is StatusCode.UNSET


def test_a_streamed_transcription(server: ModelServer, captured: Captured) -> None:
    """Deltas are tokens."""
    usage = {"type": "tokens", "input_tokens": 14, "output_tokens": 2, "total_tokens": 16}
    server.replies = [
        Reply.stream(
            [
                event(type="transcript.text.delta", delta="secret"),
                2 * EARLY,
                event(type="transcript.text.delta", delta=" words"),
                event(type="transcript.text.done", text="secret words", usage=usage),
            ]
        )
    ]
    with client(server) as to:
        assert len(list(to.audio.transcriptions.create(model="m", file=SOUND, stream=True))) == 3
    said = said_by(captured)
    assert used(said) == (14, 2)
    assert EARLY < said[attributes.PHASE + "generation"] < LATE
    assert said[attributes.STREAM_END] == "complete"


def test_speech(server: ModelServer, captured: Captured) -> None:
    """The bytes of a sound, read whole or as they come, are no stream of events and are not kept."""
    sound = b"ID3 secret-sound" * 1000
    server.replies = [Reply(sound, headers={"content-type": "audio/mpeg"})]
    with client(server) as to:
        assert to.audio.speech.create(model="tts-1", voice="alloy", input="hi").content == sound
        with to.audio.speech.with_streaming_response.create(model="tts-1", voice="alloy", input="hi") as got:
            assert b"".join(got.iter_bytes()) == sound
    assert len(captured.spans) == 2
    for span in captured.spans:
        said = dict(span.attributes or {})
        assert said[attributes.INPUT_BYTES + "user"] == 4
        assert attributes.STREAM_END not in said
        assert attributes.FIRST_TOKEN not in said
        assert span.status.status_code is StatusCode.UNSET


def test_streamed_speech(server: ModelServer, captured: Captured) -> None:
    """As events it has usage."""
    usage = {"input_tokens": 3, "output_tokens": 40, "total_tokens": 43}
    pieces = [event(type="speech.audio.delta", audio="eA=="), event(type="speech.audio.done", usage=usage)]
    server.replies = [Reply.stream(pieces)]
    with (
        client(server) as to,
        to.audio.speech.with_streaming_response.create(
            model="m", voice="alloy", input="hi", stream_format="sse"
        ) as got,
    ):
        assert b"".join(got.iter_bytes()) == b"".join(pieces)
    said = said_by(captured)
    assert used(said) == (3, 40)
    assert said[attributes.STREAM_END] == "complete"


def test_moderations(server: ModelServer, captured: Captured) -> None:
    """A call that reports no use."""
    server.replies = [Reply.json({"id": "modr-1", "model": "omni-moderation-latest", "results": []})]
    with client(server) as to:
        to.moderations.create(input="hi")
    assert captured.spans[0].name == "moderation"
    said = said_by(captured)
    assert (said[attributes.RESPONSE_MODEL], used(said)) == ("omni-moderation-latest", (None, None))


def test_an_error_of_an_image(server: ModelServer, captured: Captured) -> None:
    """Is one of the call."""
    server.replies = [Reply.json({"error": {"message": "secret", "code": "moderation_blocked"}}, 400)]
    with client(server) as to, pytest.raises(openai.BadRequestError):
        to.images.generate(model="gpt-image-1", prompt="a secret cat")
    assert said_by(captured)[attributes.ERROR_TYPE] == "BadRequestError"


def test_batches_are_no_calls(server: ModelServer, captured: Captured) -> None:
    """Neither handing one in nor looking after it makes a model work here and now."""
    batch = {
        "id": "batch_1",
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "input_file_id": "file-1",
        "completion_window": "24h",
        "status": "completed",
        "created_at": 1,
        "usage": {"input_tokens": 5, "output_tokens": 5, "total_tokens": 10},
    }
    server.replies = [Reply.json(batch)]
    with client(server) as to:
        to.batches.create(completion_window="24h", endpoint="/v1/chat/completions", input_file_id="file-1")
        assert to.batches.retrieve("batch_1").id == "batch_1"
    assert captured.spans == []


def test_an_answer_in_the_background(server: ModelServer, captured: Captured) -> None:
    """Asking is one call, which says that it is queued and no more; polling and reading the answer are none."""
    queued = RESPONSE | {"status": "queued", "output": [], "usage": None}
    server.replies = [
        Reply.json(queued),
        Reply.json(queued | {"status": "in_progress"}),
        Reply.json(RESPONSE),
    ]
    with client(server) as to:
        answer = to.responses.create(model="m", input="hi", background=True)
        while answer.status != "completed":
            answer = to.responses.retrieve(answer.id)
    assert answer.output_text == "Hello."
    said = said_by(captured)
    assert said[attributes.FINISH_REASONS] == ("queued",)
    assert used(said) == (None, None)
