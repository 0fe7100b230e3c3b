"""Ask for the keys of tables, and use them at the S3 listener, each in front of a store that does as it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from signproxy.config.storage import StorageBinding, Vend
from signproxy.identity.emulated import IssuedKey
from tests.policies import MemoryPolicySource
from tests.product import token_of
from tests.server.s3 import door
from tests.server.s3.door import Answer, Door, opened, signed

U1, U2 = "6f1a3c5e-0000-4000-8000-000000000001", "6f1a3c5e-0000-4000-8000-000000000002"
LISTENER = "http://s3.sign.example:8182"
BOTH = "remote-signing, vended-credentials"
POLICY = (
    door.POLICY.replace(
        "lake: {storages: [main], remote_signing: true}",
        f"lake: {{storages: [main], remote_signing: true, delegation: [{BOTH}]}}",
    )
    .replace('location: "s3://data/wh/t1"}', f'location: "s3://data/wh/t1", uuid: {U1}}}')
    .replace("writer, namespace: ns, table: t1,", "writer, namespace: ns,")
)
RESOLVE = "/v1/credentials/resolve"
ISSUED = StorageBinding("store", (), vend=Vend.ISSUED)


def path_of(table: str = "t1", mount: str = "/catalogs/lake", prefix: str = "lake/") -> str:
    return f"{mount}/v1/{prefix}namespaces/ns/tables/{table}/credentials"


class Told(NamedTuple):
    """An answer of the API."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def config(self) -> dict[str, str]:
        """What the one credential says."""
        (credential,) = self.body["storage-credentials"]
        found: dict[str, str] = credential["config"]
        return found

    @property
    def key(self) -> IssuedKey:
        return key_of(self.config)

    @property
    def resolved(self) -> IssuedKey:
        """The key of a path."""
        said = self.body
        parts = said["access-key-id"], said["secret-access-key"], said["session-token"]
        return IssuedKey(*parts, said["expiration-ms"] / 1000)


def key_of(config: Mapping[str, str]) -> IssuedKey:
    """Return the key that a client takes out of its configuration."""
    expires_at = int(config["s3.session-token-expires-at-ms"]) / 1000
    return IssuedKey(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"], expires_at)


class Vended:
    """A server that hands out keys, and takes them."""

    def __init__(self, held: Door, policy: str) -> None:
        self.door = held
        self.product = held.product
        self._policy = policy

    async def asks(self, table: str = "t1", *, who: str | None = "writer", path: str = "", query: str = "") -> Told:
        """Ask for keys."""
        sent = {} if who is None else {"Authorization": f"Bearer {token_of(who)}"}
        where = f"{path or path_of(table)}{query}"
        async with self.product.client.get(where, headers=sent) as found:
            return Told(found.status, found.headers, json.loads(await found.read()))

    async def resolves(
        self,
        path: str,
        mode: str = "READ",
        *,
        bucket: str = "data",
        who: str | None = "writer",
        route: str = RESOLVE,
        body: bytes | None = None,
    ) -> Told:
        """Ask for the keys of a path."""
        sent = {} if who is None else {"Authorization": f"Bearer {token_of(who)}"}
        content = json.dumps({"bucket": bucket, "path": path, "mode": mode}).encode() if body is None else body
        async with self.product.client.post(route, headers=sent, data=content) as found:
            return Told(found.status, found.headers, json.loads(await found.read()))

    async def uses(self, key: IssuedKey, method: str, key_path: str, body: bytes | None = None) -> Answer:
        """Send an S3 request that is signed with a key."""
        path = f"/{key_path}"
        return await self.door.ask(method, path, who=None, headers=signed(self.door, key, method, path), body=body)

    def policy(self, *changes: tuple[str, str]) -> None:
        """Put another policy in force."""
        text = self._policy
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.product.state = MemoryPolicySource(text % self.door.upstream.port, single_issuer=True).load(
            self.product.state.epoch + 1
        )


@asynccontextmanager
async def vending(policy: str = POLICY, binding: StorageBinding = ISSUED, **s3: Any) -> AsyncIterator[Vended]:
    """Serve."""
    async with opened(policy=policy, storages={"main": binding}, public_url=LISTENER, **s3) as held:
        yield Vended(held, policy)
