"""A headless Chromium, spoken to over a pipe in its DevTools protocol: opens a page, evaluates, takes pictures.

Nothing but the standard library: with --remote-debugging-pipe the browser reads JSON commands from descriptor 3 and
writes answers to 4, each ended by a zero byte. `find()` says where a browser is, or None.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
)
#: Becomes the browser, with the pipes where it looks for them.
_PUT_PIPES_AT_3_AND_4 = """import fcntl, os, sys
high = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3]]
os.dup2(high[0], 3), os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])"""


_SOCKET_PATH_BYTES = 107  # the kernel's limit for the name of a Unix socket
_SOCKET = "/mpb-browser-12345678/org.chromium.Chromium.123456/SingletonSocket"


def _profile_room() -> str:
    """Where the profile lies: the browser makes a socket in it, whose name must not be too long."""
    room = tempfile.gettempdir()
    return room if len(os.fsencode(room) + os.fsencode(_SOCKET)) <= _SOCKET_PATH_BYTES else "/tmp"


def find() -> str | None:
    """The path of a Chromium or Chrome on PATH."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one tab; a context manager. `messages`: what pages wrote to their console, and uncaught
    errors."""

    def __init__(self, program: str, timeout_s: float = 60) -> None:
        self._profile = tempfile.TemporaryDirectory(
            prefix="mpb-browser-", dir=_profile_room(), ignore_cleanup_errors=True
        )
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._deadline_s, self._buffer, self._number = timeout_s, b"", 0
        self.messages: list[str] = []
        # A session of its own, so that close() ends all of it.
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                _PUT_PIPES_AT_3_AND_4,
                str(to_browser),
                str(from_browser),
                program,
                *_FLAGS,
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TMPDIR": self._profile.name},
        )  # it leaves sockets there when it is killed
        os.close(to_browser)
        os.close(from_browser)
        self._session: str | None = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False, scale: float = 1) -> None:
        """Load a file at a size and on a ground, and wait until all its figures have been tried."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.call("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + self._deadline_s
        while not self.evaluate("document.readyState === 'complete' && document.documentElement.dataset.drawn || ''"):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{page.name} had not drawn its figures after {self._deadline_s} s; console: {self.messages}"
                )
            time.sleep(0.1)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def picture(self, whole_page: bool = True) -> bytes:
        """A PNG of the page."""
        options: dict[str, Any] = {}
        if whole_page:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {**size, "x": 0, "y": 0, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"])

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; RuntimeError with the browser's words when it refuses."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + self._deadline_s
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                raise TimeoutError("the browser has ended" if ready else "the browser does not answer")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        """Keep console output, log entries and uncaught exceptions; at most 100."""
        detail = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled":
            self.messages.append(
                f"{detail['type']}: "
                + " ".join(str(one.get("value", one.get("description"))) for one in detail["args"])
            )
        elif event.get("method") == "Runtime.exceptionThrown":
            self.messages.append("exception: " + json.dumps(detail["exceptionDetails"])[:500])
        elif event.get("method") == "Log.entryAdded":
            self.messages.append(f"{detail['entry']['level']}: {detail['entry']['text']}")
        del self.messages[100:]
