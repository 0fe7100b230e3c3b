"""Judge a request in the one order that every way and `explain` share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.passage import Passage
from signproxy.inventory.resolver import TableResolver
from signproxy.model import Allow, Deny, Principal, Subject, Target
from signproxy.policy.catalog import Catalog, CatalogKind, Table
from signproxy.policy.decide import decide
from signproxy.policy.state import PolicyState
from signproxy.s3.classify import classify
from signproxy.s3.operation import Access, Operation
from signproxy.s3.request import S3Request, WireRequest


class CatalogAddress(msgspec.Struct, frozen=True, gc=False):
    """How a route names its catalog: by its mount, by a prefix, by both, or not at all."""

    name: str | None = None
    prefix: str | None = None


_ADMISSIONS_KEPT = 4096
"""Callers and routes; each some 300 bytes, and the values that it keeps alive."""


class _Admission(msgspec.Struct, frozen=True, gc=False):
    """Everything that the checks of a catalog depend on, and the catalog. Compared by identity: exact, and quick.

    Holding the values keeps their identities from being used again.
    """

    state: PolicyState
    caller: Principal
    effective: Principal
    address: CatalogAddress
    catalog: Catalog


class Gate:
    """Catalog, classify, resolve, judge; the state is read once per request, so a reload never splits one."""

    __slots__ = ("_accepted_unhashed", "_accepted_unsafe", "_admitted", "_resolver", "_state")

    def __init__(
        self,
        state: Callable[[], PolicyState],
        resolver: TableResolver,
        accepted_unsafe: frozenset[str],
        accepted_unhashed: frozenset[str] = frozenset(),
    ) -> None:
        self._state = state
        self._resolver = resolver
        self._accepted_unsafe = accepted_unsafe
        self._accepted_unhashed = accepted_unhashed
        self._admitted: dict[tuple[int, int], _Admission] = {}

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
        admitted = self._admitted.get((id(subject.effective), id(address)))
        if (
            admitted is not None
            and admitted.state is state
            and admitted.effective is subject.effective
            and admitted.caller is subject.caller
            and admitted.address is address
        ):
            catalog = admitted.catalog
            passage.catalog = catalog.name
        else:
            catalog = self._admit(passage, state, subject, address)
        passage.request = request = classify(catalog.endpoints, wire)
        owners = self._resolver.resolve(catalog, target, request)
        if isinstance(owners, tuple):
            return self._decide(passage, state, catalog, subject, owners, request)
        return self._judge_later(passage, state, catalog, subject, owners, request)

    def _admit(self, passage: Passage, state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
        """Run the checks of the catalog, and remember that they passed for these very values."""
        catalog = self.catalog(passage, state, subject, address)
        if len(self._admitted) >= _ADMISSIONS_KEPT:
            self._admitted.clear()
        admission = _Admission(state, subject.caller, subject.effective, address, catalog)
        self._admitted[id(subject.effective), id(address)] = admission
        return catalog

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
        if not (storage.checks_unsigned_headers and storage.checks_payload_hash):
            decision = self._beware(passage, decision, request)
        passage.allow = decision
        return decision

    def _beware(self, passage: Passage, allow: Allow, request: S3Request) -> Allow:
        """Refuse what a client could turn into something else after it was signed, or mark it as accepted."""
        storage, operation = request.storage, request.operation
        problem = ""
        if not storage.checks_unsigned_headers and operation.access in _CHANGES:
            # A copy source added to a signed PUT reads any object that the signing key can read.
            allow = msgspec.structs.replace(allow, unsafe_storage=True)
            if storage.name not in self._accepted_unsafe:
                problem = f"storage {storage.name!r} takes headers that are not signed"
        if not storage.checks_payload_hash and operation is Operation.DELETE_OBJECTS:
            # Other keys sent in place of the checked ones delete any object that the signing key can delete.
            allow = msgspec.structs.replace(allow, unsafe_storage=True)
            if storage.name not in self._accepted_unhashed:
                problem = f"storage {storage.name!r} does not compare a body with its hash"
        if problem:
            passage.deny = Deny(Reason.UNSAFE_STORAGE, problem, allow.table)
            raise Refused(Reason.UNSAFE_STORAGE, problem)
        return allow


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
