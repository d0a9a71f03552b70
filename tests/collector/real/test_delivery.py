"""Exporters of others deliver to `agentprof collect`, also while it is restarted under load."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.real_programs import AgentprofCollector, Program, built, eventually, free_ports
from support.senders import Sender, Sent, sent

SENDERS = [
    Sender("python", "http/protobuf"),
    Sender("python", "grpc"),
    Sender("js", "http/json"),
    Sender("js", "http/protobuf"),
    Sender("js", "grpc"),
]
COMPRESSIONS = ["none", "gzip"]


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[AgentprofCollector]:
    """An empty one."""
    with AgentprofCollector(tmp_path / "agentprof") as program:
        assert isinstance(program, AgentprofCollector)
        yield program


def check_all_there_once(collector: AgentprofCollector, ids: Sent) -> None:
    """Each task that was acknowledged with its two calls and their tokens, whole, and none that was not sent."""
    tasks = {task_id.removeprefix("trace:"): task for task_id, task in collector.tasks().items()}
    assert ids.acknowledged <= set(tasks) <= ids.all
    for trace_id, task in tasks.items():
        counts = (task["calls"], task["tokens"]["input"], task["tokens"]["output"])
        if trace_id in ids.acknowledged:
            assert (*counts, task["complete"]) == (2, 20, 6, True)
        assert counts[0] <= 2


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: f"{sender.sdk}-{sender.protocol}")
def test_exporters_of_sdks_deliver(collector: AgentprofCollector, sender: Sender, compression: str) -> None:
    """By every protocol, compressed and not."""
    sender = sender._replace(compression=compression)
    with sender.sending(http=collector.otlp_http, grpc=collector.otlp_grpc) as process:
        ids = sent(process)
    assert len(ids.all) >= 30
    assert ids.acknowledged == ids.all
    check_all_there_once(collector, ids)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: f"{sender.sdk}-{sender.protocol}")
def test_a_restart_under_load_loses_and_doubles_nothing(
    collector: AgentprofCollector, sender: Sender, how: signal.Signals
) -> None:
    """What was acknowledged is there; exporters that try again bring the rest, and what came twice counts once."""
    sender = sender._replace(compression="gzip")
    with sender.sending(http=collector.otlp_http, grpc=collector.otlp_grpc) as process:
        before = restart_while_spans_come(collector, how)
        eventually(lambda: len(collector.tasks()) > before or None, "tasks after the restart")
        ids = sent(process)
    assert ids.acknowledged == ids.all or not sender.tries_again
    assert len(ids.acknowledged) > before
    check_all_there_once(collector, ids)


def restart_while_spans_come(collector: AgentprofCollector, how: signal.Signals) -> int:
    """How many tasks were there after the restart at first."""
    eventually(lambda: len(collector.tasks()) > 20 or None, "the first tasks")
    collector.stop(how)
    collector.start()
    return len(collector.tasks())


class Forwarder(Program):
    """The OpenTelemetry Collector with one of its exporters, and nothing on disk."""

    def __init__(self, folder: Path, exporter: str, endpoint: str, compression: str) -> None:
        health, grpc, http = free_ports(3)
        self.http, self.grpc = f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}"
        folder.mkdir()
        protocols = {"grpc": {"endpoint": self.grpc}, "http": {"endpoint": f"127.0.0.1:{http}"}}
        sending = {
            "endpoint": endpoint,
            "compression": compression,
            "tls": {"insecure": True},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms"},
        }
        pipeline = {"receivers": ["otlp"], "exporters": [exporter]}
        (folder / "otelcol.yaml").write_text(
            yaml.safe_dump(
                {
                    "extensions": {"health_check": {"endpoint": f"127.0.0.1:{health}"}},
                    "receivers": {"otlp": {"protocols": protocols}},
                    "exporters": {exporter: sending},
                    "service": {
                        "extensions": ["health_check"],
                        "telemetry": {"metrics": {"level": "none"}},
                        "pipelines": {"traces": pipeline},
                    },
                }
            )
        )
        super().__init__(
            [built("otelcol"), "--config", folder / "otelcol.yaml"],
            {},
            f"http://127.0.0.1:{health}/",
            folder / "otelcol.log",
        )


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("exporter", ["otlp_grpc", "otlp_http"])
def test_the_opentelemetry_collector_delivers(
    collector: AgentprofCollector, tmp_path: Path, exporter: str, compression: str
) -> None:
    """With both of its exporters, also what comes while agentprof is restarted."""
    endpoint = collector.otlp_grpc if exporter == "otlp_grpc" else collector.otlp_http
    with Forwarder(tmp_path / "otelcol", exporter, endpoint, compression) as forwarder:
        assert isinstance(forwarder, Forwarder)
        with Sender("python", "http/protobuf").sending(http=forwarder.http, grpc=forwarder.grpc) as process:
            before = restart_while_spans_come(collector, signal.SIGKILL)
            eventually(lambda: len(collector.tasks()) > before or None, "tasks after the restart")
            ids = sent(process)
        assert ids.acknowledged == ids.all
        eventually(lambda: len(collector.tasks()) >= len(ids.all) or None, "the last tasks")
        eventually(
            lambda: (
                all(task["calls"] == 2 and task["complete"] for task in collector.tasks().values()) or None
            ),
            "the last spans",
        )
        check_all_there_once(collector, ids)
