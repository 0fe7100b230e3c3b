"""Judge requests, whichever way they are to be served; `order` has each of them judged, and so has `explain`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import cast

import msgspec
from msgspec.structs import replace

from signproxy.errors import Refused
from signproxy.gate.calls import known_catalog, may_see
from signproxy.gate.forward import ForwardGate
from signproxy.gate.judgement import Denied, Judged, Judgement, OpenQuestion
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.gate.scope import check_tables, check_target
from signproxy.gate.turns import read_in_pieces
from signproxy.gate.vendable import VendGate
from signproxy.gate.work import SHORT_DELETE, turn_of
from signproxy.inventory.learned.asked import Found
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver, NoUpstream
from signproxy.model import BY_LOCATION, Allow, Deny, Principal, Subject, TableId
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import AcceptedStorages, decide
from signproxy.policy.resolver import TableResolver
from signproxy.policy.rights import Standing, restricted
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table
from signproxy.s3.bulk_delete import STRICT
from signproxy.s3.classify import classify
from signproxy.s3.request import BulkRequest, S3Request

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
    """Catalog, classify, resolve, judge; the state is read once per attempt, so a reload never splits one."""

    __slots__ = ("_accepted", "_admitted", "_learned", "_resolver", "_state", "forward", "vend")

    def __init__(
        self,
        state: Callable[[], PolicyState],
        resolver: TableResolver,
        accepted_unsafe: frozenset[str],
        accepted_unhashed: frozenset[str] = frozenset(),
        learned: LearnedResolver | None = None,
    ) -> None:
        self._state = state
        self._resolver = resolver
        # Without one no upstream is asked: what the policy says of learned tables is all that is known.
        self._learned = LearnedResolver(LearnedTables(state), NoUpstream()) if learned is None else learned
        self._accepted = AcceptedStorages(accepted_unsafe, accepted_unhashed)
        self._admitted: dict[tuple[int, int], _Admission] = {}
        self.forward = ForwardGate(state, resolver, self._learned)
        """The same for requests that come to the S3 listener."""
        self.vend = VendGate(state, self._learned)
        """The same for requests for keys."""

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self._state()

    def judge(self, subject: Subject, asked: AskedFor) -> Judged:
        """Say by the policy in force whether a request may be signed, or what has to be asked for before."""
        wire = asked.wire
        assert wire is not None  # noqa: S101 - nothing else is to be signed
        state = self._state()
        decided_ns = perf_counter_ns()
        name, uuid = asked.catalog, ""
        request: S3Request | None = None
        decision: Allow | Deny | Awaitable[object] | None = None
        deny: Deny | None = None
        refused: Refused | None = None
        try:
            address = asked.address
            known = self._admitted.get((id(subject.effective), id(address)))
            if (
                known is not None
                and known.state is state
                and known.effective is subject.effective
                and known.caller is subject.caller
                and known.address is address
            ):
                catalog = known.catalog
            else:
                catalog = self._admit(state, subject, address)
            name = catalog.name
            request = classify(catalog.endpoints, wire)
            found: tuple[Table, ...] | Deny | Awaitable[object]
            standing: Standing | None
            if catalog.learning is None:
                found, standing = self._resolver.resolve(catalog, asked.target or BY_LOCATION, request), None
            else:
                found, standing = self._find(catalog, subject, asked, request)
            if isinstance(found, tuple):
                uuid = found[0].uuid if found else ""
                if subject.caller.scope is not None:
                    check_tables(subject.caller.scope, found, request)
                decision = decide(state, catalog, subject, found, request, standing, self._accepted)
            else:
                decision = found
        except Refused as caught:
            # Without the frames that it came through, which would hold on to it.
            refused = caught.with_traceback(None)
            if isinstance(caught, Denied):
                name = caught.catalog or name
        allow: Allow | None = None
        if isinstance(decision, Allow):
            allow = decision
        elif isinstance(decision, Deny):
            deny, refused = decision, Refused(decision.reason, decision.detail)
        now = perf_counter_ns()
        judgement = Judgement(
            subject, asked, state.rev, state.epoch, decided_ns, now, name, request, allow, deny, refused, uuid
        )
        if allow is not None or refused is not None:
            return judgement
        return OpenQuestion(judgement, cast("Awaitable[object]", decision))

    async def judge_bulk(self, subject: Subject, asked: AskedFor) -> Judged:
        """Do what `judge` does for a request with a body, which may take a while; others have their turn meanwhile.

        A short body does not wait for a long one, and needs no place among the requests that wait.
        """
        wire = asked.wire
        assert wire is not None  # noqa: S101 - nothing else is to be signed
        if isinstance(wire, BulkRequest):
            return self.judge(subject, asked)
        body = wire.body or ""
        async with turn_of(len(body), SHORT_DELETE):
            read = BulkRequest(
                method=wire.method,
                uri=wire.uri,
                headers=wire.headers,
                region=wire.region,
                body=body,
                deletes=await read_in_pieces(body, STRICT),
            )
            return self.judge(subject, replace(asked, wire=read))

    def _find(
        self, catalog: Catalog, subject: Subject, asked: AskedFor, request: S3Request
    ) -> tuple[tuple[Table, ...] | Deny | Awaitable[object], Standing | None]:
        """Return the tables of an upstream that own what is addressed, or what has to be asked. Raise Refused."""
        target, learning = asked.target or BY_LOCATION, catalog.learning
        assert learning is not None  # noqa: S101 - the upstream's tables are learned
        if subject.caller.scope is not None:
            check_target(subject.caller.scope, catalog, target)
        found = self._learned.resolve(catalog, learning, subject, target, request, asked.bearer, asked.carried)
        return (found.owners, found.standing) if isinstance(found, Found) else (found, None)

    def _admit(self, state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
        """Return the catalog of an address, if something may be signed there for the subject. Raise Refused."""
        catalog = self.catalog(state, subject, address)
        if len(self._admitted) >= _ADMISSIONS_KEPT:
            self._admitted.clear()
        admission = _Admission(state, subject.caller, subject.effective, address, catalog)
        self._admitted[id(subject.effective), id(address)] = admission
        return catalog

    def catalog(self, state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
        """Return the catalog if the subject may know it and signing is on there. Raise Refused."""
        catalog = known_catalog(state, subject, address)
        closed = refuse_closed(state, catalog)
        if closed is not None:
            raise Denied(closed, catalog.name)
        return catalog

    def may_see(self, catalog: Catalog, subject: Subject, namespace: str, name: str | None) -> bool:
        """Whether a namespace (`name` is None), or a table or view in it, may stand in a list for the subject."""
        return may_see(self._state(), catalog, subject, namespace, name)

    async def check_restrictions(self, subject: Subject, bearer: str, table: TableId) -> None:
        """Refuse a table of which the upstream keeps rows or columns from the caller. Raise Refused (UPSTREAM_…)."""
        catalog = self._state().catalogs.get(table.catalog)
        if catalog is not None and await self._learned.is_restricted(catalog, subject, bearer, table):
            raise Denied(restricted(table), table.catalog)
