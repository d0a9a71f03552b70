"""What latency and how many calls a second does an endpoint give under load? 32 calls on 8 threads, after a first.

    OPENAI_BASE_URL=http://localhost:8000/v1 OPENAI_API_KEY=none python examples/latency_throughput.py

A script as people write it to measure an endpoint; it knows nothing of agentprof. `agentprof run -- python
examples/latency_throughput.py` says the same, and what it cost and where the time went.
"""

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI

CALLS, THREADS = 32, 8

complete = OpenAI().chat.completions.create
model = os.environ.get("MODEL", "gpt-4o-mini")


def ask(number: int) -> float:
    """One call; how long it took, in seconds."""
    start = time.perf_counter()
    complete(model=model, messages=[{"role": "user", "content": f"What is {number}?"}])
    return time.perf_counter() - start


ask(CALLS)  # the first call of a process sets up much that later ones do not
start = time.perf_counter()
with ThreadPoolExecutor(THREADS) as pool:
    latencies = list(pool.map(ask, range(CALLS)))
wall = time.perf_counter() - start

print(f"calls         {CALLS} on {THREADS} threads")
print(f"mean latency  {statistics.mean(latencies):.4f} s")
print(f"p50 latency   {statistics.median(latencies):.4f} s")
print(f"wall          {wall:.4f} s")
print(f"QPS           {CALLS / wall:.2f}")
