"""A dialect needs nothing but bytes: no SDK, no HTTP library, no OpenTelemetry SDK, and nothing is patched."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

PROGRAM = """
    import importlib, json, pkgutil, sys

    class OnlyOurs:
        def find_spec(self, name, path=None, target=None):
            root = name.partition(".")[0]
            if root in ("agentprof", "msgspec", "typing_extensions") or root in sys.stdlib_module_names:
                return None
            if root == "opentelemetry" and not name.startswith(("opentelemetry.sdk", "opentelemetry.exporter")):
                return None
            raise ImportError(f"{name} is not needed")

    sys.meta_path.insert(0, OnlyOurs())
    import agentprof.dialects as dialects
    for module in pkgutil.iter_modules(dialects.__path__):
        importlib.import_module(f"agentprof.dialects.{module.name}")

    PATHS = {
        "/v1/chat/completions": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        "/v1/completions": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        "/v1/responses": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        "/v1/embeddings": {"usage": {"prompt_tokens": 7, "total_tokens": 7}},
        "/v1/images/generations": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        "/v1/audio/transcriptions": {"usage": {"type": "tokens", "input_tokens": 7, "output_tokens": 2}},
        "/v1/audio/speech": {},
        "/v1/moderations": {},
        "/v1/messages": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        "/m:generateContent": {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2}},
        "/m:embedContent": {"usageMetadata": {"promptTokenCount": 7}},
        "/v1beta/interactions": {"usage": {"total_input_tokens": 7, "total_output_tokens": 2}},
        "/api/chat": {"prompt_eval_count": 7, "eval_count": 2},
        "/api/generate": {"prompt_eval_count": 7, "eval_count": 2},
        "/api/embed": {"prompt_eval_count": 7},
        "/v2/chat": {"usage": {"tokens": {"input_tokens": 7, "output_tokens": 2}}},
        "/v1/chat": {"meta": {"tokens": {"input_tokens": 7, "output_tokens": 2}}},
        "/v2/embed": {"meta": {"billed_units": {"input_tokens": 7}}},
        "/model/m/converse": {"usage": {"inputTokens": 7, "outputTokens": 2}},
        "/publishers/p/models/m:rawPredict": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        "/model/m/invoke": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        "/generate": {"meta_info": {"prompt_tokens": 7, "completion_tokens": 2}},
        "/completion": {"stop": True, "tokens_evaluated": 7, "tokens_predicted": 2},
        "/generate_stream": {"details": {"input_length": 7, "generated_tokens": 2}},
    }
    read, names = {}, set()
    for path, body in PATHS.items():
        dialect = dialects.dialect_of(path)
        names.add(dialect.name)
        asked = ("model", "message") if path == "/v1/chat" else ("anthropic_version", "messages")
        told = dialect.told_by(path, asked)
        dialect = (told and told.dialect) or dialect
        answer = dialects.Answer()
        dialect.read_body(json.dumps(body).encode(), answer)
        read[path] = None if answer.usage is None else [answer.usage.input, answer.usage.output]
    ends = {end for dialect in dialects.DIALECTS for end in dialect.endpoints} | set(dialects.LATE_DIALECTS)
    untried = sorted(name for name in {dialects.dialect_of("x" + end).name for end in ends} - names)
    from agentprof._instrument import instrumented_modules
    print(json.dumps({"read": read, "untried": untried, "patched": instrumented_modules()}))
"""
WITHOUT_USAGE = {"/v1/audio/speech", "/v1/moderations"}
WITHOUT_OUTPUT = {"/v1/embeddings", "/m:embedContent", "/api/embed", "/v2/embed"}


def test_every_dialect_reads_alone() -> None:
    """In a process where nothing else can be imported, each of them, with an answer of its own format."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["untried"], found["patched"]) == ([], [])
    for path, usage in found["read"].items():
        expected = None if path in WITHOUT_USAGE else [7, None if path in WITHOUT_OUTPUT else 2]
        assert usage == expected, path
