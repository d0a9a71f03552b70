"""Gemini, Ollama, Cohere and Bedrock: which requests are theirs, and what is read of streams, however they come."""

import json
import random
import struct
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from agentprof import attributes as a
from agentprof._asked import say_request
from agentprof.dialects import CONTENT, NOTHING, THINKING, Answer, Asked, Dialect, Told, asked_in, dialect_of
from agentprof.dialects._json_frames import Items, Lines
from agentprof.model import Phase

GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"
GEMINI_STREAM = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
VERTEX = "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent"
TITAN = "/model/us.amazon.nova-micro-v1%3A0/converse-stream"


def at(path: str) -> Dialect:
    """The format served on a path."""
    found = dialect_of(path)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (GEMINI, {"contents": []}, ("gemini-2.5-pro", False)),
        (VERTEX, {"contents": [], "stream": True}, ("gemini-2.5-pro", False)),
        (GEMINI_STREAM, {"contents": []}, ("gemini-2.5-pro", True)),
        (GEMINI, {"messages": []}, None),
        ("/v1beta/models/e:batchEmbedContents", {"requests": []}, ("e", False)),
        ("/api/chat", {"model": "m", "messages": []}, ("m", True)),
        ("/api/chat", {"model": "m", "messages": [], "stream": None}, ("m", True)),
        ("/api/chat", {"model": "m", "messages": [], "stream": False}, ("m", False)),
        ("/api/chat", {"messages": []}, None),
        ("/api/generate", {"model": "m", "prompt": "hi"}, ("m", True)),
        ("/api/embed", {"model": "m", "input": "hi"}, ("m", False)),
        ("/v2/chat", {"model": "m", "messages": []}, ("m", False)),
        ("/v1/chat", {"message": "hi", "model": "m"}, ("m", False)),
        ("/v1/chat", {"message": "hi"}, None),
        ("/v1/chat", {"messages": [], "model": "m", "stream": True}, ("m", True)),
        ("/v1/chat", {"messages": []}, None),
        ("/v1/chat", {"text": "hi"}, None),
        (TITAN, {"messages": []}, ("us.amazon.nova-micro-v1:0", True)),
        ("/model/m/invoke", {"anthropic_version": "x", "messages": []}, ("m", False)),
        ("/model/m/invoke", {"prompt": "x"}, ("m", False)),
        ("/model/m/invoke", {"query": "x", "documents": []}, None),
        ("/functions/f/invoke", {"anthropic_version": "x"}, None),
        ("/converse", {"messages": [], "model": "m"}, None),
    ],
)
def test_which_bodies_are_requests(path: str, body: Any, expected: Any) -> None:
    """Model and streaming, from the path where it says them; what others post there is none."""
    found = asked_in(at(path), path, msgspec.json.encode(body))
    assert (found if found is None else (found.model, found.stream)) == expected


def test_two_formats_on_one_path() -> None:
    """Cohere's first version has `message`, Writer's chat `messages` and is one of OpenAI's format."""
    own = at("/v1/chat")
    cohere = asked_in(own, "/v1/chat", b'{"message": "hi", "messages": [], "model": "m"}')
    writer = asked_in(own, "/v1/chat", b'{"messages": [], "model": "palmyra-x4"}')
    assert isinstance(cohere, Asked)
    assert isinstance(writer, Told)
    assert (own.name, writer.dialect.name, writer.model) == ("cohere.chat_v1", "openai.chat", "palmyra-x4")


