"""CPU time of `import agentprof; agentprof.instrument()` beyond importing the SDK of OpenTelemetry.

    python instrument.py --work DIR --rounds 40 [--python PYTHON]

Every measurement is a fresh process of the environment that `overhead.py setup` made for agentprof, in turn with
one that only imports what both need: `opentelemetry.trace`, and of the SDK `trace`, `trace.export` and `resources`.
Given are the median over the rounds of the difference of whole processes, with its standard error, and the median
of what the process itself measures around import and call. `own` exports to a collector that is looked for on this
machine (nothing is sent), `joined` finds a tracer provider of the application with a batch processor. `--python` names
the interpreter of another environment, one that has many SDKs, say.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from environments import python_of
from result_tables import markdown

BASE = """
import time, sys, json
import opentelemetry.trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
"""
PROVIDER = """
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(SpanExporter()))
"""
INSTRUMENT = """
before = set(sys.modules)
began = time.process_time_ns()
import agentprof
imported = time.process_time_ns()
agentprof.instrument({arguments})
done = time.process_time_ns()
sdks = {{"openai", "anthropic", "groq", "cerebras", "together", "google.genai", "mistralai", "cohere", "ollama",
        "boto3", "botocore", "litellm", "mcp", "httpx", "httpx2", "requests", "aiohttp", "urllib3"}} & set(sys.modules)
print(json.dumps({{"import": imported - began, "call": done - imported, "sdks": sorted(sdks),
                  "modules": len(set(sys.modules) - before)}}))
"""
END = "sys.stdout.flush(); import os; os._exit(0)\n"
CASES = {"own": ("", ""), "joined": (PROVIDER, "tracer_provider=provider")}
"""What precedes `instrument()`, and its arguments."""


def cpu_ms(python: Path, code: str, env: dict[str, str]) -> tuple[float, str]:
    """CPU time of a whole process, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(done.stderr)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime), done.stdout


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, help="folder of the environments")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument(
        "--python", type=Path, help="of an environment with agentprof, instead of that folder's"
    )
    args = parser.parse_args()
    if not args.python and not args.work:
        parser.error("--work or --python is needed")
    python = args.python or python_of(args.work.resolve(), "agentprof")
    rows = [
        [
            "CPU ms (median)",
            "difference of processes",
            "standard error",
            "import",
            "instrument()",
            "both",
            "modules",
            "SDKs loaded",
        ]
    ]
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "PYTHONHASHSEED": "0"}
        for name, (before, arguments) in CASES.items():
            base = BASE + before
            code = base + INSTRUMENT.format(arguments=arguments)
            differences, seen = [], []
            for number in range(-1, args.rounds):  # the first one only fills the caches
                without, _ = cpu_ms(python, base + END, env)
                with_it, printed = cpu_ms(python, code + END, env)
                if number >= 0:
                    differences.append(with_it - without)
                    seen.append(json.loads(printed))
            middle = median(differences)
            spread = 1.4826 * median(abs(value - middle) for value in differences)
            rows.append(
                [
                    name,
                    f"{middle:.1f}",
                    f"{1.2533 * spread / len(differences) ** 0.5:.1f}",
                    f"{median(one['import'] for one in seen) / 1e6:.1f}",
                    f"{median(one['call'] for one in seen) / 1e6:.1f}",
                    f"{median(one['import'] + one['call'] for one in seen) / 1e6:.1f}",
                    str(seen[-1]["modules"]),
                    ", ".join(seen[-1]["sdks"]) or "none",
                ]
            )
    print(markdown(rows))


if __name__ == "__main__":
    main()
