"""Judge for which table a caller may have keys, and what they may do there: by its name, and as a signature is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.gate.calls import known_catalog
from signproxy.gate.judgement import Denied
from signproxy.gate.request import AskedFor
from signproxy.gate.scope import check_carried, check_target
from signproxy.inventory.learned.asked import FoundByName
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.model import Deny, NamedTable, Subject
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.decide_keys import KeysAllowed, decide_keys
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table


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
        catalog = known_catalog(state, subject, asked.address)
        closed = refuse_closed(state, catalog)
        if closed is not None:
            raise Denied(closed, catalog.name)
        if Delegation.VENDED_CREDENTIALS not in state.delegation_of(subject.caller, catalog):
            detail = f"principal {subject.caller.name!r} is offered no vended credentials in {catalog.name!r}"
            raise Denied(Deny(Reason.DELEGATION_REFUSED, detail), catalog.name)
        if subject.caller.scope is not None:
            check_target(subject.caller.scope, catalog, target)
        found = self._find(catalog, subject, target, asked.bearer)
        if isinstance(found, Deny):
            raise Denied(found, catalog.name)
        if not isinstance(found, FoundByName):
            return found
        table = found.table
        check_carried(subject.caller, table.id, table.uuid)
        decision = decide_keys(state, catalog, subject, table, found.standing)
        if isinstance(decision, Deny):
            raise Denied(decision, catalog.name)
        return Vendable(catalog, table, found.spelled or str(table.places[0]), decision, state, found.staged)

    def _find(
        self, catalog: Catalog, subject: Subject, target: NamedTable, bearer: str
    ) -> FoundByName | Deny | Awaitable[object]:
        if catalog.learning is not None:
            return self._learned.named(catalog, subject, target, bearer)
        table = catalog.table(target.namespace, target.name)
        if table is None:
            raise Refused(Reason.TABLE_UNKNOWN, f"no table {target.name!r} in namespace {target.namespace!r}")
        return FoundByName(table, None, "")
