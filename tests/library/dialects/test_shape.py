"""Recognising pieces of text by the bytes around them: never anything that decoding would see otherwise."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentprof.dialects._shape import shape_of
from agentprof.dialects._sse import Events

TEXT = st.text(alphabet='ab"\\\n\r{}:,é', min_size=0, max_size=6)


def chat(text: Any, **more: Any) -> dict[str, Any]:
    finish = more.pop("finish", None)
    choices = [{"index": more.pop("index", 0), "delta": {"content": text}, "finish_reason": finish}]
    return {"id": "c-1", "choices": choices, "usage": None} | more


def response(text: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "response.output_text.delta",
        "item_id": "m-1",
        "delta": text,
        "sequence_number": 3,
    } | more


def sent(event: dict[str, Any], compact: bool) -> bytes:
    text = json.dumps(event, separators=(",", ":") if compact else None, ensure_ascii=False)
    return b"data: " + text.encode() + b"\n\n"


@given(st.text(min_size=1, alphabet="xyz "), TEXT, st.booleans(), st.booleans(), st.data())
@example("x", "\\", True, False, None)
def test_what_fits_is_text_alone(first: str, second: str, compact: bool, padded: bool, data: Any) -> None:
    """An event that fits is one event, equal to the one learnt from but for its text and its padding."""
    padding = {"obfuscation": "aaa"} if padded else {}
    shape = shape_of(sent(chat(first, **padding), compact), b'"content":', False)
    assert shape is not None
    change: dict[str, Any] = {}
    if data is not None:
        change = data.draw(
            st.sampled_from(
                [{}, {"finish": "stop"}, {"usage": {"prompt_tokens": 1}}, {"index": 1}, {"error": "e"}]
            )
        )
    change = padding | change
    if padded and data is not None:
        change["obfuscation"] = data.draw(TEXT)
    chunk = sent(chat(second, **change), compact)
    if data is not None:
        chunk += data.draw(st.sampled_from([b"", b"data: 1\n\n", b": ping\n\n"]))
    fits = shape(chunk)
    if fits:
        (only,) = Events().feed(chunk)
        event = json.loads(only)
        assert event["choices"][0]["delta"]["content"] != ""
        event["choices"][0]["delta"]["content"] = first
        assert event | padding == chat(first, **padding)
    elif second and not set(second) & set('"\\\n\r') and change == padding and chunk.count(b"\n\n") == 1:
        raise AssertionError("a plain piece of text did not fit")


@given(
    TEXT, st.booleans(), st.integers(0, 99), st.sampled_from(["response.output_text.delta", "response.done"])
)
def test_typed_events(text: str, compact: bool, number: int, kind: str) -> None:
    """Where the type says all, what follows the text may differ."""
    shape = shape_of(sent(response("x"), compact), b'"delta":', True)
    assert shape is not None
    fits = shape(sent(response(text, type=kind, sequence_number=number, obfuscation="zz"), compact))
    plain = bool(text) and not set(text) & set('"\\\n\r') and kind.endswith("delta")
    assert fits >= plain
    if fits:
        assert text
        assert kind == "response.output_text.delta"


@pytest.mark.parametrize(
    "chunk",
    [
        b'data: {"content":null}\n\n',
        b'data: {"content":""}\n\n',
        b'data: {"content":"a\\"b"}\n\n',
        b'data: {"content":"a"}\n',
        b'data: {"content":"a","content":"b"}\n\n',
        b'data: {"text":"a"}\n\n',
    ],
)
def test_nothing_is_learnt_from(chunk: bytes) -> None:
    """No shape where the text is absent, empty, escaped, ambiguous or not complete."""
    assert shape_of(chunk, b'"content":', False) is None
