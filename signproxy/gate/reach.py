"""Find the catalogs that a bucket may mean to a caller."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason, Refused, anew
from signproxy.gate.scope import may_reach
from signproxy.model import Principal, Subject
from signproxy.policy.buckets import Reached
from signproxy.policy.catalog import Catalog, CatalogKind
from signproxy.policy.learning import Authorizer
from signproxy.policy.state import PolicyState
from signproxy.s3.forwarded import bucket_unknown

_KEPT = 4096
"""Callers and buckets; each some 300 bytes, and the values that it keeps alive."""

_ORDER = (
    Reason.ENDPOINT_UNKNOWN,
    Reason.CATALOG_NOT_FOR_ISSUER,
    Reason.NOT_IN_SCOPE,
    Reason.PRINCIPAL_UNKNOWN,
    Reason.REMOTE_SIGNING_OFF,
    Reason.CATALOG_FEDERATED,
)
"""How far a catalog came before it was refused; of several the furthest is told."""


class _Found(msgspec.Struct, frozen=True, gc=False):
    """Everything that a search depends on, and what it found. Holding the values keeps their identities from reuse."""

    state: PolicyState
    caller: Principal
    effective: Principal
    reached: tuple[Reached, ...]


class Reach:
    """The search, and what it found for the very same values before."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], _Found] = {}

    def of(self, state: PolicyState, subject: Subject, bucket: str) -> tuple[Reached, ...]:
        """Return the catalogs, at least one, all of which keep the bucket in one storage. Raise Refused."""
        caller, effective = subject.caller, subject.effective
        key = (id(caller), id(effective), bucket)
        found = self._found.get(key)
        if found is not None and found.state is state and found.caller is caller and found.effective is effective:
            return found.reached
        reached = _search(state, subject, bucket)
        if len(self._found) >= _KEPT:
            self._found.clear()
        self._found[key] = _Found(state, caller, effective, reached)
        return reached


def _search(state: PolicyState, subject: Subject, bucket: str) -> tuple[Reached, ...]:
    if not state.remote_signing:
        raise Refused(Reason.REMOTE_SIGNING_OFF, "off for the whole system")
    furthest = bucket_unknown(bucket, "no storage lists it, and no volume is for it")
    reached: list[Reached] = []
    for candidate in state.buckets.of(bucket):
        refusal = refusal_of(state, candidate.catalog, subject)
        if refusal is None:
            reached.append(candidate)
        elif _ORDER.index(refusal.reason) > _ORDER.index(furthest.reason):
            furthest = refusal
    if not reached:
        raise anew(furthest)
    if any(other.storage is not reached[0].storage for other in reached):
        claims = ", ".join(f"{other.storage.name!r} of catalog {other.catalog.name!r}" for other in reached)
        raise Refused(Reason.ENDPOINT_UNKNOWN, f"bucket {bucket!r} is claimed by {claims}")
    return tuple(reached)


def refusal_of(state: PolicyState, catalog: Catalog, subject: Subject) -> Refused | None:
    """Return why nothing is forwarded for a subject in a catalog, if that is so."""
    caller = subject.caller
    if caller.catalogs is not None and catalog.name not in caller.catalogs:
        return Refused(Reason.CATALOG_NOT_FOR_ISSUER, f"issuer {caller.issuer!r}, catalog {catalog.name!r}")
    if not may_reach(caller, catalog.name):
        return Refused(Reason.NOT_IN_SCOPE, f"good for another catalog than {catalog.name!r}")
    # Before any switch, as on the sign way: an unknown caller must not learn whether a foreign catalog serves.
    rights = state.rights(subject.effective, catalog)
    if (rights is None or not rights.roles) and catalog.authorizer is not Authorizer.CATALOG:
        return Refused(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r} in {catalog.name!r}")
    if not catalog.remote_signing:
        return Refused(Reason.REMOTE_SIGNING_OFF, f"off for catalog {catalog.name!r}")
    if catalog.kind is CatalogKind.EXTERNAL and not catalog.allow_external:
        return Refused(Reason.CATALOG_FEDERATED, f"catalog {catalog.name!r}")
    return None
