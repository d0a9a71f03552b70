"""SDKs on one generated base client: `request` is the call, `_build_request` an attempt,
`_sleep_for_retry` the pause after a failed one, `_process_response` the answer.

That covers every endpoint and every way to call it: parsed, raw, streamed, sync and async. What a version
of the base client lacks is not patched. Older ones repeat by recursion instead of a loop: `_retry_request`
pauses, then calls `_request` for the next attempt.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _calls, _guard, _runtime
from agentprof._calls import Call
from agentprof._failures import failure_kind
from agentprof._hidden_usage import with_usage
from agentprof._patching import Patch, patches_in
from agentprof._repeated import call_maker
from agentprof.dialects import Dialect, dialect_of
from agentprof.seams import _self_tracing
from agentprof.seams._clients import OWN_PATHS, named_server, server, usual_path

MODULES: Final[tuple[str, ...]] = (
    "openai._base_client",
    "anthropic._base_client",
    "cerebras.cloud.sdk._base_client",
    "fireworks._base_client",
    "google.genai._interactions._base_client",
    "groq._base_client",
    "perplexity._base_client",
    "sambanova._base_client",
    "together._base_client",
    "writerai._base_client",
)
"""Base clients of the family; another SDK of it is one more entry."""


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in one base client."""
    wanted: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("BaseClient", "_build_request", _build_request),
        ("SyncAPIClient", "request", _request),
        ("SyncAPIClient", "_sleep_for_retry", _sleep_for_retry),
        ("SyncAPIClient", "_retry_request", _retry_request),
        ("SyncAPIClient", "_process_response", _process_response),
        ("AsyncAPIClient", "request", _request_async),
        ("AsyncAPIClient", "_sleep_for_retry", _sleep_for_retry_async),
        ("AsyncAPIClient", "_retry_request", _retry_request_async),
        ("AsyncAPIClient", "_process_response", _process_response_async),
    ]
    if "_retry_request" in vars(module.SyncAPIClient):
        # In later versions there is no `_request`, or it is not what an attempt begins with.
        wanted += [
            ("SyncAPIClient", "_request", _repeated_request),
            ("AsyncAPIClient", "_request", _repeated_request_async),
        ]
    return patches_in(module, wanted) + _self_tracing.patches(module)


# --- the call ------------------------------------------------------------------------------------
def _request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return original(self, *args, **kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        _returned(call)
        return result

    return request


def _request_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, args, kwargs)
        if call is None:
            return await original(self, *args, **kwargs)
        try:
            result = await original(self, *args, **kwargs)
        except BaseException as error:
            _failed(call, error)
            raise
        _returned(call)
        return result

    return request


