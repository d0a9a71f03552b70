"""How long pricing one call takes, beside genai-prices' own calculation: python benchmarks/pricing.py

Prints, in microseconds of one thread: the import of the table with the first price, a price of a model seen
before, a price of a model seen for the first time, `genai_prices.calc_price` for the same calls, and the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from agentprof.model import Call, Span, Usage
from agentprof.pricing import Pricer

ROUNDS = 5
START_NS = 1_795_000_000 * 10**9
USAGE = Usage(input=12_345, output=678, cache_read=9_000, cache_write=1_000, cache_write_1h=300, reasoning=99)
MODELS = (
    ("openai", "gpt-4o-mini-2024-07-18"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("google", "gemini-2.5-pro"),
    ("aws", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
    ("deepseek", "deepseek-chat"),
)


def a_span(provider: str, model: str) -> Span:
    return Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        start_ns=START_NS,
        kind="model",
        call=Call(model=model, provider=provider, usage=USAGE),
    )


def best_us(work: Callable[[], None], calls: int) -> float:
    """Microseconds a call in the fastest of the rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - started)
    return min(times) / calls / 1000


def main() -> None:
    pricer = Pricer()
    spans = [a_span(*model) for model in MODELS]
    started = time.perf_counter_ns()
    pricer.price(spans[0])
    print(f"first price, with the import  {(time.perf_counter_ns() - started) / 1000:12.1f} us")

    import genai_prices  # Late, so that the line above contains its import.

    moment = datetime.fromtimestamp(START_NS // 10**9, UTC)
    usage = genai_prices.Usage(
        input_tokens=USAGE.input,
        output_tokens=USAGE.output,
        cache_read_tokens=USAGE.cache_read,
        cache_write_tokens=USAGE.cache_write,
        cache_write_1h_tokens=USAGE.cache_write_1h,
        output_reasoning_tokens=USAGE.reasoning,
    )

    def ours() -> None:
        for _ in range(2000):
            for span in spans:
                pricer.price(span)

    def first_seen() -> None:
        fresh = Pricer()
        for span in spans:
            fresh.price(span)

    def theirs() -> None:
        for _ in range(100):
            for provider, model in MODELS:
                genai_prices.calc_price(usage, model, provider_id=provider, genai_request_timestamp=moment)

    known = best_us(ours, 2000 * len(MODELS))
    new = best_us(first_seen, len(MODELS))
    calculated = best_us(theirs, 100 * len(MODELS))
    print(f"price, model seen before      {known:12.1f} us")
    print(f"price, model seen first       {new:12.1f} us")
    print(f"genai_prices.calc_price       {calculated:12.1f} us")
    print(f"ratio                         {calculated / known:12.1f}")


if __name__ == "__main__":
    main()
