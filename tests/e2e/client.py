"""Be a client that signs remotely: ask signproxy, merge the answer as Iceberg Java or PyIceberg does, send."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from urllib.parse import quote

from tests.e2e.server import Signer, SignServer
from tests.e2e.stores import DOMAIN, RunningStore
from tests.e2e.wire import Answer, Wire
from tests.verifier import WireHttp, as_java, as_pyiceberg


class Merge(Enum):
    """How a client family puts a signer's answer into its own request."""

    JAVA = "iceberg-java"
    PYICEBERG = "pyiceberg"

    @property
    def version(self) -> str:
        """The release whose merge `tests/verifier.py` follows."""
        return {"iceberg-java": "1.12.0", "pyiceberg": "0.12.0"}[self.value]

    def apply(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> WireHttp:
        """Return what the client sends."""
        merge: Callable[[Mapping[str, Any], Mapping[str, Any]], WireHttp]
        merge = as_java if self is Merge.JAVA else as_pyiceberg
        return merge(message, answer)


class Addressing(Enum):
    """Where the bucket stands."""

    PATH = "path"
    VIRTUAL_HOST = "virtual-host"


@dataclass(frozen=True, slots=True)
class Sent:
    """A signed request on its way, and the answer of signproxy that it was made from."""

    wire: WireHttp
    signed: dict[str, Any]


class RemoteSigningClient:
    """A client of one table."""

    def __init__(
        self,
        server: SignServer,
        store: RunningStore,
        route: str,
        *,
        merge: Merge,
        bucket: str,
        addressing: Addressing = Addressing.PATH,
    ) -> None:
        self.store = store
        self.merge = merge
        self.bucket = bucket
        self._route = route
        self._addressing = addressing
        self._signer = Signer(server)
        self._wire = Wire(store.port)

    def close(self) -> None:
        """Close both connections."""
        self._signer.close()
        self._wire.close()

    def uri(self, key: str = "", query: str = "") -> str:
        """Return the URI of a key as SDKs write it."""
        if self._addressing is Addressing.PATH:
            base = f"{self.store.origin}/{self.bucket}"
        else:
            base = f"http://{self.bucket}.{DOMAIN}:{self.store.port}"
        path = f"/{quote(key, safe='/~')}" if key else ""
        return f"{base}{path}" + (f"?{query}" if query else "")

    def ask(
        self,
        method: str,
        key: str = "",
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
    ) -> Answer:
        """Return signproxy's own answer, whatever it is."""
        return self._signer.ask(self._route, self._message(method, key, query, headers, body))

    def prepare(
        self,
        method: str,
        key: str = "",
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        body: str | None = None,
    ) -> Sent:
        """Have a request signed and merged, ready to be sent; `body` is what a bulk delete shows the signer."""
        message = self._message(method, key, query, headers, body)
        answer = self._signer.ask(self._route, message)
        if not answer.ok:
            raise AssertionError(f"not signed: {message} {answer.status} {answer.body.decode()}")
        signed: dict[str, Any] = json.loads(answer.body)
        wire = self.merge.apply(message, signed)
        return Sent(replace(wire, body=body.encode() if body is not None else content), signed)

    def send(
        self,
        method: str,
        key: str = "",
        query: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        body: str | None = None,
    ) -> Answer:
        """Have a request signed and send it."""
        return self.transmit(self.prepare(method, key, query, headers=headers, content=content, body=body).wire)

    def transmit(self, wire: WireHttp) -> Answer:
        """Send a request to the store, just as it is."""
        return self._wire.send(wire)

    def _message(
        self, method: str, key: str, query: str, headers: Mapping[str, str] | None, body: str | None
    ) -> dict[str, Any]:
        message: dict[str, Any] = {
            "region": self.store.region,
            "method": method,
            "uri": self.uri(key, query),
            "headers": {name: [value] for name, value in (headers or {}).items()},
        }
        if body is not None:
            message["body"] = body
        return message


@contextmanager
def client_of(
    server: SignServer,
    store: RunningStore,
    route: str,
    merge: Merge,
    bucket: str,
    addressing: Addressing = Addressing.PATH,
) -> Iterator[RemoteSigningClient]:
    """Run a client until the block ends."""
    client = RemoteSigningClient(server, store, route, merge=merge, bucket=bucket, addressing=addressing)
    try:
        yield client
    finally:
        client.close()
