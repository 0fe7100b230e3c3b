"""Judge for which table a caller may have keys, and what they may do there: as a signature is judged.

A table is judged by its name. One that is asked for by a path is first found by its location.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.gate.calls import known_catalog
from signproxy.gate.judgement import Denied
from signproxy.gate.request import AskedFor
from signproxy.gate.scope import check_carried, check_target
from signproxy.inventory.learned.asked import Found, FoundByName
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.model import BY_LOCATION, Ceiling, Deny, NamedTable, Subject
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.decide_keys import KeysAllowed, decide_keys
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table
from signproxy.s3.operation import Operation
from signproxy.s3.request import ObjectRef, S3Request


class Vendable(NamedTuple):
    """What a caller may have keys for, by the policy that was in force when it was decided."""

    catalog: Catalog
    table: Table
    location: str
    """As the catalog spells it; it is told to clients and never judged by."""
    keys: KeysAllowed
    state: PolicyState
    staged: bool
    """It is not there yet, and another table may come to lie at its place."""


class VendGate:
    """Judges requests for keys. The state is read once per attempt."""

    __slots__ = ("_learned", "_state")

    def __init__(self, state: Callable[[], PolicyState], learned: LearnedResolver) -> None:
        self._state = state
        self._learned = learned

    def judge(self, subject: Subject, asked: AskedFor) -> Vendable | Awaitable[object]:
        """Return what the caller may have keys for, or what an upstream has to be asked before. Raise Refused."""
        state, target = self._state(), asked.target
        assert isinstance(target, NamedTable)  # noqa: S101 - keys are for a table
        return self._judge(state, _offering(state, subject, asked), subject, target, asked.bearer)

    def judge_path(
        self, subject: Subject, asked: AskedFor, path: ObjectRef, wanted: Ceiling
    ) -> Vendable | Awaitable[object]:
        """Return the same for the one table that a path lies in, with keys of the ceiling that is wanted.

        The key of the path ends with a slash, so that the root of a table lies in the table.
        """
        state = self._state()
        catalog = _offering(state, subject, asked)
        held = subject.caller.scope
        if held is not None:
            # Before an upstream is asked for another table, in the name of the caller that the scope is to keep away.
            table = NamedTable(held.namespace, held.name)
            own = self._judge(state, catalog, subject, table, asked.bearer, wanted)
            if not isinstance(own, Vendable):
                return own
            if not _holds(own.table, path):
                raise Refused(Reason.NOT_IN_SCOPE, f"{_shown(path)} is not in {str(own.table.id)!r}")
        owners = self._owners(catalog, subject, path, asked.bearer)
        if isinstance(owners, Deny):
            raise Denied(owners, catalog.name)
        if not isinstance(owners, tuple):
            return owners
        if len(owners) != 1:
            names = ", ".join(repr(str(owner.id)) for owner in owners)
            raise Refused(
                Reason.LOCATION_UNOWNED, f"{_shown(path)} is shared by {names}" if names else _unowned(catalog, path)
            )
        owner = owners[0].id
        target = NamedTable(owner.namespace, owner.name)
        found = self._judge(state, catalog, subject, target, asked.bearer, wanted)
        # The table of the name may be another one than was found: what was dropped keeps its place for a while.
        if isinstance(found, Vendable) and not _holds(found.table, path):
            raise Refused(Reason.LOCATION_UNOWNED, f"{_shown(path)} is not in {str(found.table.id)!r} any more")
        return found

    def _judge(
        self,
        state: PolicyState,
        catalog: Catalog,
        subject: Subject,
        target: NamedTable,
        bearer: str,
        wanted: Ceiling | None = None,
    ) -> Vendable | Awaitable[object]:
        if subject.caller.scope is not None:
            check_target(subject.caller.scope, catalog, target)
        found = self._find(catalog, subject, target, bearer)
        if isinstance(found, Deny):
            raise Denied(found, catalog.name)
        if not isinstance(found, FoundByName):
            return found
        table = found.table
        check_carried(subject.caller, table.id, table.uuid)
        decision = decide_keys(state, catalog, subject, table, found.standing, wanted)
        if isinstance(decision, Deny):
            raise Denied(decision, catalog.name)
        return Vendable(catalog, table, found.spelled or str(table.places[0]), decision, state, found.staged)

    def _owners(
        self, catalog: Catalog, subject: Subject, path: ObjectRef, bearer: str
    ) -> tuple[Table, ...] | Deny | Awaitable[object]:
        storage = catalog.storage_of(path.bucket)
        if storage is None:
            return ()
        if catalog.learning is None:
            return catalog.locations.owners(path.bucket, path.key)
        # As a read of it would be: whether the caller may do more is asked of the table.
        request = S3Request(Operation.GET_OBJECT, "GET", "", storage, path.bucket, path.key, "", "", "", (), "")
        try:
            found = self._learned.resolve(catalog, catalog.learning, subject, BY_LOCATION, request, bearer, None)
        except Refused as refused:
            if refused.reason is Reason.LOCATION_UNOWNED:
                return ()
            raise
        return found.owners if isinstance(found, Found) else found

    def _find(
        self, catalog: Catalog, subject: Subject, target: NamedTable, bearer: str
    ) -> FoundByName | Deny | Awaitable[object]:
        if catalog.learning is not None:
            return self._learned.named(catalog, subject, target, bearer)
        table = catalog.table(target.namespace, target.name)
        if table is None:
            raise Refused(Reason.TABLE_UNKNOWN, f"no table {target.name!r} in namespace {target.namespace!r}")
        return FoundByName(table, None, "")


def _offering(state: PolicyState, subject: Subject, asked: AskedFor) -> Catalog:
    """Return the catalog that is asked, if it offers the caller keys. Raise Refused."""
    catalog = known_catalog(state, subject, asked.address)
    closed = refuse_closed(state, catalog)
    if closed is not None:
        raise Denied(closed, catalog.name)
    if Delegation.VENDED_CREDENTIALS not in state.delegation_of(subject.caller, catalog):
        detail = f"principal {subject.caller.name!r} is offered no vended credentials in {catalog.name!r}"
        raise Denied(Deny(Reason.DELEGATION_REFUSED, detail), catalog.name)
    return catalog


def _holds(table: Table, path: ObjectRef) -> bool:
    return any(place.holds(path.bucket, path.key) for place in table.places)


def _shown(path: ObjectRef) -> str:
    return repr(f"s3://{path.bucket}/{path.key}")


def _unowned(catalog: Catalog, path: ObjectRef) -> str:
    volume = catalog.volumes.find(path.bucket, path.key)
    if volume is None:
        return f"{_shown(path)} is in no table"
    return f"{_shown(path)} is in volume {str(volume.id)!r}; keys are for tables, the S3 listener serves volumes"
