"""The document that describes the API, made from the list of its operations."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

import agentprof
from agentprof_collector.api.answers import ErrorAnswer
from agentprof_collector.api.operations import OPERATIONS, PREFIX, Operation
from agentprof_collector.api.parameters import TEXT_LIMIT, Parameter
from agentprof_collector.api.schemas import SCHEMAS, components

PATH = f"{PREFIX}/openapi.json"
_ERRORS = {
    "400": "A parameter or the body is not as expected; `error.parameter` names the parameter.",
    "404": "There is no such task.",
    "409": "The text is the beginning of several tasks.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "503": "The store cannot be read or written at the moment.",
}


@cache
def document() -> dict[str, Any]:
    """The description as OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentprof collector",
            "version": agentprof.__version__,
            "description": (
                "Times are integer nanoseconds, money is US dollars as decimal strings, "
                "null is unknown and never 0. Fields may be added, never renamed."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": components(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Where the collector listens beyond loopback.",
                }
            },
        },
        "security": [{}, {"token": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    named = "{id}" in operation.path
    described: dict[str, Any] = {
        "operationId": _id(operation),
        "summary": operation.summary,
        "parameters": [*([_TASK_ID] if named else []), *map(_parameter, operation.parameters)],
        "responses": {
            "200": {"description": "As asked.", "content": _json(operation.answer)},
            **{status: _error(text) for status, text in _errors(operation, named).items()},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.body)}
    return described


_TASK_ID: dict[str, Any] = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": (
        "The task's id, percent-encoded (a slash in it is `%2F`), or a beginning or end of it that no other "
        "task has; `…` stands for anything between the two. The ids `.` and `..` stand in the query instead, as "
        "`?id=..` behind an empty id."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT},
}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    several = parameter.most > 1
    schema = {"type": "array", "items": parameter.schema, "maxItems": parameter.most}
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.description,
        "schema": schema if several else parameter.schema,
        **({"style": "form", "explode": True} if several else {}),
    }


def _errors(operation: Operation, named: bool) -> dict[str, str]:
    left_out = set() if operation.body is not None else {"413", "415"}
    if not named and all(parameter.name != "task" for parameter in operation.parameters):
        left_out |= {"404", "409"}
    return {status: text for status, text in _ERRORS.items() if status not in left_out}


def _error(text: str) -> dict[str, Any]:
    return {"description": text, "content": _json(ErrorAnswer)}


def _json(answer: type[msgspec.Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": SCHEMAS + answer.__name__}}}


def _id(operation: Operation) -> str:
    words = operation.path.removeprefix(PREFIX + "/").replace("{id}", "one").split("/")
    return "_".join([operation.method.lower(), *words])
