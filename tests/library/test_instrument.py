"""Switching on and off, in processes of their own where the state of a process matters."""

import json
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import agentprof
from agentprof import _guard, attributes
from agentprof._instrument import AgentprofInstrumentor


def run(program: str) -> dict[str, object]:
    """What a fresh process prints as JSON; it must end well and say nothing else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result | {"stderr": done.stderr}


def test_importing_is_cheap() -> None:
    """The import pulls in no SDK, neither of models nor of OpenTelemetry, and no exporter."""
    found = run(
        """
        import json, sys
        import agentprof
        heavy = ("openai", "httpx", "httpx2", "opentelemetry.sdk", "opentelemetry.exporter", "wrapt", "yaml")
        print(json.dumps({"heavy": [name for name in heavy if name in sys.modules]}))
        """
    )
    assert found == {"heavy": [], "stderr": ""}


def test_instrumenting_imports_no_sdk() -> None:
    """SDKs are patched when the program imports them, whenever that is; the order makes no difference."""
    found = run(
        """
        import json, sys
        import agentprof
        agentprof.instrument(propagate_to=())
        before = "openai" in sys.modules
        from openai._base_client import SyncAPIClient
        after = hasattr(SyncAPIClient.request, "__wrapped__")
        agentprof.uninstrument()
        undone = hasattr(SyncAPIClient.request, "__wrapped__")
        agentprof.instrument()
        again = hasattr(SyncAPIClient.request, "__wrapped__")
        print(json.dumps({"before": before, "after": after, "undone": undone, "again": again}))
        """
    )
    assert found == {"before": False, "after": True, "undone": False, "again": True, "stderr": ""}


def test_instrumenting_imports_nothing_but_what_it_needs() -> None:
    """Of all SDKs that are installed none is loaded, nor anything else that is not of agentprof's own requirements."""
    found = run(
        """
        import json, sys
        before = set(sys.modules)
        from importlib.util import find_spec
        from agentprof._run.sdks import SDKS
        import agentprof
        agentprof.instrument(propagate_to=())
        loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
        loaded -= sys.stdlib_module_names
        known = {"agentprof", "opentelemetry", "msgspec", "typing_extensions"}
        installed = [name for name in SDKS if find_spec(name.partition(".")[0])]
        there = sorted(name for name in SDKS if name in sys.modules)
        print(json.dumps({"installed": installed, "sdks": there, "others": sorted(loaded - known)}))
        """
    )
    assert {"openai", "anthropic", "httpx", "requests", "aiohttp"} <= set(found["installed"])
    assert (found["sdks"], found["others"], found["stderr"]) == ([], [], "")


def test_nobody_listens() -> None:
    """Without a collector the program ends at once and says nothing: the spans wait on disk."""
    found = run(
        """
        import json, time
        import agentprof
        from agentprof import _settings
        _settings.DEFAULT_ENDPOINT = "http://127.0.0.1:9/v1/traces"
        agentprof.instrument()
        kept = []
        for _ in range(3):
            with agentprof.task("t"):
                pass
            kept.append(agentprof.flush())
        began = time.monotonic()
        agentprof.uninstrument()
        stats = agentprof.stats()
        print(json.dumps({
            "quick": time.monotonic() - began < 2, "kept": kept, "spooled": stats.spooled, "lost": stats.dropped
        }))
        """
    )
    assert found == {"quick": True, "kept": [True] * 3, "spooled": 3, "lost": 0, "stderr": ""}


def test_a_stream_left_at_the_end_of_the_program() -> None:
    """Its call is sent too: the program may simply stop in the middle of an answer."""
    found = run(
        """
        import atexit, json
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        import threading
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
        import agentprof, openai

        class Show(SpanExporter):
            def export(self, spans):
                print(json.dumps({span.name: span.attributes["agentprof.stream.end"] for span in spans}))
                return SpanExportResult.SUCCESS

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args): pass
            def do_POST(self):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\\n\\n')
                self.wfile.flush()
                threading.Event().wait(30)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agentprof.instrument(exporter=Show())
        client = openai.OpenAI(api_key="x", base_url=f"http://127.0.0.1:{server.server_address[1]}/v1")
        stream = client.chat.completions.create(model="m", messages=[], stream=True)
        next(stream)
        """
    )
    assert found == {"chat m": "abandoned", "stderr": ""}


