"""How far `estimate_usage` is off on real traffic: python benchmarks/estimates.py FOLDER

FOLDER holds recordings of model APIs: `recordings/NAME.json` and `truth.jsonl`. Every recorded answer that has
usage is read as if it had none; the estimate is compared with what the provider reported. Prints, by API, for
input and output: how many could be estimated, the median and the 90th percentile of the relative error, and all
estimated tokens as a share of all reported ones.
"""

from __future__ import annotations

import base64
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentprof._arrivals import Arrivals
from agentprof._asked import say_request
from agentprof._estimate import counting, estimated
from agentprof.dialects import Answer, dialect_of
from agentprof.model import Usage

APIS = (
    "openai.chat",
    "openai.responses",
    "openai.completions",
    "openai.embeddings",
    "anthropic.messages",
    "gemini.generate",
    "bedrock.converse",
    "cohere.chat",
    "ollama.chat",
    "ollama.generate",
)


class Compared(NamedTuple):
    """A recorded call."""

    group: str
    reported: Usage
    estimate: Usage | None


def compared(folder: Path) -> Iterator[Compared]:
    """Every recorded call that reports its usage."""
    for line in (folder / "truth.jsonl").read_text(encoding="utf8").splitlines():
        truth = json.loads(line)
        if truth["api"] not in APIS or truth["status"] != 200:
            continue
        recording = json.loads((folder / "recordings" / f"{truth['name']}.json").read_text(encoding="utf8"))
        dialect = dialect_of(recording["path"])
        if dialect is None:
            continue
        request, response = recording["request"], recording["response"]
        sent = (
            request.get("body_text") or json.dumps(request.get("body_json", {}), ensure_ascii=False)
        ).encode()
        said: dict[str, Any] = {}
        say_request(said, sent, dialect, None)
        answer = Answer()
        got = base64.b64decode(response["body_b64"]) if response.get("body_b64") else _text(response)
        arrivals = Arrivals(counting(dialect, answer), answer, None, bool(truth["streaming"]))
        arrivals.chunk(got)
        arrivals.complete()
        if answer.usage is not None and answer.received is not None:
            estimate = estimated(dialect, sent, said, answer, answer.received)
            streamed = "streamed" if truth["streaming"] else "whole"
            yield Compared(f"{truth['api']}, {streamed}", answer.usage, estimate)


def _text(response: dict[str, Any]) -> bytes:
    body = response.get("body") or ""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def main() -> None:
    groups: dict[str, list[Compared]] = defaultdict(list)
    for call in compared(Path(sys.argv[1])):
        groups[call.group].append(call)
        groups["all"].append(call)
    print(f"{'':32} {'':8} {'calls':>6} {'estimated':>9} {'median':>7} {'p90':>7} {'sum':>7}")
    for group in sorted(groups, key=lambda name: (name == "all", name)):
        calls = groups[group]
        _line(group, "input", calls, "input")
        _line("", "output", calls, "output")
        _line("", "output*", [call for call in calls if not call.reported.reasoning], "output")
    print("* of calls that report no reasoning tokens")


def _line(group: str, label: str, calls: list[Compared], field: str) -> None:
    wanted = [call for call in calls if getattr(call.reported, field)]
    pairs = [
        (getattr(call.estimate, field), getattr(call.reported, field))
        for call in wanted
        if call.estimate is not None and getattr(call.estimate, field) is not None
    ]
    if not pairs:
        return
    errors = sorted(abs(estimate - reported) / reported for estimate, reported in pairs)
    share = sum(estimate for estimate, _ in pairs) / sum(reported for _, reported in pairs)
    p90 = errors[min(int(len(errors) * 0.9), len(errors) - 1)]
    print(
        f"{group:32} {label:8} {len(wanted):6} {len(pairs):9} {statistics.median(errors):7.0%} {p90:7.0%} {share:7.0%}"
    )


if __name__ == "__main__":
    main()
