"""A small agent with the openai SDK and the tasks of the demo: what a user's own program looks like.

The only lines that have to do with profiling are `agentprof.task`, `agentprof.step` and `@agentprof.tool`.
"""

from __future__ import annotations

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai

import agentprof

Tool = Callable[..., object]
_TURNS = 6


class Agent:
    """Asks a model, runs the tools it calls, and tells it their results until it answers.

    Args:
        client: any client of the openai SDK.
        model: asked instead of the model each task names, if given.
    """

    def __init__(self, client: openai.OpenAI, model: str | None = None) -> None:
        self._client = client
        self._model = model

    def run(
        self, question: str, model: str, tools: Sequence[Tool] = (), *, system: str = "", stream: bool = False
    ) -> str:
        """The model's answer to the question."""
        by_name = {tool.__name__: tool for tool in tools}
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": question})
        for _ in range(_TURNS):
            ask = self._ask_streaming if stream else self._ask
            answer = ask(self._model or model, messages, [_schema(tool) for tool in tools])
            messages.append(answer)
            calls = answer.get("tool_calls")
            if not calls:
                return str(answer.get("content") or "")
            with ThreadPoolExecutor() as pool:
                results = list(pool.map(lambda call: _run_tool(by_name, call), calls))
            for call, result in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
        raise RuntimeError(f"no answer after {_TURNS} turns")

    def _ask(self, model: str, messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        offered: dict[str, Any] = {"tools": tools} if tools else {}
        completion = self._client.chat.completions.create(model=model, messages=messages, **offered)
        answer: dict[str, Any] = completion.choices[0].message.to_dict()
        return answer

    def _ask_streaming(self, model: str, messages: list[Any], tools: list[Any]) -> dict[str, Any]:
        offered: dict[str, Any] = {"tools": tools} if tools else {}
        chunks = self._client.chat.completions.create(
            model=model, messages=messages, stream=True, stream_options={"include_usage": True}, **offered
        )
        text = ""
        calls: dict[int, dict[str, Any]] = {}
        for chunk in chunks:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    function = {"name": "", "arguments": ""}
                    call = calls.setdefault(
                        part.index, {"id": part.id, "type": "function", "function": function}
                    )
                    if part.function:
                        call["function"]["name"] += part.function.name or ""
                        call["function"]["arguments"] += part.function.arguments or ""
        answer: dict[str, Any] = {"role": "assistant", "content": text}
        return answer | {"tool_calls": list(calls.values())} if calls else answer


def _run_tool(by_name: dict[str, Tool], call: dict[str, Any]) -> object:
    function = call["function"]
    return by_name[function["name"]](**json.loads(function["arguments"]))


def _schema(tool: Tool) -> dict[str, Any]:
    types = {"int": "integer", "str": "string"}
    arguments = {name: kind for name, kind in tool.__annotations__.items() if name != "return"}
    properties = {name: {"type": types[kind]} for name, kind in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": tool.__name__, "description": tool.__doc__, "parameters": parameters}
    return {"type": "function", "function": function}


@agentprof.tool()
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


@agentprof.tool()
def can_have_dragons(population: int) -> bool:
    """Whether a country of this population can have dragons."""
    return population > 10_000


class World:
    """Tools that ask a service for what they do.

    Args:
        url: of the service.
    """

    def __init__(self, url: str) -> None:
        @agentprof.tool()
        def lookup_population(country: str) -> object:
            """The current population of a fictional country."""
            return _request("GET", f"{url}/population/{urllib.parse.quote(country)}")

        @agentprof.tool()
        def create_file(path: str) -> object:
            """Create an empty file."""
            return _request("PUT", f"{url}/files/{urllib.parse.quote(path)}")

        @agentprof.tool()
        def delete_file(path: str) -> object:
            """Delete a file."""
            return _request("DELETE", f"{url}/files/{urllib.parse.quote(path)}")

        self.lookup_population = lookup_population
        self.create_file = create_file
        self.delete_file = delete_file


def _request(method: str, url: str) -> object:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)["result"]
    except urllib.error.HTTPError as error:
        with error:
            raise FileNotFoundError(json.load(error)["error"]) from None


def run_tasks(agent: Agent, world: World) -> None:
    """The work of the demo, for two customers. The last task fails: its file is gone by then."""
    tasks: tuple[Callable[[], None], ...] = (
        lambda: multiplication(agent),
        lambda: tidy(agent, world, customer="acme"),
        lambda: dragons(agent, world),
        lambda: capital(agent),
        lambda: tidy(agent, world, customer="globex"),
    )
    for work in tasks:
        # A task that an exception leaves has recorded its failure; the program goes on.
        with contextlib.suppress(FileNotFoundError, LookupError, TypeError, RuntimeError):
            work()


def multiplication(agent: Agent) -> None:
    """A streamed answer, checked against arithmetic."""
    with agentprof.task("multiply", labels={"customer": "acme"}) as task:
        answer = agent.run("What is 1231 * 2331?", "gpt-4o-mini", [multiply], stream=True)
        right = str(1231 * 2331) in answer.replace(",", "").replace("\\", "")
        task.outcome("success" if right else "failure")


def tidy(agent: Agent, world: World, customer: str) -> None:
    """Two tools at once; an exception that leaves a task makes it a failure."""
    with agentprof.task("tidy files", labels={"customer": customer}) as task:
        agent.run(
            "Delete the file `.env` and create `test.txt`",
            "gpt-4o",
            [world.create_file, world.delete_file],
            system="Just call tools without asking for confirmation.",
        )
        task.outcome("success")


def dragons(agent: Agent, world: World) -> None:
    """One tool's result feeds the next. Nobody says whether the answer is right: its outcome stays unknown."""
    with agentprof.task("dragons", labels={"customer": "globex"}):
        question = "Can the country of Crumpet have dragons? Answer with only YES or NO"
        agent.run(question, "gpt-4o-mini", [world.lookup_population, can_have_dragons])


def capital(agent: Agent) -> None:
    """A small model on one's own machine first, then a large one that checks it."""
    with agentprof.task("capital", labels={"customer": "globex"}) as task:
        with agentprof.step("small model"):
            first = agent.run("What is the capital of France?", "qwen3:0.6b")
        with agentprof.step("check"):
            second = agent.run("What is the capital of France?", "gpt-4o")
        task.outcome("success" if "Paris" in first and "Paris" in second else "failure")
