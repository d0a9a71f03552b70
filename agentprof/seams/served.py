"""Seam of web servers: where they hand a request to the application. Patched below `agentprof run` only.

ASGI: uvicorn. WSGI: gunicorn's workers, the servers of werkzeug and of the standard library.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from agentprof import _runtime
from agentprof._patching import Patch
from agentprof._served import Request, serve

MODULES: tuple[str, ...] = (
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.http.httptools_impl",
    "gunicorn.workers.sync",
    "gunicorn.workers.gthread",
    "gunicorn.workers.base_async",
    "werkzeug.serving",
    "wsgiref.handlers",
)

_WORKERS = {
    "gunicorn.workers.sync": "SyncWorker",
    "gunicorn.workers.gthread": "ThreadWorker",
    "gunicorn.workers.base_async": "AsyncWorker",
}


def patches(module: ModuleType) -> list[Patch]:
    """Where the server begins to answer a request; none outside a run."""
    runtime = _runtime.active()
    if runtime is None or runtime.settings.run is None:
        return []
    name = module.__name__
    if name.startswith("uvicorn"):
        return [_patch(module.RequestResponseCycle, "run_asgi", _run_asgi)]
    if name in _WORKERS:
        return [_patch(getattr(module, _WORKERS[name]), "handle_request", _handle_request)]
    if name == "werkzeug.serving":
        return [_patch(module.WSGIRequestHandler, "run_wsgi", _run_wsgi)]
    return [_patch(module.BaseHandler, "run", _run)]


def _patch(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Patch:
    original = vars(owner)[name]
    return Patch(owner, name, original, around(original))


def _run_asgi(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def run_asgi(self: Any, app: Any) -> Any:
        scope = self.scope
        request = Request(scope.get("method"), scope.get("path"))

        # The server catches what leaves the application: it is seen here.
        async def application(*args: Any) -> Any:
            try:
                return await app(*args)
            except BaseException as error:
                request.over(error)
                raise

        try:
            return await original(self, application)
        finally:
            request.over()

    return run_asgi


def _handle_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def handle_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        request = next((one for one in args if hasattr(one, "method") and hasattr(one, "path")), None)
        if request is None:
            return original(self, *args, **kwargs)
        return serve(request.method, request.path, lambda: original(self, *args, **kwargs))

    return handle_request


def _run_wsgi(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_wsgi(self: Any) -> Any:
        return serve(self.command, self.path, lambda: original(self))

    return run_wsgi


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(self: Any, application: Any) -> Any:
        begun: list[Request] = []

        def known(environ: Any, start_response: Any) -> Any:
            begun.append(Request(environ.get("REQUEST_METHOD"), environ.get("PATH_INFO")))
            try:
                return application(environ, start_response)
            except BaseException as error:
                begun[0].over(error)
                raise

        try:
            return original(self, known)
        finally:
            for request in begun:
                request.over()

    return run
