"""An agent task with the openai SDK, profiled: what it cost and what it waited for.

    OPENAI_API_KEY=... python examples/openai_agent.py

`OPENAI_BASE_URL` may name any server that speaks the same API. A larger agent, with parallel tools, a stream and
a task that fails, is `collector/agentprof_collector/demo/agent.py`; `agentprof demo` runs it without a key.
"""

import json
import os

import openai

import agentprof

agentprof.instrument(service_name="example-agent")
client = openai.OpenAI()
MODEL = os.environ.get("MODEL", "gpt-4o-mini")


@agentprof.tool()
def lookup_population(country: str) -> int:
    """The current population of a fictional country."""
    return {"Crumpet": 123124}[country]


@agentprof.tool()
def can_have_dragons(population: int) -> bool:
    """Whether a country of this population can have dragons."""
    return population > 10_000


TOOLS = {"lookup_population": lookup_population, "can_have_dragons": can_have_dragons}


def schema(name: str, argument: str, kind: str) -> dict:
    """A tool as the API wants it described."""
    parameters = {"type": "object", "properties": {argument: {"type": kind}}, "required": [argument]}
    function = {"name": name, "description": TOOLS[name].__doc__, "parameters": parameters}
    return {"type": "function", "function": function}


SCHEMAS = [
    schema("lookup_population", "country", "string"),
    schema("can_have_dragons", "population", "integer"),
]


def answer(question: str) -> str:
    """Ask, run the tools the model calls, tell it their results, until it answers."""
    messages: list = [{"role": "user", "content": question}]
    while True:
        completion = client.chat.completions.create(model=MODEL, messages=messages, tools=SCHEMAS)
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.to_dict())
        for call in message.tool_calls:
            result = TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


with agentprof.task("dragons", labels={"customer": "acme"}) as task:
    text = answer("Can the country of Crumpet have dragons? Answer with only YES or NO")
    task.outcome("success" if "YES" in text else "failure")

print(text)
print(task.summary())
