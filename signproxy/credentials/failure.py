"""Say why a provider has no credentials, in words that hold none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from signproxy.errors import SignproxyError
from signproxy.telemetry.neutralise import neutralise

MAX_DETAIL_CHARACTERS = 300
"""What a service says of a refusal has some 200."""

_HIDDEN = "…"
_SHORTEST_SECRET = 4
"""Shorter ones stand in too many words to be taken out of them."""
_JWT = re.compile(r"eyJ[\w-]{8,}(?:\.[\w-]*)*")


class FailureKind(Enum):
    """What kept the credentials away; the value is how it is told."""

    NONE_FOUND = "no credentials found"
    CONFIGURATION = "wrongly configured"
    DENIED = "access denied"
    EXPIRED = "expired"
    REFUSED = "refused"
    THROTTLED = "throttled"
    TIMEOUT = "no answer in time"
    UNAVAILABLE = "not available"
    MALFORMED = "answer not understood"
    FAILED = "failed"


class NotObtained(SignproxyError):
    """A provider has no credentials for now. Its text is for the operator, and holds no secret."""

    def __init__(self, kind: FailureKind, detail: str = "", code: str = "") -> None:
        super().__init__(kind, detail, code)
        self.kind = kind
        self.detail = detail
        self.code = code
        """The error code of the service that answered, where one did."""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value


def told(text: str, secrets: Iterable[str] = ()) -> str:
    """Return another's text as it may be shown: in one line, cut, and without these secrets and any token."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, _HIDDEN)
    text = neutralise(" ".join(_JWT.sub(_HIDDEN, text).split()))
    return text if len(text) <= MAX_DETAIL_CHARACTERS else text[: MAX_DETAIL_CHARACTERS - 1] + _HIDDEN
