"""A program with one task of every kind of work, for tests of what becomes of its spans elsewhere.

    python profiled_agent.py MODEL_SERVER_URL OTLP_ENDPOINT

`REPLIES` is what the model server must answer it, in order. Prints the summary of the task as JSON when its spans
are sent.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from support.model_server import CHAT, Reply

TIMED = CHAT | {
    "id": "chatcmpl-timed",
    "timings": {"prompt_n": 100, "prompt_ms": 3.0, "predicted_n": 6, "predicted_ms": 5.0},
}


def replies() -> list[Reply]:
    """A refusal and its repetition, a stream, and an answer with the times of its server."""
    return [
        Reply.json({"error": {"message": "slow down"}}, 429, retry_after_ms="20"),
        replace(Reply.json(CHAT), wait_s=0.02),
        Reply.stream(wait_s=0.02),
        replace(Reply.json(TIMED), wait_s=0.03),
    ]


def main(model_url: str, endpoint: str) -> None:
    """Run the task and send its spans."""
    import openai

    import agentprof

    agentprof.instrument(service_name="profiled-agent", endpoint=endpoint)
    client = openai.OpenAI(base_url=model_url, api_key="k", max_retries=2)
    messages = [{"role": "user", "content": "hi"}]
    ask = {"model": "gpt-4o-mini", "messages": messages}
    with agentprof.task("whole", labels={"customer": "acme"}) as task:
        client.chat.completions.create(**ask)
        with agentprof.step("look up"), agentprof.tool("search", cost_usd="0.001"):
            pass
        with agentprof.task("part"):
            for _ in client.chat.completions.create(
                **ask, stream=True, stream_options={"include_usage": True}
            ):
                pass
        client.chat.completions.create(**ask)
        task.outcome("success", score=0.5)
    agentprof.flush()
    print(json.dumps(task.summary().to_dict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