def pieces(data: bytes, seed: int) -> list[bytes]:
    """The bytes cut at random places."""
    places = sorted(random.Random(seed).randrange(len(data) + 1) for _ in range(seed))
    return [data[i:j] for i, j in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_frames_in_any_pieces(seed: int) -> None:
    """Every value comes out once and whole, with braces, quotes and escapes in its texts."""
    values = [{"a": 'x"}{\\'}, {"b": {"c": ["\n", "\\\\"]}}, {}, {"d": "]"}]
    array = json.dumps(values, indent=1).encode()
    items, lines = Items(), Lines()
    of_array = [one for piece in pieces(array, seed) for one in items.feed(piece)] + items.finish()
    assert [json.loads(one) for one in of_array] == values
    rows = b"\n".join(json.dumps(value).encode() for value in values)
    of_lines = [one for piece in pieces(rows, seed) for one in lines.feed(piece)] + lines.finish()
    assert [json.loads(one) for one in of_lines] == values


@pytest.mark.parametrize("kind", [Items, Lines])
def test_half_a_value_is_no_harm(kind: Any) -> None:
    """Nor is what is none at all."""
    for data in (b'[{"a": "', b"}}}]]", b'"\\', b"\x00\xff", b"[" * 1000):
        frames = kind()
        for number in range(len(data)):
            frames.feed(data[number : number + 1])
        frames.finish()


def carried(path: str, *events: Any) -> tuple[Answer, list[int]]:
    """The answer of a stream, and which tokens each of its events carried."""
    answer = Answer()
    read = at(path).event_reader(answer)
    return answer, [read(msgspec.json.encode(event)) for event in events]


def test_thoughts_of_gemini_come_before_its_answer() -> None:
    """A thought is visible thinking, its signature nothing; a call of a function is content."""
    parts: list[dict[str, Any]] = [
        {"text": "hm", "thought": True},
        {"text": "", "thoughtSignature": "x"},
        {"text": "Hello"},
        {"functionCall": {"name": "look", "args": {}}},
        {"functionCall": {"name": "look", "args": {"at": "x"}}},
    ]
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    answer, tokens = carried(GEMINI_STREAM, *chunks)
    assert tokens == [THINKING, NOTHING, CONTENT, CONTENT, CONTENT]
    assert list(answer.tool_calls.values()) == ["look", "look"]


def test_an_error_in_a_stream_of_gemini() -> None:
    """Has the kind it names; its message is not kept."""
    answer, _ = carried(GEMINI_STREAM, {"error": {"code": 503, "message": "secret", "status": "UNAVAILABLE"}})
    assert answer.error_type == "503"


def test_tools_at_googles_side() -> None:
    """Code and searches of a store by their number; a search of the web counts once by its queries."""
    parts = [
        {"executableCode": {"code": "1"}},
        {"codeExecutionResult": {}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB"}},
        {"toolCall": {"toolType": "FILE_SEARCH"}},
    ]
    grounding = {"webSearchQueries": ["a", "b"]}
    candidate = {"content": {"parts": parts}, "groundingMetadata": grounding}
    body = {"modelVersion": "gemini-3-flash", "candidates": [candidate]}
    answer, _ = carried(GEMINI_STREAM, body, body | {"candidates": [{"groundingMetadata": grounding}]})
    assert answer.server_tools == {"code_execution": 1, "file_search": 1, "web_search": 2}


def test_times_of_ollama() -> None:
    """Loading is the queue, reading the prompt the prefill; nonsense is nothing."""
    last = {"done": True, "load_duration": 5, "prompt_eval_duration": 7, "eval_duration": 10**30}
    answer, tokens = carried(
        "/api/chat", {"message": {"thinking": "hm"}}, {"message": {"content": "x"}}, last
    )
    assert tokens == [THINKING, CONTENT, NOTHING]
    assert answer.phases == {
        "queue": Phase(ns=5, source="reported", field="load_duration"),
        "prefill": Phase(ns=7, source="reported", field="prompt_eval_duration"),
    }
    assert answer.whole


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame of an event stream of Amazon's."""
    named = {":" + name.replace("_", "-"): value.encode() for name, value in headers.items()}
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value
        for name, value in named.items()
    )
    return struct.pack(">IIi", len(head) + len(payload) + 16, len(head), 0) + head + payload + b"\0\0\0\0"


@pytest.mark.parametrize("seed", range(5))
def test_a_stream_of_bedrock(seed: int) -> None:
    """Frames in any pieces: thinking, text, a tool, the end, and an error in between."""
    events: list[tuple[str, Any]] = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "Hello"}}),
        ("contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"name": "look"}}}),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": {"inputTokens": 1, "cacheReadInputTokens": 2, "outputTokens": 3}}),
    ]
    data = b"".join(
        frame(msgspec.json.encode(event), message_type="event", event_type=kind) for kind, event in events
    )
    data += frame(b'{"message": "secret"}', message_type="exception", exception_type="throttlingException")
    frames = at(TITAN).frames(data[:1])
    assert frames is not None
    answer = Answer()
    read = at(TITAN).event_reader(answer)
    tokens = [read(event) for piece in pieces(data, seed) for event in frames.feed(piece)]
    assert tokens == [NOTHING, THINKING, CONTENT, CONTENT, NOTHING, NOTHING, NOTHING]
    assert list(answer.tool_calls.values()) == ["look"]
    assert answer.finish_reasons == {0: "tool_use"}
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.usage.cache_read) == (3, 3, 2)
    assert answer.error_type == "throttlingException"


