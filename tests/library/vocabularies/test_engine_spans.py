"""Spans of engines, as they send them, become phases of the call they served: each engine computed by hand."""

from __future__ import annotations

import pytest
from support.engine_spans import MS, claude, client, in_ms, inside, sglang, tensorrt_llm, the_call, vllm

from agentprof.model import RawSpan
from agentprof.rollup import roll_up, tasks_in
from agentprof.vocabularies import normalise


def test_vllm_less_the_prefill_the_first_token_is_the_whole_wait() -> None:
    """The queue is derived where the engine's own figure is a part of it; what is left is the way there and back."""
    row = the_call(client(), vllm("call"))
    assert in_ms(row) == {
        "network": (12, "derived"),
        "queue": (50, "derived"),
        "prefill": (150, "joined"),
        "generation": (1_278, "observed"),
    }
    assert row.engine == "vllm"
    assert row.phase_fields == {
        "queue": "gen_ai.latency.time_to_first_token - prefill",
        "prefill": "gen_ai.latency.time_in_model_prefill",
    }, "a generation that the client saw was read from no field"


def test_vllm_without_its_first_token_has_a_queue_that_starts_late() -> None:
    """What is left before the first token was queueing too."""
    row = the_call(client(), vllm("call", **{"gen_ai.latency.time_to_first_token": None}))
    assert in_ms(row)["queue"] == (62, "derived")
    assert "network" not in row.phases_ns


def test_vllm_version_0_counts_its_queue_from_arrival() -> None:
    """It reports no prefill, which is the first token less the queue."""
    gone = {f"gen_ai.latency.time_in_model_{name}": None for name in ("prefill", "decode", "inference")}
    row = the_call(client(), vllm("call", **gone, **{"gen_ai.latency.time_in_queue": 0.05}))
    assert in_ms(row) == {
        "network": (12, "derived"),
        "queue": (50, "joined"),
        "prefill": (150, "derived"),
        "generation": (1_278, "derived"),
    }


def test_sglang_stages_are_the_truth_and_not_the_root() -> None:
    """The root's `time_in_model_prefill` contains the queue; the slices tell them apart."""
    row = the_call(client(first_token=216), *sglang("call"))
    assert in_ms(row) == {
        "network": (16, "derived"),
        "queue": (50, "joined"),
        "prefill": (150, "joined"),
        "generation": (1_274, "observed"),
    }
    assert row.engine == "sglang"
    assert (row.phase_fields["queue"], row.phase_fields["prefill"]) == ("prefill_waiting", "prefill_forward")


def test_sglang_time_in_no_stage_before_the_queue_is_queueing() -> None:
    """The scheduler takes requests in between its steps only: 400 ms nobody reports."""
    row = the_call(client(1_890, first_token=616), *sglang("call", unseen=400))
    assert in_ms(row)["queue"] == (450, "derived")
    assert in_ms(row)["network"] == (16, "derived")


def test_sglang_without_slices_gives_the_wait_undivided() -> None:
    """With them switched off the API server's view is all there is; its prefill is not believed."""
    row = the_call(client(first_token=216), *sglang("call", levels=0))
    assert "queue" not in row.phases_ns
    assert "prefill" not in row.phases_ns
    assert row.phases_ns["wait"] >= 208 * MS


def test_sglang_after_a_retraction_counts_the_first_token_only() -> None:
    """The second wait and prefill lie in what follows the first token."""
    again = [
        inside(name, begin, end, "tp0", kind=1, scope="sglang server", span_id=f"{name}2")
        for name, begin, end in (("prefill_waiting", 600, 700), ("prefill_forward", 700, 800))
    ]
    row = the_call(client(first_token=216), *sglang("call"), *again)
    assert [row.phases_ns[name] / MS for name in ("queue", "prefill", "generation")] == [50, 150, 1_274]


@pytest.mark.parametrize("last", ["prefill_forward", "prefill_chunked_forward"])
def test_sglang_chunks_one_after_the_other_are_one_prefill(last: str) -> None:
    """Also where they stand beside each other, and what others got between them is part of it."""
    spans = [span for span in sglang("call") if "chunk" not in span.name and span.name != "prefill_forward"]
    chunks = [("prefill_chunked_forward", 58, 90), ("prefill_chunked_forward", 100, 140), (last, 150, 208)]
    spans += [
        inside(name, begin, end, "tp0", kind=1, scope="sglang server", span_id=f"chunk{begin}")
        for name, begin, end in chunks
    ]
    row = the_call(client(first_token=216), *spans)
    assert [row.phases_ns[name] / MS for name in ("queue", "prefill", "generation")] == [50, 150, 1_274]


def test_sglang_with_prefill_and_decode_on_servers_of_their_own() -> None:
    """Prefill and decoding have roots and clocks of their own; that both find each other is waiting."""

    def part(root: str, name: str, begin: float, end: float) -> RawSpan:
        return inside(name, begin, end, root, kind=1, scope="sglang server", span_id=root + name)

    def root(role: str, begin: float, end: float) -> RawSpan:
        return inside(
            role, begin, end, "call", scope="sglang server", attributes={"module": "sglang::request"}
        )

    spans = [
        root("prefill", 0, 215),
        part("prefill", "tokenize", 0, 6),
        part("prefill", "prefill_bootstrap", 6, 8),
        part("prefill", "prefill_waiting", 8, 58),
        part("prefill", "prefill_forward", 58, 208),
        root("decode", 9_000, 10_478),
        part("decode", "decode_waiting", 9_200, 9_208),
        part("decode", "decode_forward", 9_208, 10_478),
    ]
    assert in_ms(the_call(client(1_486, None), *spans)) == {
        "network": (14, "derived"),
        "queue": (52, "derived"),
        "prefill": (150, "joined"),
        "generation": (1_270, "joined"),
    }


