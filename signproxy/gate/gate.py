"""Judge a request in the one order that every way and `explain` share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.passage import Passage
from signproxy.inventory.resolver import TableResolver
from signproxy.model import Allow, Deny, Subject, Target
from signproxy.policy.catalog import Catalog, CatalogKind, Table
from signproxy.policy.decide import decide
from signproxy.policy.state import PolicyState
from signproxy.s3.classify import classify
from signproxy.s3.operation import Access
from signproxy.s3.request import S3Request, WireRequest


class CatalogAddress(msgspec.Struct, frozen=True, gc=False):
    """How a route names its catalog: by its mount, by a prefix, by both, or not at all."""

    name: str | None = None
    prefix: str | None = None


class Gate:
    """Catalog, classify, resolve, judge; the state is read once per request, so a reload never splits one."""

    __slots__ = ("_accepted_unsafe", "_resolver", "_state")

    def __init__(
        self, state: Callable[[], PolicyState], resolver: TableResolver, accepted_unsafe: frozenset[str]
    ) -> None:
        self._state = state
        self._resolver = resolver
        self._accepted_unsafe = accepted_unsafe

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self._state()

    def judge(
        self, passage: Passage, subject: Subject, address: CatalogAddress, target: Target, wire: WireRequest
    ) -> Allow | Awaitable[Allow]:
        """Return the `Allow`, at once unless a table must be asked for; refuse otherwise."""
        passage.target = target
        passage.wire = wire
        state = self._state()
        catalog = self.catalog(passage, state, subject, address)
        passage.request = request = classify(catalog.endpoints, wire)
        owners = self._resolver.resolve(catalog, target, request)
        if isinstance(owners, tuple):
            return self._decide(passage, state, catalog, subject, owners, request)
        return self._judge_later(passage, state, catalog, subject, owners, request)

    def catalog(self, passage: Passage, state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
        """Return the catalog if the subject may know it and signing is on there."""
        catalog = _find(state, address)
        passage.catalog = catalog.name
        caller = subject.caller
        if caller.catalogs is not None and catalog.name not in caller.catalogs:
            raise Refused(Reason.CATALOG_NOT_FOR_ISSUER, f"issuer {caller.issuer!r}, catalog {catalog.name!r}")
        # Before the switches: whether a foreign catalog signs is nobody's business.
        rights = state.rights(subject.effective, catalog)
        if rights is None or not rights.roles:
            raise Refused(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r} in {catalog.name!r}")
        if not (state.remote_signing and catalog.remote_signing):
            where = f"catalog {catalog.name!r}" if state.remote_signing else "the whole system"
            raise Refused(Reason.REMOTE_SIGNING_OFF, f"off for {where}")
        if catalog.kind is _EXTERNAL and not catalog.allow_external:
            raise Refused(Reason.CATALOG_FEDERATED, f"catalog {catalog.name!r}")
        return catalog

    async def _judge_later(
        self,
        passage: Passage,
        state: PolicyState,
        catalog: Catalog,
        subject: Subject,
        owners: Awaitable[tuple[Table, ...]],
        request: S3Request,
    ) -> Allow:
        return self._decide(passage, state, catalog, subject, await owners, request)

    def _decide(
        self,
        passage: Passage,
        state: PolicyState,
        catalog: Catalog,
        subject: Subject,
        owners: tuple[Table, ...],
        request: S3Request,
    ) -> Allow:
        passage.table_uuid = owners[0].uuid if owners else ""
        decision = decide(state, catalog, subject, owners, request)
        if isinstance(decision, Deny):
            passage.deny = decision
            raise Refused(decision.reason, decision.detail)
        storage = request.storage
        if not storage.checks_unsigned_headers and request.operation.access in _CHANGES:
            # A client could turn a signed PUT into a copy of any object that the signing key can read.
            if storage.name not in self._accepted_unsafe:
                passage.deny = Deny(Reason.UNSAFE_STORAGE, f"storage {storage.name!r}", decision.table)
                raise Refused(Reason.UNSAFE_STORAGE, f"storage {storage.name!r}")
            decision = msgspec.structs.replace(decision, unsafe_storage=True)
        passage.allow = decision
        return decision


_CHANGES = frozenset({Access.WRITE, Access.DELETE})
# Looking a member up in its class calls Python code; the hot path does without.
_EXTERNAL = CatalogKind.EXTERNAL


def _find(state: PolicyState, address: CatalogAddress) -> Catalog:
    if address.prefix is not None:
        catalog = state.catalog_of_prefix(address.prefix)
        if catalog is not None and address.name is not None and catalog.name != address.name:
            raise Refused(Reason.CATALOG_UNKNOWN, f"prefix {address.prefix!r} is not of catalog {address.name!r}")
    else:
        catalog = state.catalogs.get(state.default_catalog if address.name is None else address.name)
    if catalog is None:
        asked = address.prefix or address.name or state.default_catalog or "(no default catalog)"
        raise Refused(Reason.CATALOG_UNKNOWN, f"{asked!r}")
    return catalog