def test_sections_of_a_request_of_gemini() -> None:
    """System, tools one by one, the parts of a turn that are results of tools, and the two sides."""
    result = {"functionResponse": {"name": "f", "response": {"x": 1}}}
    body = {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}, {"googleSearch": {}}],
        "contents": [
            {"parts": [{"text": "hi"}], "role": "user"},
            {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
            {"role": "user", "parts": [result]},
        ],
    }
    said: dict[str, Any] = {}
    say_request(said, msgspec.json.encode(body), at(GEMINI), None)
    assert said[a.INPUT_BYTES + "tool_results"] == len(msgspec.json.encode(result))
    assert said[a.INPUT_BYTES + "assistant"] == len(msgspec.json.encode(body["contents"][1]))
    assert said[a.TOOLS_OFFERED] == 3
    asked = said.pop(a.FINGERPRINT_REQUEST)
    for model in ("a", "b"):
        say_request(said, msgspec.json.encode(body), at(GEMINI), None, model)
        assert said[a.FINGERPRINT_REQUEST] != asked
        asked = said[a.FINGERPRINT_REQUEST]
    say_request(said, b'{"toolConfig": {"tools": [{}, {}]}, "messages": []}', at(TITAN), None)
    assert said[a.TOOLS_OFFERED] == 2


@pytest.mark.parametrize("path", [GEMINI, "/api/chat", "/v2/chat", "/v1/chat", "/model/m/converse"])
def test_nonsense_is_read_as_nothing(path: str) -> None:
    """Whatever the types of the fields: no error, no usage."""
    keys = (
        "usageMetadata",
        "candidates",
        "message",
        "usage",
        "meta",
        "output",
        "delta",
        "error",
        "tool_calls",
    )
    for value in (None, 7, "x", [], [[]], {"usage": 3}, [{"content": {"parts": {}}}]):
        body = msgspec.json.encode({key: value for key in keys if key != "error"})
        answer = Answer()
        at(path).read_body(body, answer)
        at(path).event_reader(answer)(body)
        assert answer.usage is None
    for body in (b"", b"\xff", b"[]", b'{"a'):
        at(path).read_body(body, Answer())
        at(path).event_reader(Answer())(body)


def test_formats_load_late() -> None:
    """Looking up what is none of theirs loads none of them, and none loads an SDK."""
    code = (
        "import sys; from agentprof.dialects import dialect_of; dialect_of('/chat/completions');"
        "late = [n for n in ('gemini','ollama','cohere','bedrock') if 'agentprof.dialects.' + n in sys.modules];"
        "[dialect_of(p) for p in ('/m:generateContent', '/api/chat', '/v2/chat', '/model/m/converse')];"
        "print(late, [n for n in ('google.genai', 'ollama', 'cohere', 'boto3', 'httpx') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


def test_steps_of_an_interaction() -> None:
    """Thoughts, then what was asked for; tools of the program and of Google apart; the last usage holds."""
    usage = {"total_input_tokens": 10, "total_tool_use_tokens": 5, "total_output_tokens": 3}
    answer, tokens = carried(
        "/v1beta/interactions",
        {"interaction": {"id": "i", "status": "in_progress", "model": "gemini-3-flash"}},
        {"index": 0, "step": {"type": "thought"}},
        {"index": 0, "delta": {"type": "thought_summary", "content": {"text": "hm"}}},
        {"index": 0, "delta": {"type": "thought_signature", "signature": "x"}},
        {"index": 1, "step": {"type": "google_search_call"}},
        {"index": 2, "step": {"type": "function_call", "name": "look"}},
        {"index": 3, "delta": {"type": "text", "text": "Hello"}, "metadata": {"usage": usage}},
        {"interaction": {"status": "requires_action", "usage": usage | {"total_thought_tokens": 7}}},
    )
    assert tokens == [NOTHING, NOTHING, THINKING, NOTHING, CONTENT, CONTENT, CONTENT, NOTHING]
    assert (answer.response_id, answer.model) == ("i", "gemini-3-flash")
    assert answer.finish_reasons == {0: "requires_action"}
    assert (answer.server_tools, answer.tool_calls) == ({"web_search": 1}, {2: "look"})
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.usage.reasoning) == (15, 10, 7)
