"""Hand out keys for what was judged: keys that signproxy issues itself, or those that the STS of the store makes.

Issued keys are good at the S3 listener alone, where each of their requests is judged as every other is; so a store
needs nothing for them, and a revoke bites at once. What a store's STS makes is good until it ends.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.audit.event import rfc3339
from signproxy.catalog.client_properties import StoreAddress, address_of
from signproxy.catalog.storage_credential import KeyPair, StorageCredential, credential_of, without_refresh
from signproxy.errors import Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.outcome import KEY_ID_SHOWN, HandedOut
from signproxy.gate.request import AskedFor
from signproxy.gate.vendable import Vendable
from signproxy.gate.work import Account
from signproxy.identity.emulated import EmulatedKeys
from signproxy.model import Ceiling, KeyScope, Principal, Subject
from signproxy.policy.table import MetadataLevel, Table
from signproxy.vending.scope import CatalogPlaces, KnownPlaces, VendCaller, scope_of
from signproxy.vending.vended import VendAccess, VendedKeys, Vendor, VendScope

RENEWED_SECONDS = 360.0
"""What keys live at least for a client to be told how it renews them. Iceberg Java does so five minutes before their
end, and from 1.11 on again at once where even then they are in their last five minutes."""

_ROUNDS = range(9)
"""How often a table is judged, with a question to the upstream answered in between."""


class Issuing(NamedTuple):
    """Issues keys that are good at the S3 listener."""

    keys: EmulatedKeys
    listener: str
    """The URL of the listener."""
    seconds: Mapping[str, float]
    """Storage -> how long its keys live at most."""


class Minting(NamedTuple):
    """Has the session services of stores make keys."""

    vendor: Vendor
    storages: frozenset[str]
    """Those of which the settings say that it shall."""
    known: KnownPlaces
    """The places of the tables that upstreams told of."""
    bound: frozenset[str]
    """The storages whose keys never outlive the token of their caller."""


class Vended(NamedTuple):
    """Keys that were made: what the client is told, and what the event says."""

    credential: StorageCredential
    handed: HandedOut
    seconds: float
    """How long they live."""
    keys: VendedKeys
    store: StoreAddress
    """Where they are good."""


class Vending(NamedTuple):
    """Hands out keys by the settings in force."""

    public_url: str
    issuing: Issuing | None = None
    """None where no storage has its keys issued."""
    minting: Minting | None = None
    """None where no store makes any."""

    async def vend(
        self, vendable: Vendable, account: Account | None, caller: Principal, bearer: str, event_id: str, now: float
    ) -> Vended:
        """Return keys for what was just judged, which reach no further.

        They end with their caller's token at the latest, but for sessions of which the operator says otherwise.
        `account` is where a session is charged that has to be asked for; None where that has a bound of its own.
        Raise Refused: VEND_OFF where the settings do not say how keys for the storage are made, TOKEN_EXPIRED for a
        token that ends already.
        """
        if caller.expires_at <= now:
            # Within the leeway of the clocks: nothing may be derived from it, by no party.
            raise Refused(Reason.TOKEN_EXPIRED, f"{now - caller.expires_at:.0f} s ago")
        table, storage = vendable.table, vendable.table.settings.storage
        store = address_of(vendable.catalog, str(table.places[0]))
        minting, issuing = self.minting, self.issuing
        access = VendAccess.READ if vendable.keys.ceiling is Ceiling.READ_ONLY else VendAccess.READ_WRITE
        if store is None:
            raise Refused(Reason.VEND_OFF, f"table {str(table.id)!r} lies in no storage of its catalog")
        if issuing is not None and storage in issuing.seconds:
            kind, keys = "issued", _issued(issuing, vendable, caller, bearer, now)
            store = store.through(issuing.listener)
        elif minting is not None and storage in minting.storages:
            if vendable.staged and access is VendAccess.READ:
                # There is nothing to read. A session would open what others make there.
                raise Refused(
                    Reason.SCOPE_NOT_VENDABLE, f"{str(table.id)!r} is staged by a caller who may not write it"
                )
            scope = _scope(minting, vendable, access, caller, event_id, now)
            if account is not None:
                scope = replace(scope, charge=account.session)
            kind, keys = "sts", await minting.vendor.vend(scope)
        else:
            raise Refused(Reason.VEND_OFF, f"storages.{storage}.vend is not set")
        credential = self._told(keys, vendable, store)
        seconds = keys.expires_at - now
        if seconds < RENEWED_SECONDS:
            credential = without_refresh(credential)
        return Vended(credential, _handed(keys, table, access, kind), seconds, keys, store)

    def _told(self, keys: VendedKeys, vendable: Vendable, store: StoreAddress) -> StorageCredential:
        pair = KeyPair(keys.access_key_id, keys.secret_access_key, keys.session_token, keys.expires_at)
        return credential_of(pair, vendable.table, vendable.location, store, self.public_url)


async def find_vendable(gate: Gate, subject: Subject, asked: AskedFor, uuid: str) -> Vendable:
    """Return what a caller may have keys for: the table of the name that has this UUID, and no other. Raise Refused.

    An upstream that has to be asked for it is waited for.
    """
    for _ in _ROUNDS:
        found = gate.vend.judge(subject, asked)
        if isinstance(found, Vendable):
            if found.table.uuid not in ("", uuid):
                raise Refused(Reason.TABLE_UNKNOWN, f"{str(found.table.id)!r} is {found.table.uuid!r} by now")
            return found
        await found
    raise Refused(Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")


def check_unchanged(gate: Gate, vendable: Vendable, judge: Callable[[], Vendable | Awaitable[object]]) -> None:
    """Refuse keys if something was taken away while they were made: they would outlast a revoke. Raise Refused.

    `judge` judges anew what `vendable` came of.
    """
    if gate.state is vendable.state and vendable.catalog.learning is None:
        # A table that an upstream told of may go, or move, under the same policy.
        return
    found = judge()
    if isinstance(found, Vendable):
        if _given(found) == _given(vendable):
            return
    elif isinstance(found, Coroutine):
        found.close()
    raise Refused(Reason.SESSIONS_UNAVAILABLE, "the policy, or the table, changed while they were made")


def _given(vendable: Vendable) -> tuple[object, ...]:
    """Return all that keys depend on."""
    keys, table = vendable.keys, vendable.table
    return keys.ceiling, keys.metadata, table.uuid, table.places, table.metadata_places, vendable.staged


def check_renewable(vended: Vended, subject: Subject) -> None:
    """Refuse keys that a client would renew again and again, because they end so soon. Raise Refused."""
    if vended.seconds < RENEWED_SECONDS:
        of_token = subject.caller.expires_at - time.time() < RENEWED_SECONDS
        reason = Reason.TOKEN_ENDS_SOON if of_token else Reason.SESSIONS_UNAVAILABLE
        raise Refused(reason, f"its keys would end in {vended.seconds:.0f} s")


def _issued(issuing: Issuing, vendable: Vendable, caller: Principal, bearer: str, now: float) -> VendedKeys:
    table = vendable.table
    # A key is good for this table alone, and never for one that takes its name.
    scope = KeyScope(table.id.catalog, table.id.namespace, table.id.name, table.uuid, vendable.keys.ceiling)
    issued = issuing.keys.issue(caller, scope, issuing.seconds[table.settings.storage], now, bearer)
    return VendedKeys(
        access_key_id=issued.access_key_id,
        secret_access_key=issued.secret_access_key,
        session_token=issued.session_token,
        expires_at=issued.expires_at,
        session_name="",
        policy_digest="",
    )


def _scope(
    minting: Minting, vendable: Vendable, access: VendAccess, caller: Principal, event_id: str, now: float
) -> VendScope:
    table, catalog = vendable.table, vendable.catalog
    opened = vendable.keys.metadata is MetadataLevel.OPEN is not table.metadata
    bound = table.settings.storage in minting.bound
    asks = VendCaller(caller, vendable.state.epoch, event_id, full_metadata=opened, never_beyond_token=bound)
    others = CatalogPlaces(catalog, table, minting.known, now, vendable.state.catalogs.values())
    return scope_of(table, access, asks, others)


def _handed(keys: VendedKeys, table: Table, access: VendAccess, kind: str) -> HandedOut:
    return HandedOut(
        access_key_id=keys.access_key_id[-KEY_ID_SHOWN:],
        access=access.value,
        expires_at=rfc3339(int(keys.expires_at)),
        kind=kind,
        prefixes=tuple(f"{place}/" for place in table.places),
        policy_digest=keys.policy_digest,
        session_name=keys.session_name,
    )