def _begin(client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """Start a call if this request goes to a model endpoint."""
    runtime = _runtime.active()
    if runtime is None:
        return None
    try:
        options = kwargs["options"] if "options" in kwargs else args[1]
        if options.method.lower() != "post":
            return None
        path = options.url if options.url not in OWN_PATHS else usual_path(client, options.url)
        dialect = dialect_of(path)
        if dialect is None:
            return None
        model, stream = _asked(options, dialect)
        host, port, provider = server(client) if "://" not in options.url else named_server(options.url)
        return call_maker()(runtime, dialect, model, stream, host, port, provider)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _asked(options: Any, dialect: Dialect) -> tuple[str | None, bool]:
    """Model and streaming from the body the SDK has already built; nothing in it is iterated."""
    body, more = options.json_data, options.extra_json
    if more is None and isinstance(body, dict):  # as nearly always
        model = body.get("model")
        return model if isinstance(model, str) else None, body.get("stream") is True
    model = stream = None
    sent = body if body is not None else options.content
    if isinstance(sent, bytes):
        asked = dialect.asked(sent)
        model, stream = asked.model, asked.stream
    for part in (body, more):
        if isinstance(part, dict):
            model = part.get("model", model)
            stream = part.get("stream", stream)
    return model if isinstance(model, str) else None, stream is True


def _failed(call: Call, error: BaseException) -> None:
    try:
        call.leave()
        status_code = getattr(error, "status_code", None)
        if isinstance(status_code, int):
            status = str(status_code)
            refusal = getattr(error, "response", None)
            call.headers = getattr(refusal, "headers", None)
        else:
            cause = error.__cause__
            status = failure_kind(cause if cause is not None else error)
        call.failed(error, status)
    except Exception:
        _guard.failed("a failed call")


def _returned(call: Call) -> None:
    try:
        call.leave()
        call.returned()
    except Exception:
        _guard.failed("the end of a call")


# --- attempts ------------------------------------------------------------------------------------
def _build_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _build_request(self: Any, options: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is not None and call.asks_for_usage:
            _ask_for_usage(call, options)
        request = original(self, options, **kwargs)
        if call is not None:
            try:
                call.body = vars(request).get("_content")  # present where the body was given whole
                traceparent = call.attempt()
                if traceparent is not None and "traceparent" not in request.headers:
                    request.headers["traceparent"] = traceparent
            except Exception:
                _guard.failed("the start of an attempt")
        return request

    return _build_request


def _ask_for_usage(call: Call, options: Any) -> None:
    """Let the stream bring its usage; `options` is the SDK's own object, made for this call."""
    try:
        body = options.json_data
        # What the caller adds beside the body is merged over it.
        if isinstance(body, dict) and "stream_options" not in (options.extra_json or ()):
            asking = with_usage(body)
            if asking is not None:
                options.json_data = asking
                call.hides_usage = True
    except Exception:
        _guard.failed("asking for usage")


def _sleep_for_retry(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _sleep_for_retry(self: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        _attempt_failed(call, kwargs.get("response"))
        result = original(self, **kwargs)
        _pause_over(call)
        return result

    return _sleep_for_retry


def _sleep_for_retry_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _sleep_for_retry(self: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        _attempt_failed(call, kwargs.get("response"))
        result = await original(self, **kwargs)
        _pause_over(call)
        return result

    return _sleep_for_retry


def _retry_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _retry_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        _attempt_failed(_calls.current_call(), None)
        return original(self, *args, **kwargs)

    return _retry_request


def _retry_request_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _retry_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        _attempt_failed(_calls.current_call(), None)
        return await original(self, *args, **kwargs)

    return _retry_request


def _repeated_request(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is not None and call.attempts:
            _pause_over(call)
        return original(self, *args, **kwargs)

    return _request


def _repeated_request_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _request(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _calls.current_call()
        if call is not None and call.attempts:
            _pause_over(call)
        return await original(self, *args, **kwargs)

    return _request


def _attempt_failed(call: Call | None, response: Any) -> None:
    if call is None:
        return
    try:
        if response is None:
            # The SDK waits inside its `except` block: that exception is what happened.
            error = sys.exception()
            status_code = getattr(getattr(error, "response", None), "status_code", None)
        else:
            error, status_code = None, response.status_code
        call.attempt_failed(failure_kind(error) if status_code is None else str(status_code))
    except Exception:
        _guard.failed("a failed attempt")


def _pause_over(call: Call | None) -> None:
    if call is None:
        return
    try:
        call.pause_over()
    except Exception:
        _guard.failed("the end of a pause")


# --- the answer ----------------------------------------------------------------------------------
def _process_response(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _process_response(self: Any, **kwargs: Any) -> Any:
        _answered(self, kwargs)
        return original(self, **kwargs)

    return _process_response


def _process_response_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def _process_response(self: Any, **kwargs: Any) -> Any:
        _answered(self, kwargs)
        return await original(self, **kwargs)

    return _process_response


def _answered(client: Any, kwargs: dict[str, Any]) -> None:
    call = _calls.current_call()
    response = kwargs.get("response")
    if response is None:
        return
    try:
        if call is None:
            _file_read(client, kwargs.get("options"), response)
        elif response.status_code >= 400:
            pass  # anthropic hands refusals to its middleware as answers; what comes of them is told elsewhere
        elif response.is_closed:
            call.headers = response.headers
            call.answered(response.status_code, response.content)
        else:
            call.headers = response.headers
            call.answered_open(response)
    except Exception:
        _guard.failed("reading an answer")


def _file_read(client: Any, options: Any, response: Any) -> None:
    """The content of a file comes, which may be that of a batch."""
    runtime = _runtime.active()
    if runtime is None or options is None or response.status_code != 200 or options.method.lower() != "get":
        return
    if not response.is_closed:
        if "/results" in options.url:
            from agentprof import _message_batches

            _message_batches.watch(runtime, options.url, response, *server(client))
        return
    from agentprof import _batches

    file = _batches.file_of(options.url)
    if file is not None:
        _batches.read(runtime, file, response.content, *server(client))
