"""How many requests run, from the figures of engines as they show them, and from a server that breaks."""

from __future__ import annotations

from contextlib import closing

import pytest
from support.model_server import ModelServer, Reply

from agentprof_collector.energy.running import GAUGES, Load, RunningRequests, load_in
from agentprof_collector.errors import AgentprofError

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 3.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 7.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 1.23e+06
vllm:generation_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 4000.0
vllm:generation_tokens_total{engine="1",model_name="Qwen/Qwen3-8B"} 5.0
"""
SGLANG = (
    'sglang:num_running_reqs{model_name="m",tp_rank="0"} 4.0\nsglang:num_queue_reqs{model_name="m"} 9.0\n'
)
TGI = "tgi_queue_size 7\ntgi_batch_current_size 4\n"
LLAMA = "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 5\n"


@pytest.mark.parametrize(
    ("text", "load"),
    [
        (VLLM, Load(5, 1_234_005)),
        (VLLM.replace("prompt_tokens_total", "other"), Load(5)),
        (SGLANG, Load(4)),
        (TGI, Load(4)),
        (LLAMA, Load(1)),
        ("", None),
    ],
)
def test_the_figures_of_each_engine(text: str, load: Load | None) -> None:
    """Requests that run, not those that wait; workers add up; tokens where they are counted step by step."""
    assert load_in(text, GAUGES) == load


@pytest.mark.parametrize("value", ["NaN", "-1", "x", "1e300", ""])
def test_what_is_no_number_of_requests(value: str) -> None:
    """Unknown, not 0."""
    assert load_in(f"tgi_batch_current_size {value}\n", GAUGES) is None


def test_a_server_with_and_without_figures() -> None:
    """Asked again and again on one connection; what is wrong is said with what to do."""
    with ModelServer() as server:
        url = server.url.removesuffix("/v1") + "/metrics"
        server.replies = [
            Reply(VLLM.encode()),
            Reply(b"nothing of use"),
            Reply(b"", 503),
            Reply(LLAMA.encode()),
        ]
        load = RunningRequests(url)
        assert load.read() == Load(5, 1_234_005)
        with pytest.raises(AgentprofError, match="SGLang needs --enable-metrics, llama"):
            load.read()
        with pytest.raises(AgentprofError, match="status 503"):
            load.read()
        assert load.read() == Load(1)
        server.replies = [Reply(b"my_gauge 6\n")]
        with closing(RunningRequests(url, "my_gauge")) as named:
            assert named.read() == Load(6)
        load.close()
    with pytest.raises(AgentprofError, match="no answer"):
        load.read()


@pytest.mark.parametrize("url", ["gpu1:8000", "ftp://x/metrics", "http://[::1", "http://x:port/"])
def test_what_is_no_address(url: str) -> None:
    """Said before anything is measured."""
    with pytest.raises(AgentprofError, match="--metrics"):
        RunningRequests(url)
