"""Spans of engines, as they send them, become phases of the call they served: each engine computed by hand.

The request of every engine: 8 ms of work before the queue, 50 ms in it, 150 ms of prefill, 1,270 ms of decoding.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agentprof import attributes as a
from agentprof.model import RawSpan, Span
from agentprof.rollup import plain_tree, roll_up, tasks_in
from agentprof.rollup.calls import CallRow, call_rows
from agentprof.vocabularies import normalise

MS = 1_000_000
START = 1_790_000_000_000 * MS
TRACE = "a" * 32
SKEW = 3_600_000
"""ms by which the engine's clock is ahead of the client's: none is shared."""


def sent(name: str, begin: float, end: float | None, parent: str | None, **fields: Any) -> RawSpan:
    """A span from and to these ms; its id is its name unless `span_id` says otherwise."""
    return RawSpan(
        **{"trace_id": TRACE, "span_id": name, **fields},
        parent_id=parent,
        name=name,
        start_ns=START + round(begin * MS),
        end_ns=None if end is None else START + round(end * MS),
    )


def inside(name: str, begin: float, end: float, parent: str | None, **fields: Any) -> RawSpan:
    """The same by the engine's clock."""
    return sent(name, SKEW + begin, SKEW + end, parent, **fields)


def client(
    duration: float = 1_490, first_token: float | None = 212, parent: str | None = None, **more: Any
) -> RawSpan:
    """A call as agentprof writes it."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", a.ATTEMPTS: 1, **more}
    if first_token is not None:
        attributes[a.FIRST_TOKEN] = first_token / 1000
    return sent("call", 0, duration, parent, kind=3, scope="agentprof", attributes=attributes)


def rows(*spans: RawSpan) -> list[CallRow]:
    """The calls of the only task, whose time its summary conserves."""
    read = [normalise(span) for span in spans]
    ((task_id, own),) = tasks_in(read).items()
    summary = roll_up(task_id, own)
    assert sum(summary.timeline_ns.values()) == summary.wall_ns
    return call_rows(task_id, own)


def the_call(*spans: RawSpan) -> CallRow:
    """The only call."""
    (row,) = rows(*spans)
    assert sum(row.phases_ns.values()) == row.duration_ns
    return row


def in_ms(row: CallRow) -> dict[str, tuple[float, str]]:
    """The phases of a call with their sources."""
    return {name: (ns / MS, row.phase_sources[name]) for name, ns in row.phases_ns.items()}


def vllm(parent: str | None, **changed: Any) -> RawSpan:
    """`llm_request` of vLLM 0.33, which misses 8 of 50 ms of queueing in `time_in_queue`."""
    attributes = {
        "gen_ai.latency.time_in_queue": 0.042,
        "gen_ai.latency.time_in_model_prefill": 0.150,
        "gen_ai.latency.time_in_model_decode": 1.270,
        "gen_ai.latency.time_in_model_inference": 1.420,
        "gen_ai.latency.time_to_first_token": 0.200,
        "gen_ai.latency.e2e": 1.478,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.usage.completion_tokens": 128,
        "gen_ai.request.id": "chatcmpl-97a83321a8b7d1a3",
        **changed,
    }
    return inside("llm_request", 3, 1_481, parent, kind=2, scope="vllm.tracing.otel", attributes=attributes)


def sglang(parent: str | None, *, unseen: float = 0, levels: int = 3) -> list[RawSpan]:
    """A request of SGLang 0.5.23, with its threads and slices; `unseen` ms pass before the scheduler takes it in."""

    def part(name: str, begin: float, end: float, parent: str, **more: Any) -> RawSpan:
        return inside(name, begin, end, parent, kind=1, scope="sglang server", **more)

    latencies = {
        "gen_ai.latency.time_to_first_token": (208 + unseen) / 1000,
        "gen_ai.latency.time_in_model_prefill": (201 + unseen) / 1000,
        "gen_ai.latency.time_in_model_decode": 1.270,
        "gen_ai.latency.e2e": (1_478 + unseen) / 1000,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.usage.completion_tokens": 128,
    }
    root = inside(
        " Req 0f3a9c1d",
        0,
        1_478 + unseen,
        parent,
        scope="sglang server",
        kind=1,
        span_id="root",
        attributes={"rid": "0f3a9c1d" * 4, "module": "sglang::request", **latencies},
    )
    if levels == 0:
        return [root]
    late = unseen
    return [
        root,
        part("tokenizer (host:1 | pid:1)", 0, 7, "root", span_id="api", attributes={"pid": 1}),
        part("tokenize", 0, 5, "api"),
        part("api_server_dispatch", 5, 7, "api"),
        part("scheduler [TP 0] (host:1 | pid:2)", 7 + late, 1_478 + late, "root", span_id="tp0"),
        part("request_process", 7 + late, 8 + late, "tp0"),
        part("prefill_waiting", 8 + late, 58 + late, "tp0"),
        part("prefill_forward", 58 + late, 208 + late, "tp0"),
        part("chunked_prefill", 58 + late, 120 + late, "prefill_forward", span_id="chunk1"),
        part("chunked_prefill", 120 + late, 208 + late, "prefill_forward", span_id="chunk2"),
        part("decode_forward", 208 + late, 1_478 + late, "tp0"),
        part("decode_loop", 208 + late, 220 + late, "decode_forward"),
    ]


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


def tensorrt_llm(parent: str | None, **changed: Any) -> RawSpan:
    """A request of trtllm-serve."""
    attributes = {
        "gen_ai.latency.time_in_queue": 0.050,
        "gen_ai.latency.time_to_first_token": 0.200,
        "gen_ai.latency.e2e": 1.470,
        "gen_ai.usage.prompt_tokens": 300,
        "gen_ai.request.id": "17",
        **changed,
    }
    return inside("llm_request", 0, 1_470, parent, kind=2, scope="trt.llm", attributes=attributes)


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


def claude(name: str, begin: float, end: float, parent: str, **attributes: Any) -> RawSpan:
    """A span of the platform of the Claude API."""
    return inside(
        name,
        begin,
        end,
        parent,
        kind=2,
        scope="com.anthropic.claude-platform",
        resource={"service.name": "claude-platform"},
        attributes=attributes,
    )


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


def test_what_is_longer_than_the_call_is_not_believed() -> None:
    """5 ms are: clocks run differently. Beyond them the engine's times are named as a fault, and are no phases."""
    slow = {
        "gen_ai.latency.time_in_queue": 0.0,
        "gen_ai.latency.time_in_model_prefill": 0.2,
        "gen_ai.latency.time_to_first_token": 0.2,
    }
    within = vllm("call", **slow, **{"gen_ai.latency.time_in_model_decode": 1.294})
    assert the_call(client(1_490, None), within).phases_ns["prefill"] > 0
    beyond = vllm("call", **slow, **{"gen_ai.latency.time_in_model_decode": 1.296})
    row = the_call(client(1_490, None), beyond)
    assert in_ms(row) == {"model": (1_490, "observed")}
    assert faults(client(1_490, None), beyond) == ("vllm span: longer than the call",)


