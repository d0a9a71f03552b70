"""Switches agentprof on and off in a process."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentprof import _guard, _handover, _runtime, _settings
from agentprof._clock import anchor_ns
from agentprof._forking import renew_in_child
from agentprof._imports import when_imported
from agentprof._patching import Patch

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from agentprof.seams import Seam

_lock = threading.RLock()
_applied: list[Patch] = []
_hooked: set[str] = set()


def _begin_in_child() -> None:
    """Another thread may have held the lock when the process was forked."""
    global _lock
    _lock = threading.RLock()


renew_in_child(_begin_in_child)


def instrument(
    *,
    service_name: str | None = None,
    endpoint: str | None = None,
    exporter: SpanExporter | None = None,
    tracer_provider: TracerProvider | None = None,
    capture_content: bool = False,
    propagate_to: Iterable[str] | None = None,
    config: str | None = None,
    exit_timeout_s: float | None = None,
    stream_usage: bool | None = None,
    estimate_usage: bool | None = None,
) -> None:
    """Record model calls, tools and tasks of this process from now on. A second call changes nothing.

    Args:
        service_name: Name of this program among others; default `OTEL_SERVICE_NAME`.
        endpoint: OTLP/HTTP receiver, `http://host:port` or a full URL. Default: the `OTEL_EXPORTER_OTLP_*`
            variables, else a collector on this machine; none if the application's tracer provider
            already sends its spans somewhere.
        exporter: An exporter of the OpenTelemetry SDK to use instead.
        tracer_provider: Where spans go; default: the global one. Where the application has set none spans go
            to one of our own, and from then on to the application's when it sets one.
        capture_content: Reserved for recording prompts and answers; nothing of them is recorded yet.
        propagate_to: Hosts whose requests carry `traceparent` (`*.example.com` for all below);
            default: loopback and private addresses; `()`: none.
        config: Path of an `agentprof.yaml`.
        exit_timeout_s: How long the end of the program may wait for the last spans to be sent; what is not
            sent by then is kept on disk. Default: `AGENTPROF_EXIT_TIMEOUT_S`, else 2.
        stream_usage: Streams of chat and of completions made with an SDK ask the provider for their usage, unless
            the program says itself whether it wants it; the chunk that brings it does not reach the program.
            Default: `AGENTPROF_STREAM_USAGE`, else off.
        estimate_usage: Where an answer comes without its usage, estimate its tokens from what was sent and
            received, labelled as an estimate. Default: `AGENTPROF_ESTIMATE_USAGE`, else off.
    """
    with _lock:
        present = _runtime.active()
        if present is not None and not present.settings.provisional:
            return
        try:
            settings = _settings.read(
                service_name=service_name,
                endpoint=endpoint,
                exporter=exporter,
                tracer_provider=tracer_provider,
                capture_content=capture_content,
                propagate_to=propagate_to,
                config=config,
                exit_timeout_s=exit_timeout_s,
                stream_usage=stream_usage,
                estimate_usage=estimate_usage,
                run=present.settings.run if present is not None else None,
            )
            switch_on(settings)
        except Exception:
            _guard.failed("instrument()")


def switch_on(settings: _settings.Settings) -> None:
    """Record by these settings from now on; what an earlier call has patched stays so."""
    with _lock:
        if _runtime.activate(_runtime_for(settings)) is None:
            from agentprof import _kept_back

            _apply([*_handover.thread_patches(), *_kept_back.patches()])
            _apply_seams()


def instrumented_modules() -> list[str]:
    """Modules of SDKs and HTTP libraries that are patched now."""
    from agentprof import _kept_back

    return sorted({patch.module() for patch in _applied} - _handover.STANDARD - {_kept_back.MODULE})


def uninstrument() -> None:
    """Put everything back as it was; what was patched over by others since then stays and passes through."""
    with _lock:
        if _runtime.activate(None) is None:
            return
        from agentprof import _export

        exports = _export.taken()
        for patch in reversed(tuple(_applied)):
            try:
                if patch.undo():
                    _applied.remove(patch)
            except Exception:
                _guard.failed("uninstrument()")
    try:
        # Without the lock: what the export imports, as price tables, may wait for it to be patched.
        _export.close(exports)
    except Exception:
        _guard.failed("uninstrument()")


def _runtime_for(settings: _settings.Settings) -> _runtime.Runtime:
    from opentelemetry import trace

    from agentprof import __version__, _export

    def tracer_of(provider: trace.TracerProvider) -> trace.Tracer:
        if settings.run is not None:
            from agentprof._run import child

            child.join(provider, settings.run)
        return provider.get_tracer(_runtime.SCOPE, __version__)

    def join(provider: trace.TracerProvider) -> trace.Tracer | None:
        try:
            with _lock:  # several threads may be the first to notice
                return tracer_of(provider) if _export.join(provider, settings) else None
        except Exception:
            _guard.failed("joining the application's tracer provider")
            return None

    present = trace.get_tracer_provider()
    own = settings.tracer_provider is None and isinstance(present, trace.ProxyTracerProvider)
    provider = _export.provider_for(settings) or present
    return _runtime.Runtime(
        settings=settings,
        own_tracer=tracer_of(provider),
        anchor_ns=anchor_ns(),
        join=join if own else None,
    )


def _apply(patches: Iterable[Patch]) -> None:
    for patch in patches:
        if not _in_place(patch):
            patch.apply()
            _applied.append(patch)


def _in_place(wanted: Patch) -> bool:
    """Whether the attribute leads to a replacement of ours: one that others patched over outlives its undo."""
    for patch in _applied:
        if patch.owner is wanted.owner and patch.name == wanted.name:
            if patch.current() is not patch.original:
                return True
            _applied.remove(patch)
            return False
    return False


def _seams() -> tuple[Seam, ...]:
    from agentprof.seams import SEAMS

    return (*SEAMS, _handover)


def _apply_seams() -> None:
    """Patch what is imported already, and the rest when it is imported."""
    for seam in _seams():
        for name in seam.MODULES:
            if name in sys.modules:
                _patch_module(sys.modules[name])
            elif name not in _hooked:
                _hooked.add(name)
                when_imported(name, _on_import)


def _on_import(module: ModuleType) -> None:
    with _lock:
        if _runtime.active() is not None:
            _patch_module(module)


def _patch_module(module: ModuleType) -> None:
    for seam in _seams():
        if module.__name__ in seam.MODULES:
            try:
                _apply(seam.patches(module))
            except Exception:
                _guard.failed(f"patching {module.__name__}")


class AgentprofInstrumentor:
    """What `opentelemetry-instrument` finds through the entry point; never raises."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """No package is required: what is not installed is not patched."""
        return ()

    def instrument(self, **kwargs: Any) -> None:
        """Switch on; of the loader's arguments only the tracer provider is used."""
        instrument(tracer_provider=kwargs.get("tracer_provider"))

    def uninstrument(self, **kwargs: Any) -> None:
        """Switch off."""
        uninstrument()
