"""Records requests to a running llama.cpp server for black_box.py: python benchmarks/record_requests.py URL SLOTS FILE

URL is of the server (`http://127.0.0.1:8090`), SLOTS the number it was started with. Sends seeded prompts of 50
to 1,500 words, streamed, 15 each at 1, 2, 4 and 8 at a time, and writes one JSON line a request: the client's
stamps beside the server's `timings`, in the form of `llama_cpp_requests.jsonl`.
"""

from __future__ import annotations

import http.client
import json
import math
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CONCURRENCIES = (1, 2, 4, 8)
EACH = 15
SHORTEST, LONGEST = 50, 1_500
PATIENCE_S = 1_800
WORDS = ("river", "stone", "light", "window", "paper", "winter", "garden", "engine", "music", "travel")


def prompt(dice: random.Random) -> str:
    """Random words, their number uniform on a logarithmic scale; no two prompts begin alike."""
    number = round(math.exp(dice.uniform(math.log(SHORTEST), math.log(LONGEST))))
    return " ".join(dice.choice(WORDS) for _ in range(number))


def ask(url: str, text: str, max_tokens: int) -> dict[str, Any]:
    """One streamed request."""
    target = urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=PATIENCE_S)
    body = {
        "messages": [{"role": "user", "content": text}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": max_tokens,
    }
    connection.connect()
    found: dict[str, Any] = {"t_send": time.time()}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    found["t_headers"] = time.time()
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if any(choice["delta"].get("content") for choice in event.get("choices", ())):
            found["t_last_content"] = time.time()
            found.setdefault("t_first_content", found["t_last_content"])
        for name in ("usage", "timings"):
            if event.get(name):
                found[name] = event[name]
    found["t_done"] = time.time()
    connection.close()
    return found


def main() -> None:
    url, slots, file = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    dice = random.Random(1)
    with file.open("w", encoding="utf8") as out:
        for number in CONCURRENCIES:
            asked = [(prompt(dice), dice.randrange(8, 40)) for _ in range(EACH)]
            with ThreadPoolExecutor(number) as pool:
                found = list(pool.map(lambda one: ask(url, *one), asked))
            for at, request in enumerate(found):
                out.write(json.dumps({"i": at, "slots": slots, "conc": number, **request}) + "\n")
            out.flush()
            print(f"{number} at a time: {EACH} requests", file=sys.stderr)


if __name__ == "__main__":
    main()
