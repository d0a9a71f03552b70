"""Drives a headless Chromium over its debugging pipe: pages as a person sees them, with no library between."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

Message = dict[str, Any]


def find_chromium() -> str | None:
    """The browser of this machine, or one that `AGENTPROF_CHROMIUM` names; None where there is none."""
    return os.environ.get("AGENTPROF_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """A browser with a profile of its own, until the end of the block."""

    def __init__(self, binary: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # The browser reads commands from descriptor 3 and writes to descriptor 4.
        script = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, binary, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._changed = threading.Condition()
        self._received: list[Message] = []
        self._gone = False
        self._last_id = 0
        self._reader = threading.Thread(target=self._read, name="chromium", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        os.close(self._commands)

    def _read(self) -> None:
        with os.fdopen(self._answers, "rb") as stream:
            pending = b""
            while chunk := os.read(stream.fileno(), 1 << 16):
                *whole, pending = (pending + chunk).split(b"\0")
                with self._changed:
                    self._received += map(json.loads, whole)
                    self._changed.notify_all()
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def send(self, method: str, session: str | None = None, **parameters: Any) -> Message:
        """Send a command, and return its result."""
        self._last_id += 1
        number = self._last_id
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        answer = self.wait_for(lambda one: one.get("id") == number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: Message = answer["result"]
        return result

    def wait_for(self, fits: Callable[[Message], bool], since: int = 0) -> Message:
        """The first message received that fits, waiting for it."""

        def found() -> Message | None:
            return next((one for one in self._received[since:] if fits(one)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None or self._gone, PATIENCE_S)
            message = found()
        assert message is not None, "the browser has ended"
        return message

    @property
    def received(self) -> list[Message]:
        """All messages so far."""
        with self._changed:
            return list(self._received)

    def page(
        self, width: int, height: int, *, dark: bool = False, script: bool = True, phone: bool = False
    ) -> Page:
        """A new tab of that size, in CSS pixels."""
        return Page(self, width, height, dark=dark, script=script, phone=phone)


class Page:
    """A tab."""

    def __init__(
        self, browser: Chromium, width: int, height: int, *, dark: bool, script: bool, phone: bool
    ) -> None:
        self._browser = browser
        target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])
        self._send("Emulation.setScriptExecutionDisabled", value=not script)

    def _send(self, method: str, **parameters: Any) -> Message:
        return self._browser.send(method, self._session, **parameters)

    def open(self, url: str) -> None:
        """Go there, and wait until all of it is loaded."""
        since = len(self._browser.received)
        self._send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired", since)

    def wait_for(self, event: str, since: int = 0) -> Message:
        """Wait for an event of this tab."""
        return self._browser.wait_for(
            lambda one: one.get("method") == event and one.get("sessionId") == self._session, since
        )

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, also where its own scripts are off; promises are awaited."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def submit(self, expression: str) -> None:
        """Fill in the last form of the page with an expression, send it, and wait for the page that follows."""
        since = len(self._browser.received)
        self.evaluate(f"{expression}; [...document.forms].at(-1).requestSubmit()")
        self.wait_for("Page.loadEventFired", since)

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write what is seen, or the whole page, as PNG."""
        answer = self._send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    @property
    def problems(self) -> list[str]:
        """Everything a console would show in red so far: errors, exceptions, refused resources."""
        found = []
        for one in self._browser.received:
            if one.get("sessionId") != self._session or "method" not in one:
                continue
            parameters = one.get("params", {})
            if one["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif one["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["text"])
            elif one["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
                found.append(str(parameters["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses of everything that was asked for so far."""
        return [
            one["params"]["request"]["url"]
            for one in self._browser.received
            if one.get("sessionId") == self._session and one.get("method") == "Network.requestWillBeSent"
        ]

    def close(self) -> None:
        """Close the tab."""
        self._send("Page.close")
