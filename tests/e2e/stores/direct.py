"""Sign as the owner of a store would, from the specification alone, and send byte for byte."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from tests.e2e.stores.seam import RunningStore
from tests.e2e.wire import Answer, Wire
from tests.verifier import WireHttp


@dataclass(frozen=True, slots=True)
class Key:
    """What signs: by default the store's owner; a test replaces what it wants to get wrong."""

    access_key: str
    secret: str
    region: str
    skew: float = 0.0
    """Seconds that the signer's clock runs ahead."""

    @classmethod
    def of(cls, store: RunningStore) -> Self:
        """Return the owner's key."""
        return cls(store.access_key, store.secret, store.region)


def signed(
    store: RunningStore,
    method: str,
    path: str,
    query: str = "",
    *,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    payload: str | None = None,
    key: Key | None = None,
) -> WireHttp:
    """Return a signed path-style request; `path` is bucket and key as plain text, `query` is canonical."""
    key = key or Key.of(store)
    target = quote(f"/{path}", safe="/~")
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + key.skew))
    sent = {
        "host": store.authority,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest() if payload is None else payload,
        "x-amz-date": date,
        **{name.lower(): value for name, value in (headers or {}).items()},
    }
    names = sorted(sent)
    lines = [method, target, query, *(f"{name}:{sent[name]}" for name in names), "", ";".join(names)]
    request = "\n".join((*lines, sent["x-amz-content-sha256"]))
    scope = (date[:8], key.region, "s3", "aws4_request")
    derived = f"AWS4{key.secret}".encode()
    for part in scope:
        derived = hmac.digest(derived, part.encode(), "sha256")
    text = "\n".join(("AWS4-HMAC-SHA256", date, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()))
    signature = hmac.digest(derived, text.encode(), "sha256").hex()
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key.access_key}/{'/'.join(scope)}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return WireHttp(method, target + (f"?{query}" if query else ""), tuple(sent.items()), body)


def code_of(answer: Answer) -> str:
    """Return the code of an S3 error, or the status where there is none."""
    _, found, rest = answer.body.partition(b"<Code>")
    return rest.partition(b"</Code>")[0].decode() if found else str(answer.status)


class Owner:
    """The owner's view of a store: arranges what a test needs and looks at what became of it."""

    def __init__(self, store: RunningStore) -> None:
        self.store = store
        self._wire = Wire(store.port)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def ask(
        self, method: str, path: str, query: str = "", *, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Send a signed request, whatever the answer."""
        return self._wire.send(signed(self.store, method, path, query, headers=headers, body=body))

    def must(
        self, method: str, path: str, query: str = "", *, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        """Send a signed request that has to succeed."""
        answer = self.ask(method, path, query, headers=headers, body=body)
        if not answer.ok:
            raise AssertionError(f"{self.store.name}: {method} {path}?{query}: {answer.status} {answer.body[:500]!r}")
        return answer
