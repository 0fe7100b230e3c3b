"""Be a session service that believes only what is signed, and fails in each way in which such services fail."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from tests.credentials.services import Alter, Answer, Key, Seen, Service, giving, is_signed, refusal
from tests.e2e.faults.deployment import REGION, Keys

ROLE = "arn:aws:iam::123456789012:role/signer"


class Mode(Enum):
    """How the service is doing."""

    WELL = "well"
    DOWN = "answers with a fault of its own"
    DENYING = "denies"
    THROTTLING = "throttles"
    HANGING = "does not answer"
    GARBLED = "answers nonsense"


_WORDS = "as the test asked for"
_FAULTS = {
    Mode.DOWN: refusal("InternalFailure", _WORDS, 500),
    Mode.DENYING: refusal("AccessDenied", _WORDS, 403),
    Mode.THROTTLING: refusal("Throttling", _WORDS, 400),
    Mode.HANGING: Answer(503, b"", after=60),
    Mode.GARBLED: Answer(200, b"<html>maintenance</html>"),
}


class SessionService:
    """A running service. The sessions that it gave are in `keys`, with which their signatures are verified."""

    def __init__(self, keys: Keys) -> None:
        self.mode = Mode.WELL
        self.seconds = 3600.0
        """How long a session lasts."""
        self.given: list[str] = []
        """The access key ids of the sessions, the newest last."""
        self.refused: list[str] = []
        """Why requests were not believed; a good client leaves none."""
        self.clock_offset = 0.0
        self._keys = keys
        self._service = Service(self._answer)

    @property
    def asked(self) -> int:
        return len(self._service.seen)

    def provider(self, source: str) -> dict[str, Any]:
        """Return the provider of the settings that asks here."""
        properties = {"role_arn": ROLE, "endpoint": self._service.url, "region": REGION, "session_name": "e2e"}
        return {"class": "assume-role", "source": source, "properties": properties}

    @contextmanager
    def running(self) -> Iterator[SessionService]:
        """Serve until the block ends."""
        try:
            yield self
        finally:
            self._service.close()

    def _answer(self, seen: Seen) -> Answer | Alter:
        if self.mode in _FAULTS:
            return _FAULTS[self.mode]
        problem = self._problem(seen)
        if problem:
            self.refused.append(problem)
            return refusal("SignatureDoesNotMatch", problem, 403)
        return giving(self._session)

    def _problem(self, seen: Seen) -> str:
        """Return why the request is not believed, or nothing."""
        if (seen.form.get("Action"), seen.form.get("RoleArn")) != ("AssumeRole", ROLE):
            return f"not what it should ask for: {seen.form}"
        key = seen.headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]
        if key not in self._keys.secrets or self._keys.tokens.get(key) is not None:
            return f"unknown key {key!r}"
        return "" if is_signed(seen, Key(key, self._keys.secrets[key], "")) else "wrong signature"

    def _session(self) -> Key:
        token = secrets.token_urlsafe(64)
        key, secret = self._keys.new(token)
        self.given.append(key)
        return Key(key, secret, token, self.clock_offset + self.seconds)
