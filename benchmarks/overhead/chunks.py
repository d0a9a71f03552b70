"""CPU time that agentprof adds to a chunk of a stream, the end of the stream included.

    python chunks.py --rounds 40

A stream of chat chunks is read with httpx over an in-process transport, in turns with and without
instrumentation; given are the median of the differences a chunk and its standard error. Needs httpx or httpx2 and
agentprof in the environment it runs in.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

import agentprof

CHUNKS = 2000
EVENT = (
    'data: {{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini",'
    '"choices":[{{"index":0,"delta":{{"content":"tok{number} "}},"logprobs":null,"finish_reason":{finish}}}]'
    "{more}}}\n\n"
)
PADDING = ',"obfuscation":"{}"'


def events(padded: bool) -> list[bytes]:
    """A stream as OpenAI sends it, with padding of changing length if it is asked to hide lengths."""
    found = []
    for number in range(CHUNKS):
        more = PADDING.format("x" * (number % 7)) if padded else ""
        found.append(EVENT.format(number=number, finish="null", more=more).encode())
    last = EVENT.format(number=CHUNKS, finish='"stop"', more="").encode()
    return [*found, last, b"data: [DONE]\n\n"]


def cpu_us(library: Any, sent: list[bytes]) -> float:
    """CPU time of reading the stream once, a chunk."""

    class Body(library.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(sent)

    def answer(request: Any) -> Any:
        return library.Response(200, headers={"content-type": "text/event-stream"}, stream=Body())

    asked = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "x"}], "stream": True}
    with library.Client(transport=library.MockTransport(answer)) as client:
        began = time.process_time_ns()
        with client.stream("POST", "http://bench.invalid/v1/chat/completions", json=asked) as response:
            for _ in response.iter_raw():
                pass
        return (time.process_time_ns() - began) / 1000 / len(sent)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    try:
        library = importlib.import_module("httpx2")
    except ModuleNotFoundError:
        library = importlib.import_module("httpx")
    provider = TracerProvider()
    for name, padded in (("plain", False), ("padded", True)):
        sent, more = events(padded), []
        for number in range(-2, rounds):  # the first ones warm up
            without = cpu_us(library, sent)
            agentprof.instrument(tracer_provider=provider)
            with_it = cpu_us(library, sent)
            agentprof.uninstrument()
            if number >= 0:
                more.append(with_it - without)
        middle = median(more)
        spread = 1.4826 * median(abs(value - middle) for value in more)
        print(f"{name}: {middle:.2f} µs a chunk, standard error {1.2533 * spread / rounds**0.5:.2f}")


if __name__ == "__main__":
    main()
