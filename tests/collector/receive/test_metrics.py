"""Metrics are read, so that a malformed request is refused, and then dropped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from agentprof_collector.receive import metrics
from agentprof_collector.receive.otlp import NotOtlp


def test_metrics_are_counted() -> None:
    """In both encodings, over all resources and scopes."""
    message = ExportMetricsServiceRequest()
    document: dict[str, list[dict[str, object]]] = {"resourceMetrics": []}
    for counts in ((2, 0), (3,)):
        resource = message.resource_metrics.add()
        scopes = []
        for count in counts:
            scope = resource.scope_metrics.add()
            for at in range(count):
                scope.metrics.add(name=f"m{at}").gauge.data_points.add(as_int=at)
            scopes.append({"metrics": [{"name": "m", "gauge": {"dataPoints": [{}]}}] * count})
        document["resourceMetrics"].append({"scopeMetrics": scopes, "resource": {}})
    assert metrics.count_protobuf(message.SerializeToString()) == 5
    assert metrics.count_json(json.dumps(document).encode()) == 5
    assert metrics.count_protobuf(b"") == metrics.count_json(b"{}") == 0


@pytest.mark.parametrize(
    "sent", [b"", b"[]", b'{"resourceMetrics": 5}', b"{", b"\xff", b'{"resourceMetrics":' + b"[" * 10_000]
)
def test_what_is_no_request_is_refused(sent: bytes) -> None:
    """With what was wrong."""
    with pytest.raises(NotOtlp, match=r"\S"):
        metrics.count_json(sent)
    if sent:
        with pytest.raises(NotOtlp, match="no protobuf"):
            metrics.count_protobuf(sent)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_none(sent: bytes) -> None:
    """Nothing else is raised."""
    for count in (metrics.count_json, metrics.count_protobuf):
        try:
            assert count(sent) >= 0
        except NotOtlp:
            continue
