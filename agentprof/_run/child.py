"""Inside a process of the program: switches agentprof on and leaves notes of what it saw."""

from __future__ import annotations

import os
from collections.abc import Callable

from agentprof import _context, _guard
from agentprof._asked import key_in
from agentprof._run import presence
from agentprof._run import settings as run_settings
from agentprof._run.notes import Note, write
from agentprof._run.sdks import loaded_sdks
from agentprof._run.settings import RunSettings
from agentprof._task import Task

_begun = False


class RunTask(Task):
    """The run as the processes of the program see it: what is outside declared tasks belongs to it.

    Its span is written by the parent. Nothing is kept for `summary()`, which nobody may ever ask for.
    """

    def keep(self, span: object) -> None:
        """Count an ended span."""
        self.ended_spans += 1

    def said(self) -> dict[str, object]:
        """What the program has said about the run."""
        return {"outcome": self._outcome, "score": self._score, "labels": self.labels}


def begin(text: str | None = None) -> None:
    """Switch on, once: when the program imports agentprof or something that calls models. Never raises.

    Args:
        text: What the process was told when it started; the program may have emptied its environment since.
    """
    global _begun
    settings = run_settings.current() if text is None else run_settings.decode(text)
    if _begun or settings is None:
        return
    _begun = True
    try:
        _begin(settings)
    except Exception:
        _guard.failed("starting inside agentprof run")


def _begin(settings: RunSettings) -> None:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from agentprof import _export, _instrument, _settings
    from agentprof._run.marks import hook

    task = RunTask(settings.name, settings.task_id, settings.labels, None)
    task.key = key_in(settings.key) or task.key
    carrier = {"traceparent": settings.traceparent}
    _context.set_base(_context.Base(task, TraceContextTextMapPropagator().extract(carrier)))
    # A provider of our own: the program may still want to set the global one.
    provider = TracerProvider(
        sampler=ALWAYS_ON, resource=Resource.create(dict(settings.resource)), shutdown_on_exit=False
    )
    _instrument.switch_on(
        _settings.read(
            service_name=None,
            endpoint=None,
            exporter=None,
            tracer_provider=provider,
            capture_content=False,
            propagate_to=None,
            config=None,
            run=settings,
            provisional=True,
        )
    )
    for mark in settings.marks:
        hook(mark, settings.notes)
    presence.begin(settings.notes)
    _export.when_over(_leave(settings, task, _export.lost))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: setattr(task, "ended_spans", 0))


def join(provider: object, settings: RunSettings) -> None:
    """Let the spans of a provider say what the run wants to know."""
    from opentelemetry.sdk.trace import TracerProvider

    from agentprof._run.stack import RunProcessor

    if isinstance(provider, TracerProvider):
        provider.add_span_processor(RunProcessor(settings.task_id))


def _leave(settings: RunSettings, task: RunTask, lost: Callable[[], int]) -> Callable[[], None]:
    left: set[int] = set()
    """Processes that have: one of `multiprocessing` may end in two ways at once."""

    def leave() -> None:
        from agentprof import _instrument

        if os.getpid() in left:
            return
        left.add(os.getpid())
        try:
            for name, version in loaded_sdks().items():
                write(settings.notes, Note(kind="sdk", name=name, version=version))
            write(
                settings.notes,
                Note(
                    kind="exit",
                    spans=task.ended_spans,
                    lost=lost(),
                    seams=_instrument.instrumented_modules(),
                    failures=_guard.counts(),
                    **task.said(),  # type: ignore[arg-type]
                ),
            )
        except Exception:
            _guard.failed("ending inside agentprof run")

    return leave
