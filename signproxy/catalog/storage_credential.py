"""Say what a client is told of keys for a table: the specification's `storage-credentials`, and where it gets others.

Each answer has exactly one credential: Iceberg Java refuses a refresh with two of one store. It names everything that
a client needs, since a refresh has no other configuration. Never one without a key: clients then send their requests
unsigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from signproxy.catalog.call import table_path
from signproxy.catalog.client_properties import StoreAddress
from signproxy.catalog.names import encode_segment
from signproxy.catalog.signer_grant import mount_of
from signproxy.policy.table import Place, Table
from signproxy.telemetry.log import never_log

_MILLISECONDS = 1000
_ENDPOINT, _ENABLED, _URI = (
    "client.refresh-credentials-endpoint",
    "client.refresh-credentials-enabled",
    "credentials.uri",
)
_REFRESH = frozenset({_ENDPOINT, _ENABLED, _URI})


@never_log
class StorageCredential(msgspec.Struct, frozen=True, gc=False):
    """Keys as a client is told of them."""

    prefix: str
    """What the paths begin with that they are for. The boundary is the policy, and not this."""
    config: dict[str, str]

    def __repr__(self) -> str:
        return f"StorageCredential({self.prefix!r}, ***)"


class CredentialsAnswer(msgspec.Struct, frozen=True, gc=False, rename="kebab"):
    """The specification's LoadCredentialsResponse."""

    storage_credentials: tuple[StorageCredential, ...]


class KeyPair(NamedTuple):
    """What a client signs with, and until when."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: float
    """Unix time."""

    def __repr__(self) -> str:
        return f"KeyPair(***, {self.expires_at!r})"


def credential_of(
    keys: KeyPair, table: Table, location: str, store: StoreAddress, public_url: str
) -> StorageCredential:
    """Return the credential for a table; `location` is its location as the catalog spells it.

    The endpoint of refreshes is relative to the client's catalog, as Iceberg Java resolves it. `credentials.uri` is
    what its readers look up that are not asked by the catalog, so it is absolute.
    """
    path = f"v1/{encode_segment(table.id.catalog)}/{table_path(table.id.namespace, table.id.name)}/credentials"
    return StorageCredential(
        prefix_of(table.places, location),
        {
            "s3.access-key-id": keys.access_key_id,
            "s3.secret-access-key": keys.secret_access_key,
            "s3.session-token": keys.session_token,
            "s3.session-token-expires-at-ms": str(int(keys.expires_at * _MILLISECONDS)),
            **store.properties,
            _ENDPOINT: path,
            _ENABLED: "true",
            _URI: f"{mount_of(public_url, table.id.catalog)}{path}",
        },
    )


def without_refresh(credential: StorageCredential) -> StorageCredential:
    """Return a credential of which a client is not told how it gets the next one."""
    config = {name: value for name, value in credential.config.items() if name not in _REFRESH}
    return StorageCredential(credential.prefix, config)


def prefix_of(places: Sequence[Place], location: str) -> str:
    """Return the longest text that every path below these places begins with, by whole segments, final slash included.

    Its scheme is that of the location, since clients compare text: `s3a://` in one place is `s3a://` in all.
    """
    scheme = location.partition("://")[0]
    if len({place.bucket for place in places}) > 1:
        return f"{scheme}://"
    shared = places[0].prefix.split("/")[:-1]
    for place in places[1:]:
        levels = place.prefix.split("/")[:-1]
        same = 0
        for one, other in zip(shared, levels, strict=False):
            if one != other:
                break
            same += 1
        del shared[same:]
    return "/".join([f"{scheme}://{places[0].bucket}", *shared, ""])