def test_tensorrt_llm_has_no_prefill_attribute() -> None:
    """Both figures count from arrival: what lies between is prefill."""
    assert in_ms(the_call(client(1_480, None), tensorrt_llm("call"))) == {
        "network": (10, "derived"),
        "queue": (50, "joined"),
        "prefill": (150, "derived"),
        "generation": (1_270, "derived"),
    }


def test_tensorrt_llm_writes_minus_one_for_what_it_did_not_measure() -> None:
    """Absent, and no fault."""
    found = normalise(tensorrt_llm("call", **{"gen_ai.latency.time_in_queue": -1}))
    assert found.call is not None
    assert {name: phase.ns / MS for name, phase in found.call.phases.items()} == {
        "wait": 200,
        "generation": 1_270,
    }
    assert found.call.timing_faults == ()


def test_tgi_writes_durations_as_text() -> None:
    """Inference is prefill and decode together; the stages below own no time and are no calls."""
    times = {
        "total_time": "1.478s",
        "validation_time": "8ms",
        "queue_time": "50ms",
        "inference_time": "1.42s",
    }
    spans = [
        inside("POST /generate", 0, 1_480, "call", kind=2, attributes={"http.request.method": "POST"}),
        inside("generate", 0, 1_478, "POST /generate", kind=1, attributes={**times, "seed": "None"}),
        inside("queued", 8, 58, "generate", kind=1),
        inside("infer", 58, 1_478, "generate", kind=1),
    ]
    row = the_call(client(), *spans)
    assert in_ms(row)["queue"] == (50, "joined")
    assert in_ms(row)["generation"] == (1_278, "observed")
    assert in_ms(the_call(client(first_token=None), *spans)) == {
        "network": (12, "derived"),
        "queue": (50, "joined"),
        "model": (1_428, "derived"),
    }


@pytest.mark.parametrize(
    ("text", "ns"),
    [("12.3ms", 12_300_000), ("1.48s", 1_480_000_000), ("130.5µs", 130_500), ("0ns", 0)],
)
def test_durations_as_rust_prints_them(text: str, ns: int) -> None:
    """All its units."""
    times = dict.fromkeys(("total_time", "validation_time", "inference_time"), "1s")
    evidence = normalise(inside("generate", 0, 1, None, attributes={**times, "queue_time": text})).evidence
    assert evidence is not None
    assert evidence.phases["queue"].ns == ns


def test_triton_waits_from_the_start_of_a_request_to_the_start_of_its_computing() -> None:
    """The spans begin with the events REQUEST_START and COMPUTE_START; what computes is not divided."""
    spans = [
        inside("InferRequest", 0, 1_479, "call", kind=2, scope="triton-server"),
        inside(
            "ensemble_model",
            8,
            1_478,
            "InferRequest",
            kind=2,
            scope="triton-server",
            attributes={"triton.model_name": "llama", "triton.model_version": 1},
        ),
        inside("compute", 58, 1_478, "ensemble_model", kind=2, scope="triton-server"),
    ]
    row = the_call(client(), *spans)
    assert in_ms(row)["queue"] == (50, "derived")
    assert in_ms(the_call(client(first_token=None), *spans)) == {
        "network": (20, "derived"),
        "queue": (50, "derived"),
        "model": (1_420, "derived"),
    }


def test_a_router_in_front_of_an_engine_is_no_call() -> None:
    """Dynamo's routing span and what it stands on, with the engine behind it in the same trace."""
    routed = {"request_id": "1", "worker_id": 7, "dp_rank": 0, "overlap_blocks": 3, "phase": "Aggregated"}
    spans = [
        inside("http-request", 0, 1_482, "call", kind=2, attributes={"http.request.method": "POST"}),
        inside("kv_router.route_request", 1, 3, "http-request", kind=3, attributes=routed),
        vllm("http-request"),
    ]
    row = the_call(client(), *spans)
    assert in_ms(row)["prefill"] == (150, "joined")
    assert in_ms(row)["queue"] == (50, "derived")


def test_claude_platform_what_the_client_waited_longer_is_network() -> None:
    """Its spans of model runs and server tools are part of its own, and nothing is counted twice."""
    used = {"gen_ai.usage.input_tokens": 300, "gen_ai.usage.output_tokens": 128}
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "claude", **used}
    spans = [
        claude("anthropic.messages.create", 0, 1_450, "call", **named),
        claude("model run", 10, 700, "anthropic.messages.create", **named),
        claude(
            "web_search",
            700,
            900,
            "anthropic.messages.create",
            **{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "web_search"},
        ),
    ]
    row = the_call(client(1_490, first_token=300, **used), *spans)
    assert in_ms(row) == {
        "network": (40, "derived"),
        "wait": (260, "observed"),
        "generation": (1_190, "observed"),
    }
    assert (row.tokens["input"], row.tokens["output"]) == (300, 128)
    read = [normalise(span) for span in (client(1_490, first_token=300, **used), *spans)]
    ((task_id, own),) = tasks_in(read).items()
    summary = roll_up(task_id, own)
    assert (summary.calls, summary.tools) == (1, {})


def test_claude_platform_without_a_name_of_what_it_does() -> None:
    """How long it had the request is all that is asked of it."""
    spans = [
        claude("anthropic.messages.create", 0, 1_450, "call"),
        claude("model run", 10, 700, "anthropic.messages.create"),
    ]
    assert in_ms(the_call(client(1_490, first_token=None), *spans)) == {
        "network": (40, "derived"),
        "model": (1_450, "observed"),
    }
