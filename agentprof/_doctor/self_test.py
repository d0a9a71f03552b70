"""One call of an SDK to an endpoint on this machine, plain and instrumented: `python -m` this, with its name.

Runs in a process of its own, so that nothing it imports or patches is left behind. Prints one line of JSON.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from agentprof import attributes
from agentprof._doctor.callers import CALLERS, INPUT_TOKENS, OUTPUT_TOKENS, answer_at
from agentprof._instrument import instrumented_modules
from agentprof.testing import capture

_REPEATS: Final = 20
_CHANGING: Final = frozenset(
    {"traceparent", "x-stainless-retry-count", "amz-sdk-invocation-id", "authorization", "x-amz-date"}
)
"""Headers that are new in each request; those of AWS sign it with its time."""


class Finding(msgspec.Struct, omit_defaults=True):
    """What the self-test of one SDK found."""

    sdk: str
    error: str | None = None
    """Where a call raised: the name of the exception."""
    same_result: bool = False
    """Type and value of what the program got."""
    same_request: bool = False
    """Bytes and headers that went out."""
    recorded: bool = False
    """One span, with the tokens of the answer."""
    undone: bool = False
    """Afterwards nothing is patched any more."""
    plain_s: float = 0.0
    """The fastest of a few calls."""
    instrumented_s: float = 0.0
    modules: list[str] = []
    """What was instrumented."""

    @property
    def well(self) -> bool:
        """Whether everything is as it should be."""
        return self.error is None and self.same_result and self.same_request and self.recorded and self.undone


class _Endpoint:
    """Answers every POST in the way of its path and keeps what came."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, str], bytes]] = []
        sent = self.sent

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                sent.append((self.path, headers, body))
                answer = answer_at(self.path.partition("?")[0])
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def last(self) -> tuple[str, dict[str, str], bytes]:
        """The latest request, without what is new in each."""
        path, headers, body = self.sent[-1]
        return path, {name: value for name, value in headers.items() if name not in _CHANGING}, body

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def run(sdk: str) -> Finding:
    """Make calls of an SDK that is installed, plain and instrumented, and compare."""
    found = Finding(sdk)
    endpoint = _Endpoint()
    try:
        call = CALLERS[sdk](endpoint.url)
        before = call()
        plain = endpoint.last()
        found.plain_s = _fastest(call)
        with capture(propagate_to=()) as captured:
            after = call()
            instrumented = endpoint.last()
            spans = list(captured.spans)
            found.modules = instrumented_modules()
            found.instrumented_s = _fastest(call)
        found.same_result = type(after) is type(before) and after == before
        found.same_request = instrumented == plain
        said = [dict(span.attributes or {}) for span in spans]
        found.recorded = [
            (one.get(attributes.INPUT_TOKENS), one.get(attributes.OUTPUT_TOKENS)) for one in said
        ] == [(INPUT_TOKENS, OUTPUT_TOKENS)]
        found.undone = instrumented_modules() == []
    except Exception as error:
        found.error = type(error).__name__
    finally:
        endpoint.close()
    return found


def _fastest(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    print(msgspec.json.encode(run(sys.argv[1])).decode())
