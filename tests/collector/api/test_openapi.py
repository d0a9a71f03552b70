from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.json_schema import misfits
from support.serving import OfStore, Server, serving

from agentprof_collector.api import openapi, operations, routes
from agentprof_collector.recompute import copy_traces
from agentprof_collector.stores import open_store

Document = dict[str, Any]
METHODS = ("get", "post", "put", "delete", "patch")


@pytest.fixture(scope="module")
def api(demo_run: tuple[list[Document], Path]) -> Iterator[Server]:
    """The API on the tasks of the demo, which have retries, failures, tools, labels and unknown prices."""
    with open_store(None) as store, open_store(demo_run[1], read_only=True) as demo:
        copy_traces(demo, store, {trace for task in demo.tasks() for trace in task.trace_ids})
        with serving(routes(OfStore(store))) as server:
            yield server


@pytest.fixture(scope="module")
def described(api: Server) -> Document:
    """The document as a client gets it."""
    document: Document = api.ask("/api/v1/openapi.json").document
    return document


WINDOW = {"server": "gpu1", "node": "n", "start_ns": 1, "end_ns": 2, "energy_uj": 3}
BODIES = {
    "outcome": {"outcome": "success", "score": 1},
    "energy": {"windows": [WINDOW | {"running_low": 0, "running_high": 1}]},
}


def test_every_answer_is_as_described(
    api: Server, described: Document, demo_run: tuple[list[Document], Path]
) -> None:
    """No field is missing, of another type, or not described; for every operation."""
    task = demo_run[0][0]["task_id"]
    more = {"/api/v1/parts": "?by=model", "/api/v1/tasks": "?group_by=outcome"}
    more["/api/v1/rates"] = "?by=context"
    seen = 0
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            real = path.replace("{id}", task) + more.get(path, "")
            sent = BODIES[path.rpartition("/")[2]] if method == "post" else None
            answered = api.post_json(real, sent) if method == "post" else api.ask(real)
            schema = operation["responses"][str(answered.status)]["content"]["application/json"]["schema"]
            assert answered.status == 200
            assert list(misfits(answered.document, schema, described)) == []
            refused = api.ask(path.replace("{id}", "none") + "?x=1", method.upper())
            schema = operation["responses"]["400"]["content"]["application/json"]["schema"]
            assert refused.status == 400
            assert list(misfits(refused.document, schema, described)) == []
            seen += 1
    assert seen == len(operations.OPERATIONS) == 11


def test_the_check_finds_what_does_not_fit(api: Server, described: Document) -> None:
    """A field too many, one too few, and one of another type."""
    (schema,) = [
        described["paths"]["/api/v1/tasks"]["get"]["responses"]["200"]["content"]["application/json"][
            "schema"
        ]
    ]
    document = api.ask("/api/v1/tasks").document
    document["tasks"][0]["surprise"] = 1
    document["tasks"][1]["wall_ns"] = "1"
    del document["groups"][0]["calls"]
    found = list(misfits(document, schema, described))
    assert len(found) == 3
    assert {text.split(":")[0] for text in found} == {"$.tasks[0]", "$.tasks[1].wall_ns", "$.groups[0]"}


def test_every_described_parameter_is_read_and_no_other(api: Server, described: Document) -> None:
    """With the bounds that are described: a value out of them is refused, and the parameter named."""
    tried = 0
    for path, methods in described["paths"].items():
        for parameter in methods.get("get", {"parameters": []})["parameters"]:
            if parameter["in"] == "path":
                continue
            schema = parameter["schema"].get("items", parameter["schema"])
            if "enum" in schema:
                wrong = "none"
            elif schema["type"] == "integer":
                wrong = str(schema["maximum"] + 1)
            elif parameter["name"] in ("name", "task", "service", "q"):
                wrong = "x" * (schema["maxLength"] + 1)
            else:
                wrong = "="
            real = path.replace("{id}", "none")
            error = api.ask(f"{real}?{parameter['name']}={wrong}").document["error"]
            assert (error["status"], error["parameter"]) == (400, parameter["name"])
            tried += 1
    assert tried > 15


def test_references_lead_somewhere(described: Document) -> None:
    """And every described schema is used."""

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                yield from [item] if key == "$ref" else references(item)
        elif isinstance(value, list):
            for item in value:
                yield from references(item)

    found = set(references(described))
    assert found == {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}


def test_the_head_of_the_document(described: Document) -> None:
    """Version, operations with names of their own, and the token."""
    assert described["openapi"] == "3.1.0"
    ids = [
        operation["operationId"] for methods in described["paths"].values() for operation in methods.values()
    ]
    assert sorted(ids) == [
        "get_calls",
        "get_estimates",
        "get_gpu_hours",
        "get_parts",
        "get_rates",
        "get_tasks",
        "get_tasks_one",
        "get_tasks_one_content",
        "get_tasks_one_waterfall",
        "post_energy",
        "post_tasks_one_outcome",
    ]
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert openapi.document() == described


def test_paths_and_parameters_are_explained_to_people(described: Document) -> None:
    """In docs/api.md, each in code."""
    text = (Path(__file__).parents[3] / "docs/api.md").read_text()
    words = set(re.findall(r"`([^`\n]+)`", text))
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in words
            assert {one["name"] for one in operation["parameters"] if one["in"] == "query"} <= words - {"id"}
            for status in operation["responses"]:
                assert status == "200" or re.search(rf"^\| .*{status}", text, re.M), status
