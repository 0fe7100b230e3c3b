"""Hold vended keys as a client does, and send with them whatever a thief would."""

from __future__ import annotations

from dataclasses import dataclass

from signproxy.credentials.credentials import Credentials
from signproxy.s3.storage import Storage, StorageKind
from signproxy.vending.mints import SessionVendor
from signproxy.vending.sts import SessionService, SessionSource
from tests.e2e.stores.direct import Key, code_of, signed
from tests.e2e.stores.seam import RunningStore
from tests.e2e.vending.store import ROLE, SessionStore
from tests.e2e.wire import Answer, Wire

BUCKET = "lake"


class StoreOwn:
    """The server's own credentials: those of the store's owner."""

    def __init__(self, store: RunningStore) -> None:
        self._credentials = Credentials(store.access_key, store.secret)

    def current_of_any(self, _storage: Storage, _bucket: str) -> Credentials:
        """Return them."""
        return self._credentials


def vendor_of(running: SessionStore, role: str = ROLE) -> SessionVendor:
    """Return the product's own vendor, before this store."""
    store = running.store
    storage = Storage("lake", StorageKind.S3_COMPATIBLE, store.region, (BUCKET,), ())
    source = SessionSource(storage=storage, role=role, endpoint=store.origin, seconds=900, language=running.language)
    return SessionVendor({"lake": SessionService(source, StoreOwn(store))})


@dataclass(frozen=True, slots=True)
class Holder:
    """A client with a key pair and a session token."""

    store: RunningStore
    access_key_id: str
    secret_access_key: str
    session_token: str

    def ask(
        self, method: str, path: str, query: str = "", *, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a signed request for bucket and key."""
        key = Key(self.access_key_id, self.secret_access_key, self.store.region)
        sent = {"x-amz-security-token": self.session_token, **(headers or {})}
        with Wire(self.store.port) as wire:
            return wire.send(signed(self.store, method, path, query, headers=sent, body=body, key=key))

    def status(
        self, method: str, path: str, query: str = "", *, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> int:
        """Return the status of an answer."""
        return self.ask(method, path, query, body=body, headers=headers).status

    def code(self, method: str, path: str, query: str = "", *, headers: dict[str, str] | None = None) -> str:
        """Return the code of an error."""
        return code_of(self.ask(method, path, query, headers=headers))
