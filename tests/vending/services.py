"""Make session services for tests: the product's own client, and a server whose answers a test writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.s3.storage import Storage
from signproxy.vending.sts import SessionService, SessionSource, SessionWanted
from tests.credentials.services import Key, Service, giving, key, sts
from tests.vending.scopes import AMAZON, EVENT

ROLE = "arn:aws:iam::123456789012:role/lake"
BASE = Key("AKIABASE000000000000", "base/Secret+Access/KEY0", "")
SESSION = key("session")
POLICY = '{"Version":"2012-10-17","Statement":[]}'


class Own:
    """The server's own credentials, or their absence."""

    def __init__(self, given: Key = BASE) -> None:
        self.now: Credentials | Refused = Credentials(given.key_id, given.secret, given.token)
        self.asked: list[str] = []

    def current_of_any(self, _storage: Storage, bucket: str) -> Credentials:
        """Return them."""
        self.asked.append(bucket)
        if isinstance(self.now, Refused):
            raise self.now
        return self.now


def session_service(
    server: Service, own: Own | None = None, *, clock: Callable[[], float] = time.time, **settings: Any
) -> SessionService:
    """Return a client of the server, for Amazon's storage unless the settings say another."""
    source = SessionSource(**{"storage": AMAZON, "role": ROLE, "endpoint": server.url, **settings})
    return SessionService(source, own or Own(), clock=clock)


def answering(server: Service, given: Key = SESSION, caller: Key = BASE) -> None:
    """Have the server give this session to the one caller whose signature it takes."""
    server.answer = sts(giving(lambda: given), lambda: (caller,))


def question(principal: str = "corp/alice", latest: float | None = None, policy: str = POLICY) -> SessionWanted:
    """Return what one session is to be."""
    return SessionWanted(policy, principal, EVENT, "lake", latest)