def test_the_applications_provider_is_joined() -> None:
    """Spans go where the application sends them, once; its own spans in a task get the id."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agentprof.instrument(tracer_provider=provider)
    try:
        with agentprof.task("t", id="x"), provider.get_tracer("theirs").start_as_current_span("theirs"):
            pass
        with provider.get_tracer("theirs").start_as_current_span("outside"):
            pass
    finally:
        agentprof.uninstrument()
    theirs, root, outside = exporter.get_finished_spans()
    assert (theirs.attributes or {})[attributes.TASK_ID] == "x"
    assert (root.attributes or {})[attributes.TASK_SPANS] == 1
    assert not outside.attributes


APPLICATION = """
    import json, threading
    from opentelemetry import trace
    from opentelemetry.trace import set_tracer_provider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    import agentprof
    from agentprof import _settings
    _settings.DEFAULT_ENDPOINT = "http://127.0.0.1:9/v1/traces"

    mine, asked = InMemorySpanExporter(), InMemorySpanExporter()
    def set_up():
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(mine))
        set_tracer_provider(provider)
    tracer = trace.get_tracer("application")
    def names(exporter):
        return [span.name for span in exporter.get_finished_spans()]
    """


@pytest.mark.parametrize("order", ["agentprof.instrument(); set_up()", "set_up(); agentprof.instrument()"])
def test_the_application_sets_its_provider(order: str) -> None:
    """Before or after us: its spans and ours go where it sends them, none of ours anywhere else."""
    found = run(
        APPLICATION
        + f"""
    {order}
    with tracer.start_as_current_span("outside"):
        with agentprof.task("t", id="x") as task, tracer.start_as_current_span("theirs"):
            with agentprof.tool("search"):
                pass
    agentprof.flush()
    ids = [span.attributes.get("agentprof.task.id") for span in mine.get_finished_spans()]
    stats = agentprof.stats()
    summary = task.summary()
    print(json.dumps({{
        "names": names(mine), "ids": ids, "elsewhere": stats.sent + stats.spooled + stats.waiting,
        "nodes": [row.path for row in summary.nodes], "complete": summary.complete,
        "failures": stats.failures,
    }}))
    """
    )
    assert found == {
        "names": ["execute_tool search", "theirs", "t", "outside"],
        "ids": ["x", "x", "x", None],
        "elsewhere": 0,
        "nodes": [["t"], ["t", "search"]],
        "complete": True,
        "failures": {},
        "stderr": "",
    }


def test_spans_before_the_application_sets_its_provider() -> None:
    """They go to the collector that would be looked for; a task open then ends there too."""
    found = run(
        APPLICATION
        + """
    agentprof.instrument()
    with agentprof.task("before"):
        set_up()
        with agentprof.tool("search"):
            pass
    with agentprof.task("after"):
        pass
    agentprof.flush()
    print(json.dumps({"mine": names(mine), "spooled": agentprof.stats().spooled}))
    """
    )
    assert found == {"mine": ["execute_tool search", "after"], "spooled": 1, "stderr": ""}


def test_our_own_export_goes_along() -> None:
    """An exporter given to us gets all spans, the application's among them, and each once, from any thread."""
    found = run(
        APPLICATION
        + """
    agentprof.instrument(exporter=asked)
    set_up()
    start = threading.Barrier(8)
    def work():
        start.wait()
        with agentprof.task("t"):
            pass
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    with tracer.start_as_current_span("theirs"):
        pass
    agentprof.flush()
    print(json.dumps({"mine": names(mine).count("theirs"), "asked": sorted(names(asked))}))
    """
    )
    assert found == {"mine": 1, "asked": ["t"] * 8 + ["theirs"], "stderr": ""}


def test_no_global_provider_is_claimed() -> None:
    """A program that sets none has none: spans of others are not recorded, and none of it is undone."""
    found = run(
        APPLICATION
        + """
    agentprof.instrument(exporter=asked)
    with agentprof.task("t"), tracer.start_as_current_span("theirs"):
        pass
    agentprof.uninstrument()
    kind = type(trace.get_tracer_provider()).__name__
    print(json.dumps({"provider": kind, "asked": names(asked)}))
    """
    )
    assert found == {"provider": "ProxyTracerProvider", "asked": ["t"], "stderr": ""}


def test_a_provider_without_an_exporter() -> None:
    """Spans of others are part of tasks once there is a global provider; our export is added to it."""
    found = run(
        APPLICATION
        + """
    set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    agentprof.instrument(exporter=asked)
    with agentprof.task("t", id="x"), tracer.start_as_current_span("theirs"):
        pass
    agentprof.flush()
    ids = [span.attributes.get("agentprof.task.id") for span in asked.get_finished_spans()]
    print(json.dumps({"asked": names(asked), "ids": ids}))
    """
    )
    assert found == {"asked": ["theirs", "t"], "ids": ["x", "x"], "stderr": ""}


def test_a_provider_that_is_not_the_sdks() -> None:
    """It records nothing of ours, so our own goes on."""
    found = run(
        APPLICATION
        + """
    agentprof.instrument(exporter=asked)
    set_tracer_provider(trace.NoOpTracerProvider())
    with agentprof.task("t"):
        pass
    agentprof.flush()
    print(json.dumps({"asked": names(asked)}))
    """
    )
    assert found == {"asked": ["t"], "stderr": ""}


def test_an_exporter_of_ones_own() -> None:
    """`exporter=` gets every span, also beside an application's own export; it is not shut down by the undo."""
    mine, theirs = InMemorySpanExporter(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(theirs))
    for _ in range(2):
        agentprof.instrument(tracer_provider=provider, exporter=mine)
        with agentprof.task("t"):
            pass
        assert agentprof.flush()
        agentprof.uninstrument()
    assert [span.name for span in mine.get_finished_spans()] == ["t", "t"]
    assert [span.name for span in theirs.get_finished_spans()] == ["t", "t"]


def test_wrong_arguments_do_not_reach_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """`instrument()` logs what went wrong and returns."""
    before = _guard.counts().get("instrument()", 0)
    agentprof.instrument(propagate_to=[3])  # type: ignore[list-item]
    agentprof.uninstrument()
    assert _guard.counts()["instrument()"] == before + 1


def test_the_entry_point() -> None:
    """`opentelemetry-instrument` finds a class that switches on and off."""
    (entry,) = entry_points(group="opentelemetry_instrumentor", name="agentprof")
    assert entry.load() is AgentprofInstrumentor
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = AgentprofInstrumentor()
    instrumentor.instrument(skip_dep_check=True, tracer_provider=provider)
    with agentprof.task("t"):
        pass
    instrumentor.uninstrument()
    with agentprof.task("after"):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["t"]
    assert list(instrumentor.instrumentation_dependencies()) == []
