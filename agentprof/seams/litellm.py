"""LiteLLM: one use of its functions is one call with all its attempts, whatever it sends through.

What it sends is seen by the seams of the HTTP libraries, or by that of the SDK on the base client of openai; here is
only said where its own retries (`num_retries`) begin and end. A fallback to another model is another call. Its router
uses these functions once for each retry and each fallback, and so each of these is a call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from agentprof import _guard, _repeated
from agentprof._patching import Patch
from agentprof._repeated import Scope, ScopeOfTarget

MODULES: Final[tuple[str, ...]] = ("litellm",)
_REPEAT: Final = ("completion", "acompletion", "responses", "aresponses")
"""Functions that repeat what failed; others leave that to what they call."""


def patches(module: ModuleType) -> list[Patch]:
    """What is replaced in the package, and where it is defined: else it could not be pickled."""
    found = []
    for name in _REPEAT:
        original = vars(module).get(name)
        if not inspect.isfunction(original):
            continue
        around = _repeats_async if inspect.iscoroutinefunction(original) else _repeats
        replacement = around(original)
        home = sys.modules.get(original.__module__, module)
        owners = [module] if home is module or vars(home).get(name) is not original else [module, home]
        found += [Patch(owner, name, original, replacement) for owner in owners]
    return found


def _repeats(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def completion(*args: Any, **kwargs: Any) -> Any:
        scope = _opened()
        if scope is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None)
        return result

    return completion


def _repeats_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def acompletion(*args: Any, **kwargs: Any) -> Any:
        scope = _opened()
        if scope is None:
            return await original(*args, **kwargs)
        try:
            result = await original(*args, **kwargs)
        except BaseException as error:
            _end(scope, error)
            raise
        _end(scope, None)
        return result

    return acompletion


def _opened() -> Scope | None:
    try:
        return _repeated.open_scope(ScopeOfTarget)
    except Exception:
        _guard.failed("the start of a call")
        return None


def _end(scope: Scope, error: BaseException | None) -> None:
    try:
        scope.end(error)
    except Exception:
        _guard.failed("the end of a call")
