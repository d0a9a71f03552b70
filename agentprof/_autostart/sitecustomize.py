"""Stands first on the path of every Python process below `agentprof run`, and is loaded when it starts.

Costs the process next to nothing until it imports a package that calls models; then agentprof is switched
on. Written so that any Python can load it, and so that nothing is printed or raised whatever happens: it may
be an environment without agentprof. A `sitecustomize` of the environment itself is loaded afterwards.
"""

import json
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Watch(object):  # noqa: UP004
    """Sees which of the awaited packages are imported; the first one switches agentprof on."""

    def __init__(self, settings):
        # type: (dict[str, object]) -> None
        self._settings = settings
        self._awaited = frozenset(settings["awaited"])  # type: ignore[call-overload]
        self._on = False

    def find_spec(self, name, path=None, target=None):
        # type: (str, object, object) -> object
        if name not in self._awaited:
            return None
        try:
            self.note(kind="import", name=name)
            if not self._on:
                self._on = True
                self.switch_on()
                from importlib.util import find_spec

                # Asks again, for the hooks that stand before this one by now.
                return find_spec(name)
        except Exception:  # noqa: S110 (nothing of ours may show in the program)
            pass
        return None

    def switch_on(self):
        # type: () -> None
        self._on = True
        try:
            from agentprof._run import child
        except ImportError as missing:
            self.note(kind="missing", error=str(missing), executable=sys.executable, python=_version())
        else:
            child.begin()

    def note(self, **said):
        # type: (object) -> None
        try:
            path = os.path.join(str(self._settings["notes"]), "%d.jsonl" % os.getpid())  # noqa: UP031
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, (json.dumps(said) + "\n").encode("utf-8"))
            finally:
                os.close(file)
        except Exception:  # noqa: S110
            pass


def _version():
    # type: () -> str
    return ".".join(str(part) for part in sys.version_info[:3])


def _start():
    # type: () -> None
    settings = json.loads(os.environ["AGENTPROF_RUN"])
    watch = _Watch(settings)
    watch.note(
        kind="start",
        ppid=os.getppid() if hasattr(os, "getppid") else 0,
        executable=sys.executable,
        python=_version(),
        argv=[argument[:500] for argument in getattr(sys, "orig_argv", ())[:16]],
    )
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    if any(mark["target"].startswith("__main__:") for mark in settings["marks"]):
        watch.switch_on()


def _load_shadowed():
    # type: () -> None
    """Load the `sitecustomize` that would have been loaded without this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info >= (3, 4):
    try:
        _start()
    except Exception:  # noqa: S110
        pass
    _load_shadowed()
