"""A task whose every text is what a test says: names, labels, models, tools, errors, services, ids."""

from __future__ import annotations

from support.raw import SECOND, T0

from agentprof.model import RawSpan

SCRIPTS = (
    '"><script>alert(1)</script>',
    "</title></style></textarea><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)' x='",
    "javascript:alert(1)//",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "--><svg/onload=alert(1)>",
    "&lt;script&gt;alert(1)&#60;/script>",
    "\u202ecod.exe\u2066 \x1b[31mred\x00\x07",
    "a\r\nSet-Cookie: x=1\r\n\r\n<b>",
    "'; DROP TABLE tasks; --",
)


def task_spans(text: str, *, trace: str = "0" * 32, start: int = T0) -> list[RawSpan]:
    """A task with an agent, a step, a tool, a wait for a person and two calls, all named by the text."""
    resource = {
        "service.name": f"service {text}",
        "host.name": f"host {text}",
        "vcs.ref.head.revision": f"git {text}",
        "process.runtime.version": f"python {text}",
        "telemetry.distro.version": f"agentprof {text}",
        "agentprof.run.dirty": f"dirty {text}",
        "agentprof.run.sdks": f"sdks {text}",
    }
    task_id = f"id {text}"

    def span(
        span_id: str,
        at: int,
        seconds: int,
        parent: str | None = "root",
        status: int = 0,
        **attributes: object,
    ) -> RawSpan:
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        return RawSpan(
            trace_id=trace,
            span_id=f"{span_id} {text}",
            parent_id=None if parent is None else f"{parent} {text}",
            name=f"{span_id} {text}",
            kind=3 if "chat" in named.values() else 1,
            start_ns=start + at * SECOND,
            end_ns=start + (at + seconds) * SECOND,
            status=status,
            attributes={"agentprof.task.id": task_id, **named},
            scope=f"scope {text}",
            resource=resource,
        )

    chat = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": f"provider {text}",
        "gen_ai__request__model": f"model {text}",
        "gen_ai__response__model": f"model {text}",
        "gen_ai__response__id": f"response {text}",
        "gen_ai__response__finish_reasons": [f"reason {text}"],
        "server__address": f"server {text}",
        "gen_ai__usage__input_tokens": 100,
    }
    mark = {
        "agentprof__task__name": f"name {text}",
        "agentprof__task__source": "declared",
        "agentprof__task__parent_id": f"parent {text}",
        f"agentprof__label__key {text}": f"value {text}",
    }
    return [
        span("root", 0, 20, None, **mark),
        span("agent", 0, 10, gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"agent {text}"),
        span("step", 10, 5, agentprof__step__name=f"step {text}"),
        span("call", 1, 3, "agent", **chat),
        span(
            "failed",
            5,
            3,
            "agent",
            2,
            error__type=f"error {text}",
            agentprof__attempts=2,
            agentprof__attempt__duration=[1.0],
            agentprof__attempt__backoff=[0.5],
            agentprof__attempt__status=[f"status {text}"],
            **chat,
        ),
        span(
            "tool",
            11,
            2,
            "step",
            2,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=f"tool {text}",
            error__type=f"error {text}",
        ),
        span("human", 16, 2, agentprof__human=True, agentprof__step__name=f"human {text}"),
        span("lost", 18, 1, "never arrived", agentprof__step__name=f"lost {text}"),
    ]
