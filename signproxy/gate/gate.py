"""Judge a request in the one order that every way and `explain` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.address import CatalogAddress, known_catalog
from signproxy.gate.begun import Waiting, begin
from signproxy.gate.calls import WHOLE_CATALOG, CallPlace, admit_call, may_see
from signproxy.gate.forward import ForwardGate
from signproxy.gate.forwarded import BucketsShown, Passed, StoreBucket
from signproxy.gate.passage import Passage
from signproxy.gate.scope import check_tables, check_target
from signproxy.gate.turns import read_in_pieces
from signproxy.gate.work import SHORT_DELETE, turn_of
from signproxy.inventory.learned.asked import Found
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver, NoUpstream
from signproxy.inventory.resolver import TableResolver
from signproxy.model import Allow, Deny, Principal, Subject, TableId, Target
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Catalog, Table
from signproxy.policy.decide import decide
from signproxy.policy.laundering import AcceptedStorages
from signproxy.policy.neighbours import Neighbours
from signproxy.policy.standing import Standing, restricted
from signproxy.policy.state import PolicyState
from signproxy.s3.bulk_delete import STRICT
from signproxy.s3.classify import classify
from signproxy.s3.forwarded import ForwardWire
from signproxy.s3.request import BulkRequest, S3Request, WireRequest

__all__ = ["CatalogAddress", "Gate"]

_QUESTIONS = 4
"""Rounds of questions for one request: its table, a table in the way, one that changed meanwhile, and one to spare."""

_ROUNDS = range(_QUESTIONS + 1)

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

    __slots__ = (
        "_accepted",
        "_admitted",
        "_forward",
        "_learned",
        "_resolver",
        "_state",
    )

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
        self._forward = ForwardGate(state, resolver, self._learned)

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self._state()

    async def judge(
        self, passage: Passage, subject: Subject, address: CatalogAddress, target: Target, wire: WireRequest
    ) -> Allow:
        """Return the `Allow`; waits only where a table must be asked for. Raise Refused.

        What was waited for may have changed everything: what follows is judged by the policy then in force.
        """
        passage.target = target
        passage.wire = wire
        for _ in _ROUNDS:
            state = self._state()
            passage.judged_by(state)
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
            learning = catalog.learning
            if learning is None:
                owners = self._resolver.resolve(catalog, target, request)
                if not isinstance(owners, tuple):
                    owners = await passage.waits_for(owners)
                return self._decide(passage, state, catalog, subject, owners, request)
            if subject.caller.scope is not None:
                check_target(subject.caller.scope, catalog, target)
            found = self._learned.resolve(catalog, learning, subject, target, request, passage.bearer, passage.carried)
            if isinstance(found, Found):
                return self._decide(passage, state, catalog, subject, found.owners, request, found.standing)
            if isinstance(found, Deny):
                passage.deny = found
                raise Refused(found.reason, found.detail)
            await passage.waits_for(found)
        raise Refused(Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")

    async def judge_bulk(
        self, passage: Passage, subject: Subject, address: CatalogAddress, target: Target, wire: WireRequest
    ) -> Allow:
        """Do what `judge` does for a request with a body, which may take a while; others have their turn meanwhile.

        A short body does not wait for a long one, and needs no place among the requests that wait.
        """
        async with turn_of(len(wire.body or ""), SHORT_DELETE):
            wire = BulkRequest(
                method=wire.method,
                uri=wire.uri,
                headers=wire.headers,
                region=wire.region,
                body=wire.body,
                deletes=await read_in_pieces(wire.body or "", STRICT),
            )
            judged = begin(self.judge(passage, subject, address, target, wire))
        # Others have their turn at long work while this one waits for an upstream.
        return await judged if isinstance(judged, Waiting) else judged

    async def judge_forwarded(self, passage: Passage, subject: Subject, wire: ForwardWire) -> Passed | BucketsShown:
        """Return what may be forwarded of a request to the S3 listener, or the buckets to show. Raise Refused."""
        return await self._forward.judge(passage, subject, wire)

    def neighbours(self, passage: Passage, subject: Subject, wire: ForwardWire) -> tuple[Passed, Neighbours] | None:
        """Return what may be forwarded, and for which other keys that holds; None where it is not known to."""
        return self._forward.neighbours(passage, subject, wire)

    async def buckets_to_show(
        self, passage: Passage, subject: Subject, wire: ForwardWire, told: Sequence[StoreBucket]
    ) -> BucketsShown:
        """Return the buckets to show once stores told of theirs. Raise Refused."""
        return await self._forward.buckets(passage, subject, wire, told)

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
        catalog = known_catalog(passage, state, subject, address)
        closed = refuse_closed(state, catalog)
        if closed is not None:
            raise Refused(closed.reason, closed.detail)
        return catalog

    def admit_call(
        self, passage: Passage, subject: Subject, address: CatalogAddress, need: int, place: CallPlace = WHOLE_CATALOG
    ) -> Catalog:
        """Return the catalog if the subject may make a catalog call that needs these privileges at this place.

        The place need not exist. Whether remote signing is on does not matter. Raise Refused.
        """
        return admit_call(passage, self._state(), subject, address, need, place)

    def may_see(self, catalog: Catalog, subject: Subject, namespace: str, name: str | None) -> bool:
        """Whether a namespace (`name` is None), or a table or view in it, may stand in a list for the subject."""
        return may_see(self._state(), catalog, subject, namespace, name)

    async def check_restrictions(self, passage: Passage, subject: Subject, table: TableId) -> None:
        """Refuse a table of which the upstream keeps rows or columns from the caller. Raise Refused (UPSTREAM_…)."""
        catalog = self._state().catalogs.get(table.catalog)
        if catalog is not None and await self._learned.is_restricted(catalog, subject, passage.bearer, table):
            passage.deny = restricted(table)
            raise Refused(passage.deny.reason, passage.deny.detail)

    def _decide(
        self,
        passage: Passage,
        state: PolicyState,
        catalog: Catalog,
        subject: Subject,
        owners: tuple[Table, ...],
        request: S3Request,
        standing: Standing | None = None,
    ) -> Allow:
        passage.table_uuid = owners[0].uuid if owners else ""
        if subject.caller.scope is not None:
            check_tables(subject.caller.scope, owners, request)
        decision = decide(state, catalog, subject, owners, request, standing, self._accepted)
        if isinstance(decision, Deny):
            passage.deny = decision
            raise Refused(decision.reason, decision.detail)
        passage.allow = decision
        return decision
