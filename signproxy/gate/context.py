"""Find what a client says of itself: its application and its query. Nothing proves it, and nothing is judged by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from signproxy.audit.encode import cut
from signproxy.audit.event import MAX_CONTEXT_BYTES

_USER_AGENT = "User-Agent"
# Where the AWS SDKs put what AWS_SDK_UA_APP_ID says; it holds no space.
_APP = " app/"


def bounded(said: str) -> str:
    """Return as much of the client's word as is recorded."""
    return cut(said, MAX_CONTEXT_BYTES)


def application_in(headers: Iterable[tuple[str, str]]) -> str:
    """Return the application that a forwarded request names in its user agent; names are in lower case."""
    for name, value in headers:
        if name == "user-agent":
            return _application(value)
    return ""


def application_of(headers: Mapping[str, Sequence[str]]) -> str:
    """Return the application that the S3 request itself names in its user agent, as every AWS SDK can.

    The sign call's own user agent is that of an HTTP library, and says nothing.
    """
    agents = headers.get(_USER_AGENT)
    if not agents:
        return ""
    return _application(agents[0])


def _application(agent: str) -> str:
    at = agent.find(_APP)
    if at < 0:
        return ""
    return bounded(agent[at + len(_APP) :].partition(" ")[0])
