"""Open a page in a headless Chromium, over a pipe: what it asks for, what it complains of, and how it looks."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.e2e.stores.install import PrerequisiteMissing

SECONDS = 60.0
_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
_INSTALL_SECONDS = 600
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def chromium() -> str:
    """Return where Debian's Chromium is, installed by name where that is allowed. Raise PrerequisiteMissing."""
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(("apt-get", "update", "--quiet"), capture_output=True, timeout=_INSTALL_SECONDS, check=False)
        subprocess.run(_INSTALL, capture_output=True, timeout=_INSTALL_SECONDS, check=False)
        found = shutil.which("chromium")
    if found is None:
        raise PrerequisiteMissing("the report is looked at with Debian's package chromium: apt-get install chromium")
    return found


class Browser:
    """A browser, and one page of it."""

    def __init__(self, writer: int, reader: int) -> None:
        self._writer = writer
        self._reader = reader
        self._left = b""
        self._number = 0
        self.requests: list[str] = []
        """URLs that pages asked for."""
        self.complaints: list[str] = []
        """What the console said, refusals of the policy among it."""
        target = self.call("Target.createTarget", {"url": "about:blank"}, session="")["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True}, session="")
        self._session = str(attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")

    def call(self, method: str, parameters: Mapping[str, Any] | None = None, *, session: str | None = None) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": dict(parameters or {})}
        where = self._session if session is None else session
        if where:
            message["sessionId"] = where
        os.write(self._writer, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path: Path, *, width: int = 1120, dark: bool = False, media: str = "screen") -> Self:
        """Open a page of this machine, as a reader with this taste sees it."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", {"media": media, "features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", size)
        self.call("Page.navigate", {"url": path.as_uri()})
        deadline = time.monotonic() + SECONDS
        while self.evaluate("document.readyState") != "complete" or self.evaluate("location.href") == "about:blank":
            if time.monotonic() > deadline:
                raise TimeoutError(str(path))
        return self

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, which the browser's own tools may evaluate where a page may not."""
        found = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True})
        return found["result"].get("value")

    def pdf(self, path: Path) -> None:
        """Print the page."""
        found = self.call("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": False})
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._reader, 1 << 20)
            if not read:
                raise EOFError("the browser has ended")
            self._left += read
        line, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, event: Mapping[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(event["request"]["url"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str([each.get("value") for each in event["args"]]))
            case "Runtime.exceptionThrown":
                self.complaints.append(str(event["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(event["entry"]["text"])
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {event['message']}")
            case _:
                pass


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield a browser with a profile of its own, and end it and all that it started."""
    program = chromium()
    its_reader, our_writer = _pipe()
    our_reader, its_writer = _pipe()
    with tempfile.TemporaryDirectory(prefix="signproxy-browser-", ignore_cleanup_errors=True) as profile:
        pid = os.posix_spawn(
            program,
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            {**os.environ, "HOME": profile},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, its_reader, 3),
                (os.POSIX_SPAWN_DUP2, its_writer, 4),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0o600),
            ],
            setpgroup=0,
        )
        os.close(its_reader)
        os.close(its_writer)
        try:
            yield Browser(our_writer, our_reader)
        finally:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(our_writer)
            os.close(our_reader)


def _pipe() -> tuple[int, int]:
    """Return the two ends of a pipe, out of the way of the numbers that the browser wants."""
    ends = os.pipe()
    reader, writer = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return reader, writer
