"""How fast does a model answer? Streams one chat completion over plain HTTP and prints what it measured.

    OPENAI_BASE_URL=http://localhost:8000/v1 python examples/raw_stream.py

A script as people write it to measure an endpoint; it knows nothing of agentprof. `agentprof run -- python
examples/raw_stream.py` says the same, and what it cost and where the time went.
"""

import json
import os
import time

try:
    import httpx
except ModuleNotFoundError:
    import httpx2 as httpx

url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
headers = {"authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
body = {
    "model": os.environ.get("MODEL", "gpt-4o"),
    "messages": [{"role": "user", "content": "Count from 1 to 5."}],
    "max_completion_tokens": 100,
    "stream": True,
    "stream_options": {"include_usage": True},
}

client = httpx.Client(timeout=60)
first = last = None
usage = {}
start = time.perf_counter()
with client.stream("POST", url, json=body, headers=headers) as response:
    response.raise_for_status()
    for line in response.iter_lines():
        if line == "data: [DONE]":
            break
        if not line.startswith("data: "):
            continue
        event = json.loads(line[len("data: ") :])
        usage = event.get("usage") or usage
        if event["choices"] and event["choices"][0]["delta"].get("content"):
            last = time.perf_counter()
            first = first or last
    end = time.perf_counter()

if first is None:
    raise SystemExit("no token came")
print(f"first token  {first - start:.4f} s")
print(f"generation   {last - first:.4f} s")
print(f"latency      {end - start:.4f} s")
print(f"tokens       {usage.get('prompt_tokens')} in, {usage.get('completion_tokens')} out")
if last > first and usage:
    print(f"tokens/s     {usage['completion_tokens'] / (last - first):.2f}")
