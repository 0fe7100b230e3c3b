"""Serve health and metrics to kubelet and Prometheus, on a listener of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aiohttp import web

from signproxy.server.reply import Reply

_TEXT = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"
_METRICS = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nCache-Control: no-store\r\n"


class AdminHandler:
    """`/livez`, `/readyz`, `/startupz` and `/metrics`; nothing here changes or reveals anything."""

    def __init__(self, problems: Callable[[], Mapping[str, str]], metrics: Callable[[], bytes]) -> None:
        self._problems = problems
        self._metrics = metrics

    async def __call__(self, request: web.BaseRequest) -> Reply:
        """Answer a probe or a scrape."""
        path, _, query = request.raw_path.partition("?")
        if request.method not in ("GET", "HEAD"):
            return Reply(405, _TEXT, b"GET or HEAD\n")
        match path:
            case "/livez" | "/startupz":
                return Reply(200, _TEXT, b"ok\n")
            case "/readyz":
                return self._ready(verbose="verbose" in query.split("&"))
            case "/metrics":
                return Reply(200, _METRICS, self._metrics())
            case _:
                return Reply(404, _TEXT, b"not found\n")

    def _ready(self, *, verbose: bool) -> Reply:
        problems = self._problems()
        failing = {name: problem for name, problem in problems.items() if problem}
        shown = problems if verbose else failing
        lines = [f"{name}: {problem or 'ok'}\n" for name, problem in shown.items()]
        return Reply(503 if failing else 200, _TEXT, "".join(lines or ["ok\n"]).encode("ascii", "backslashreplace"))
