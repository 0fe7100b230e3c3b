"""Set up stores for tests: a clock that a test sets, and what is looked at again and again."""

from __future__ import annotations

import pytest

from signproxy.credentials.credentials import Credentials
from signproxy.credentials.store import CredentialStore
from signproxy.errors import Reason, Refused
from tests.credentials.memory import SECRET
from tests.credentials.values import storage

LAKE = storage()
NOW = 1_800_000_000.0


class Clock:
    """Unix time that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def session(key_id: str, seconds: float) -> Credentials:
    return Credentials(key_id, SECRET, "token", NOW + seconds)


def key_id(store: CredentialStore, bucket: str = "sales") -> str:
    return store.current(LAKE, bucket).access_key_id


def reason_of(store: CredentialStore, bucket: str = "sales") -> str:
    """Return why there are no credentials."""
    with pytest.raises(Refused) as caught:
        store.current(LAKE, bucket)
    assert caught.value.reason is Reason.CREDENTIALS_UNAVAILABLE
    return caught.value.detail
