"""Stands first on the path of every Python process below `agentprof run`, and is loaded when it starts.

Costs the process next to nothing until it imports a package that calls models; then agentprof is switched
on. Written so that any Python can load it, and so that nothing is printed or raised whatever happens: it may
be an environment without agentprof. A `sitecustomize` of the environment itself is loaded afterwards.

Imports only what every start of Python has loaded: a module loaded here would hide one of the same name that
stands beside the program (`json.py`, `operator.py`).
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Watch(object):  # noqa: UP004
    """Sees which of the awaited packages are imported; the first one switches agentprof on."""

    def __init__(self, text):
        # type: (str) -> None
        self._text = text
        self._notes, marks_script, awaited = text.split("\n")[:3]
        self.marks_script = marks_script == "1"
        self._awaited = frozenset(awaited.split(","))
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
                # Asks again, for the hooks that stand before this one by now.
                return _frozen("_frozen_importlib")._find_spec(name, path, target)  # type: ignore[attr-defined]
        except Exception:  # noqa: S110 (nothing of ours may show in the program)
            pass
        return None

    def switch_on(self):
        # type: () -> None
        self._on = True
        other = _other_of_the_name()
        if other:
            self.note(
                kind="missing", error="hidden", name=other, executable=sys.executable, python=_version()
            )
            return
        try:
            from agentprof._run import child
        except ImportError as missing:
            self.note(kind="missing", error=str(missing), executable=sys.executable, python=_version())
        else:
            child.begin(self._text)

    def note(self, **said):
        # type: (object) -> None
        try:
            path = os.path.join(self._notes, "%d.jsonl" % os.getpid())
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, (_as_json(said) + "\n").encode("ascii"))
            finally:
                os.close(file)
        except Exception:  # noqa: S110
            pass


def _other_of_the_name():
    # type: () -> str
    """The file of a module that is called as we are and stands before us, without loading it; empty: there is none."""
    module = sys.modules.get("agentprof")
    spec = getattr(module, "__spec__", None)
    if module is None:
        spec = _frozen("_frozen_importlib")._find_spec("agentprof", None)  # type: ignore[attr-defined]
    folders = getattr(spec, "submodule_search_locations", None) or ()
    if spec is None or any(os.path.isdir(os.path.join(folder, "_run")) for folder in folders):
        return ""
    return str(getattr(spec, "origin", None) or (list(folders) or ["agentprof"])[0])


def _version():
    # type: () -> str
    return ".".join(str(part) for part in sys.version_info[:3])


def _as_json(value):
    # type: (object) -> str
    if isinstance(value, dict):
        return "{%s}" % ",".join(_as_json(key) + ":" + _as_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(_as_json(item) for item in value)
    if isinstance(value, int):
        return str(value)
    return '"%s"' % "".join(_escaped(ord(letter)) for letter in str(value))


def _escaped(code):
    # type: (int) -> str
    if 32 <= code < 127 and code not in (34, 92):
        return chr(code)
    if code > 0xFFFF:
        code -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
    return "\\u%04x" % (0xFFFD if 0xD800 <= code < 0xE000 else code)


def _frozen(name):
    # type: (str) -> object
    """A part of the import system itself, which is always loaded; `importlib` is not."""
    return sys.modules[name]


def _start():
    # type: () -> None
    watch = _Watch(os.environ["AGENTPROF_RUN"])
    watch.note(
        kind="start",
        ppid=os.getppid() if hasattr(os, "getppid") else 0,
        executable=sys.executable,
        python=_version(),
        argv=[argument[:500] for argument in getattr(sys, "orig_argv", ())[:16]],
    )
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    if watch.marks_script:
        watch.switch_on()


def _load_shadowed():
    # type: () -> None
    """Load the `sitecustomize` that would have been loaded without this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    spec = _frozen("_frozen_importlib_external").PathFinder.find_spec("sitecustomize", sys.path)  # type: ignore[attr-defined]
    if spec is not None and spec.loader is not None:
        module = _frozen("_frozen_importlib").module_from_spec(spec)  # type: ignore[attr-defined]
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info >= (3, 5):
    try:
        _start()
    except Exception:  # noqa: S110
        pass
    _load_shadowed()
