"""Hold an S3 key pair so that it cannot slip into a log, a pickle or a copy."""

from __future__ import annotations

import re
from functools import partial
from hmac import compare_digest
from math import isfinite
from typing import NoReturn

from signproxy.errors import Finding, ProviderInvalid
from signproxy.telemetry.log import never_log

# Whatever else it holds, a key id or secret with a space, a line end or a letter beyond ASCII was pasted wrongly.
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_SHOWN = 4
_SHORTEST_SHOWN = 12
"""Characters from which an access key id shows its last four: of a shorter one they would be most of it."""


@never_log
class Credentials:
    """What a request is signed with, and until when.

    Not a dataclass or a Struct: those can be turned into dictionaries, JSON and copies by generic code.
    """

    # Attributes and not properties: the signer reads them for each request.
    __slots__ = ("access_key_id", "expires_at", "secret_access_key", "session_token")

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: float | None
    """Unix time from which the store refuses them; None if nothing was said."""

    def __init__(
        self, access_key_id: str, secret_access_key: str, session_token: str = "", expires_at: float | None = None
    ) -> None:
        faults = [
            Finding("", name, "has a character that no key has" if value else "is empty")
            for name, value, needed in (
                ("access_key_id", access_key_id, True),
                ("secret_access_key", secret_access_key, True),
                ("session_token", session_token, False),
            )
            if (value or needed) and not _PRINTABLE.fullmatch(value)
        ]
        if expires_at is not None and not isfinite(expires_at):
            faults.append(Finding("", "expires_at", "is not a time"))
        if faults:
            raise ProviderInvalid(faults)
        put = partial(object.__setattr__, self)
        put("access_key_id", access_key_id)
        put("secret_access_key", secret_access_key)
        put("session_token", session_token)
        put("expires_at", expires_at)

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"credentials are exchanged, never changed: {name}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Credentials):
            return NotImplemented
        return (
            self.access_key_id == other.access_key_id
            and compare_digest(self.secret_access_key, other.secret_access_key)
            and compare_digest(self.session_token, other.session_token)
            and self.expires_at == other.expires_at
        )

    def __hash__(self) -> int:
        return hash(self.access_key_id)

    def __repr__(self) -> str:
        return f"Credentials({redacted_id(self.access_key_id)!r}, <secret>, expires_at={self.expires_at!r})"

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise TypeError("credentials are not pickled or copied: they stay in this process")


def redacted_id(access_key_id: str) -> str:
    """Return what may be shown of an access key id: its last four characters, if that leaves most of it hidden."""
    return f"…{access_key_id[-_SHOWN:]}" if len(access_key_id) >= _SHORTEST_SHOWN else "…"