UNITS = [1e9, 1e6, 1e3, 1e-3, 1e-6, 1e-9]


@pytest.mark.parametrize("unit", UNITS, ids=[f"{unit:g}" for unit in UNITS])
def test_times_of_another_unit_are_no_phases(unit: float) -> None:
    """Longer than the call, or far too short for the engine's own span: neither is taken for time on the way."""
    names = [name for name in vllm("call").attributes if name.startswith("gen_ai.latency.")]
    changed = {name: vllm("call").attributes[name] * unit for name in names}
    found = vllm("call", **changed)
    assert in_ms(the_call(client(1_490, None), found)) == {"model": (1_490, "observed")}
    assert faults(client(1_490, None), found)
    assert in_ms(the_call(found)).keys() == {"model"}


def test_an_engine_that_outlives_its_client_still_tells_how_long_it_waited() -> None:
    """A stream its reader left: the engine decoded on, which is no fault."""
    left = client(300, 212, **{a.STREAM_END: "abandoned"})
    row = the_call(left, vllm("call"))
    assert in_ms(row)["queue"] == (50, "derived")
    assert in_ms(row)["prefill"] == (150, "joined")
    assert faults(left, vllm("call")) == ()


@pytest.mark.parametrize(
    ("attributes", "fault"),
    [
        ({"gen_ai.latency.time_in_queue": -0.5}, "gen_ai.latency.time_in_queue: negative"),
        (
            {"gen_ai.latency.time_to_first_token": 0.1},
            "gen_ai.latency.time_to_first_token: less than the prefill",
        ),
        ({"gen_ai.latency.time_in_model_decode": -1}, "gen_ai.latency.time_in_model_decode: negative"),
    ],
)
def test_times_that_cannot_be_are_no_phases_but_faults(attributes: dict[str, Any], fault: str) -> None:
    """Of the engine's span, and of the call it joins."""
    assert faults(client(), vllm("call", **attributes)) == (fault,)
    assert the_call(client(), vllm("call", **attributes)).phases_ns["prefill"] == 150 * MS


