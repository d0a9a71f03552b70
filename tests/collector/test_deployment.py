"""docker-compose.yml and the files it mounts agree with each other; no container engine is needed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "collector"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONCE = {"volumes"}
"""Services that end."""
PROGRAMS = {"otelcol": "otelcol.yaml", "jaeger": "jaeger.yaml"}
"""Services with a configuration of their own."""


def with_defaults(name: str) -> Any:
    """A configuration as it is where no environment variable is set."""
    text = re.sub(r"\$\{env:\w+(?::-([^}]*))?\}", r"\1", (FOLDER / name).read_text())
    return yaml.safe_load(text)


def leaves(found: Any) -> list[Any]:
    """All values of a configuration."""
    if isinstance(found, dict):
        return [leaf for value in found.values() for leaf in leaves(value)]
    return [leaf for value in found for leaf in leaves(value)] if isinstance(found, list) else [found]


def listens(service: str) -> set[int]:
    """Ports a service listens on, at all addresses of its container."""
    if service == "agentprof":
        (exposed,) = re.findall("^EXPOSE (.*)$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
        return {int(port) for port in exposed.split()}
    found = (str(leaf) for leaf in leaves(with_defaults(PROGRAMS[service])))
    return {int(address.rpartition(":")[2]) for address in found if address.startswith("0.0.0.0:")}


def mounts(service: str) -> dict[str, str]:
    """Source by target."""
    pairs = (mount.split(":")[:2] for mount in SERVICES[service].get("volumes", ()))
    return {target: source for source, target in pairs}


def test_ports_are_published_on_loopback_and_listened_on() -> None:
    """Each of them, and none twice."""
    published = [(name, port) for name, service in SERVICES.items() for port in service.get("ports", ())]
    assert {port for _, port in published} == {
        "127.0.0.1:4317:4317",
        "127.0.0.1:4318:4318",
        "127.0.0.1:8321:8321",
        "127.0.0.1:16686:16686",
    }
    for name, port in published:
        assert int(port.rpartition(":")[2]) in listens(name)


def test_addresses_of_other_services_are_listened_on() -> None:
    """Wherever a configuration or a command names another service."""
    exporters = with_defaults("otelcol.yaml")["exporters"]
    commands = [part.partition("=")[2] for part in SERVICES["agentprof"]["command"] if "://" in part]
    addresses = [
        exporters["otlp_grpc/jaeger"]["endpoint"],
        urlsplit(exporters["otlp_http/agentprof"]["endpoint"]).netloc,
        *(urlsplit(url).netloc for url in commands),
    ]
    assert addresses == ["jaeger:4317", "agentprof:4318", "jaeger:4318"]
    for address in addresses:
        service, _, port = address.partition(":")
        assert int(port) in listens(service)


@pytest.mark.parametrize("service", [name for name in SERVICES if name not in ONCE])
def test_services_come_back_and_have_their_health_asked(service: str) -> None:
    """On a port they listen on; that of the OpenTelemetry Collector from beside it."""
    assert SERVICES[service]["restart"] == "unless-stopped"
    asker = "otelcol-health" if service == "otelcol" else service
    asked = SERVICES[asker]["healthcheck"]["test"]
    ports = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", " ".join(asked))}
    assert len(ports) == 1
    assert ports <= listens("otelcol" if asker == "otelcol-health" else service)
    assert SERVICES["otelcol-health"]["network_mode"] == "service:otelcol"


def test_images_of_others_are_pinned() -> None:
    """To a release."""
    for service in SERVICES.values():
        assert service["image"] == "agentprof" or re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+", service["image"])


def test_mounted_files_are_there_and_are_the_ones_read() -> None:
    """The configurations, where the programs look for them."""
    for name, file in PROGRAMS.items():
        by_target = mounts(name)
        option, target = SERVICES[name]["command"]
        assert option == "--config"
        assert by_target[target] == f"./collector/{file}"
    ui = with_defaults("jaeger.yaml")["extensions"]["jaeger_query"]["ui"]["config_file"]
    assert mounts("jaeger")[ui] == "./collector/jaeger-ui.json"
    for name in SERVICES:
        for source in mounts(name).values():
            assert not source.startswith("./") or (ROOT / source).is_file()


def test_volumes_are_where_programs_write_and_belong_to_them() -> None:
    """Every named volume is mounted where its program keeps its data, and handed over to user 10001 once."""
    otelcol, jaeger = with_defaults("otelcol.yaml"), with_defaults("jaeger.yaml")
    assert mounts("otelcol")[otelcol["extensions"]["file_storage"]["directory"]] == "otelcol-queue"
    folders = jaeger["extensions"]["jaeger_storage"]["backends"]["spans"]["badger"]["directories"]
    assert {mounts("jaeger")[folder.rpartition("/")[0]] for folder in folders.values()} == {"jaeger-data"}
    (database,) = re.findall(r"AGENTPROF_DB=(\S+)", (FOLDER / "Dockerfile").read_text())
    assert mounts("agentprof")[database.rpartition("/")[0]] == "agentprof-data"
    handed_over = mounts("volumes")
    assert set(handed_over.values()) == set(COMPOSE["volumes"])
    assert SERVICES["volumes"]["entrypoint"] == ["chown", "10001:10001", *handed_over]
    for name in ("otelcol", "agentprof", "jaeger"):
        assert SERVICES[name]["depends_on"]["volumes"] == {"condition": "service_completed_successfully"}


def test_links_lead_from_jaeger_to_agentprof_and_back() -> None:
    """By the addresses that are published."""
    ui = json.loads((FOLDER / "jaeger-ui.json").read_text())
    (pattern,) = ui["linkPatterns"]
    assert (pattern["type"], pattern["key"]) == ("tags", "agentprof.task.id")
    assert pattern["url"] == "http://localhost:8321/tasks/#{agentprof.task.id}"
    back = SERVICES["agentprof"]["environment"]["AGENTPROF_JAEGER_URL"]
    assert f"127.0.0.1:{urlsplit(back).port}:16686" in SERVICES["jaeger"]["ports"]


def test_the_queue_outlives_the_collector() -> None:
    """Every exporter that sends somewhere keeps its queue on disk, tries again for ever, and nothing before it
    holds what was acknowledged."""
    config = with_defaults("otelcol.yaml")
    for name, exporter in config["exporters"].items():
        if name != "nop":
            assert exporter["sending_queue"]["storage"] in config["service"]["extensions"]
            assert exporter["retry_on_failure"]["max_elapsed_time"] == "0s"
    for pipeline in config["service"]["pipelines"].values():
        assert "batch" not in pipeline.get("processors", ())
    assert "batch" not in with_defaults("jaeger.yaml")["service"]["pipelines"]["traces"].get("processors", ())


# What a component is called in a configuration, where its module is called otherwise.
_MODULES = {"otlp_grpc": "otlp", "otlp_http": "otlphttp"}


def test_the_collector_that_is_built_has_what_the_configuration_names() -> None:
    """So that the tests with the real program run the very file."""
    builder = yaml.safe_load((ROOT / "scripts" / "otelcol-builder.yaml").read_text())
    modules = {
        entry["gomod"].split()[0].rpartition("/")[2] for kind in builder.values() for entry in _entries(kind)
    }
    config = with_defaults("otelcol.yaml")
    for kind in ("receivers", "processors", "exporters", "extensions"):
        for name in config[kind]:
            component = name.partition("/")[0]
            module = _MODULES.get(component, component).replace("_", "") + kind.removesuffix("s")
            assert module.replace("extension", "") in {m.replace("extension", "") for m in modules}


def _entries(kind: Any) -> list[dict[str, str]]:
    return [entry for entry in kind if isinstance(entry, dict)] if isinstance(kind, list) else []


def test_the_image_gets_the_files_it_copies() -> None:
    """Each is in the checkout, and not kept from the engine."""
    let_through = set(re.findall("^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    copied = re.findall("^COPY ([^-].*) \\S+$", (FOLDER / "Dockerfile").read_text(), re.MULTILINE)
    files = {file for line in copied for file in line.split()}
    assert files == let_through
    assert all((ROOT / file).exists() for file in files)


def test_every_variable_of_the_configurations_is_documented() -> None:
    """And none that they do not read."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    for file in PROGRAMS.values():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `collector/{file}`"))
        read = set(re.findall(r"\$\{env:(\w+)", (FOLDER / file).read_text()))
        assert set(re.findall(r"`([A-Z][A-Z_]+)`", row)) == read


def compose_config(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The file as docker-compose reads it, for an engine that is not asked."""
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed (Debian: apt-get install docker-compose)")
    empty = folder / "empty.env"
    empty.touch()
    cut = {key: value for key, value in os.environ.items() if not key.startswith("AGENTPROF_")}
    return subprocess.run(
        [program, "--file", ROOT / "docker-compose.yml", "--env-file", empty, "config"],
        cwd=folder,
        env=cut | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_docker_compose_reads_the_file(tmp_path: Path) -> None:
    """And what it makes of it has the services and volumes that were written."""
    done = compose_config(tmp_path, AGENTPROF_TOKEN="secret")
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)
    assert read["services"].keys() == SERVICES.keys()
    assert read["volumes"].keys() == COMPOSE["volumes"].keys()
    assert read["services"]["agentprof"]["environment"]["AGENTPROF_TOKEN"] == "secret"


def test_without_a_token_nothing_starts(tmp_path: Path) -> None:
    """The message says what to write where."""
    done = compose_config(tmp_path)
    assert done.returncode != 0
    assert "write AGENTPROF_TOKEN=... into the file .env" in done.stderr