def faults(*spans: RawSpan) -> tuple[str, ...]:
    """What of the times of the only call cannot be."""
    read: list[Span] = [normalise(span) for span in spans]
    (node,) = plain_tree("t", read).of_kind("model")
    assert node.call is not None
    return node.call.timing_faults


def test_of_two_attempts_the_last_engine_span_counts() -> None:
    """Each attempt reached the engine; the first was given up by the client."""
    first = inside(
        "first",
        0,
        900,
        "call",
        kind=2,
        scope="vllm.tracing.otel",
        attributes={**dict(vllm("call").attributes), "gen_ai.latency.time_in_model_prefill": 0.01},
    )
    failed = {
        a.ATTEMPTS: 2,
        a.ATTEMPT_DURATION: [0.5],
        a.ATTEMPT_BACKOFF: [0.25],
        a.ATTEMPT_STATUS: ["timeout"],
    }
    row = the_call(client(750 + 1_490, 750 + 212, **failed), first, replaced_start(vllm("call"), 800))
    assert in_ms(row)["prefill"] == (150, "joined")
    assert in_ms(row)["queue"] == (50, "derived")
    assert in_ms(row)["failed_attempt"][0] == 500


@pytest.mark.parametrize(
    ("status", "attempt_s", "is_fault"),
    [("timeout", 0.5, False), ("cancelled", 0.5, False), ("503", 1.6, False), ("429", 0.02, True)],
)
@pytest.mark.parametrize("last_ms", [212, 0], ids=["then an answer", "no attempt succeeded"])
@pytest.mark.parametrize("engine", ["vllm", "claude"])
def test_an_engine_span_of_a_failed_attempt_is_no_fault(
    engine: str, last_ms: int, status: str, attempt_s: float, is_fault: bool
) -> None:
    """What the client left the engine may work on; what was refused at once no engine took that long."""
    failed = {
        a.ATTEMPTS: 2 if last_ms else 1,
        a.ATTEMPT_DURATION: [attempt_s],
        a.ATTEMPT_BACKOFF: [0.0],
        a.ATTEMPT_STATUS: [status],
    }
    call = client(1_000 * attempt_s + last_ms, None, **failed)
    span = vllm("call") if engine == "vllm" else claude("anthropic.messages.create", 0, 1_450, "call")
    assert (faults(call, span) != ()) is is_fault
    assert {"failed_attempt", "model"} >= in_ms(the_call(call, span)).keys()


def replaced_start(span: RawSpan, ms: float) -> RawSpan:
    """The span, later."""
    return msgspec.structs.replace(
        span, start_ns=span.start_ns + round(ms * MS), end_ns=(span.end_ns or 0) + round(ms * MS)
    )


@pytest.mark.parametrize("engine", [vllm, tensorrt_llm])
def test_an_engine_with_no_call_above_is_the_only_witness(engine: Any) -> None:
    """A call with the times it knows."""
    row = the_call(engine(None))
    assert row.phases_ns["prefill"] == 150 * MS
    assert row.tokens["input"] == 300


def test_sglang_with_no_call_above_is_the_only_witness() -> None:
    """Its stages are the phases."""
    row = the_call(*sglang(None))
    assert [row.phases_ns[name] / MS for name in ("queue", "prefill", "generation")] == [50, 150, 1_270]


def test_stages_alone_are_no_task() -> None:
    """Nothing says that a model was called."""
    assert tasks_in([normalise(span) for span in sglang(None)[1:]]) == {}


def test_what_only_names_a_model_of_an_engine_is_no_span_of_it() -> None:
    """A service that notes which model it asked for is the root of its task."""
    service = sent("POST /transcribe", 0, 2_000, None, kind=2, attributes={"triton.model_name": "asr"})
    (row,) = rows(service, client(parent="POST /transcribe"))
    assert normalise(service).engine is None
    assert row.path[0] == "POST /transcribe"
