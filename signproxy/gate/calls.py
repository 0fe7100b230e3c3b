"""Judge the calls of a catalog's own interface, which address no S3 object."""

from __future__ import annotations

from typing import NamedTuple

from signproxy.errors import Reason, Refused
from signproxy.gate.judgement import Denied
from signproxy.gate.request import CatalogAddress, find_catalog
from signproxy.gate.scope import check_name, shows
from signproxy.model import Ceiling, Deny, Subject, TableId
from signproxy.policy.admission import refuse_stranger
from signproxy.policy.catalog import Authorizer, Catalog
from signproxy.policy.privileges import Privilege, names_of
from signproxy.policy.reach import LISTS, mask_at, may_list, names_below
from signproxy.policy.state import PolicyState

_READS = LISTS | int(
    Privilege.TABLE_REMOTE_SIGN
    | Privilege.TABLE_READ_DATA
    | Privilege.TABLE_READ_PROPERTIES
    | Privilege.NAMESPACE_READ_PROPERTIES
    | Privilege.VIEW_READ_PROPERTIES
    | Privilege.VOLUME_READ_DATA
)
"""What a caller who only ever reads may need."""


class CallPlace(NamedTuple):
    """What a call is about: the catalog (`namespace` is None), a namespace, or a table or view in it."""

    namespace: str | None = None
    name: str | None = None
    made: str | None = None
    """The table that the call makes in the namespace, where it was staged before: a token may be good for it alone."""


WHOLE_CATALOG = CallPlace()


def known_catalog(state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
    """Return the catalog if the subject may know of it; raise Refused."""
    catalog = find_catalog(state, address)
    denial = refuse_stranger(state, catalog, subject)
    if denial is not None:
        raise Denied(denial, catalog.name)
    return catalog


def admit_call(
    state: PolicyState, subject: Subject, address: CatalogAddress, need: int, place: CallPlace = WHOLE_CATALOG
) -> Catalog:
    """Return the catalog if the subject may make a call that needs these privileges at this place; raise Refused.

    The place need not exist. Whether remote signing is on does not matter.
    """
    catalog = known_catalog(state, subject, address)
    namespace, name, made = place
    if subject.caller.scope is not None and need:
        try:
            check_name(subject.caller.scope, catalog, namespace, name or made)
        except Refused as refused:
            raise Denied(Deny(refused.reason, refused.detail), catalog.name) from None
    table = None if namespace is None or name is None else TableId(catalog.name, namespace, name)
    if need & ~_READS and (subject.ceiling is not Ceiling.NONE or subject.delegated):
        deny = Deny(Reason.CEILING, f"delegated: {subject.delegated}, {subject.ceiling.value}", table)
        raise Denied(deny, catalog.name)
    if catalog.authorizer is Authorizer.CATALOG:
        return catalog
    rights = state.rights(subject.effective, catalog)
    missing = need if rights is None else need & ~mask_at(catalog, rights, namespace, name)
    if missing and name is None and rights is not None and names_below(catalog, rights, namespace):
        # Something below may be seen: the list is let through and shows no more than that.
        missing &= ~LISTS
    if missing:
        lacking = ", ".join(names_of(missing))
        where = f"namespace {namespace!r}, name {name!r}" if namespace is not None else "the catalog"
        detail = f"principal {subject.effective.name!r} lacks {lacking} on {where} of {catalog.name!r}"
        raise Denied(Deny(Reason.CALL_NOT_PERMITTED, detail, table), catalog.name)
    return catalog


def may_see(state: PolicyState, catalog: Catalog, subject: Subject, namespace: str, name: str | None) -> bool:
    """Whether a namespace (`name` is None), or a table or view in it, may stand in a list for the subject."""
    scope = subject.caller.scope
    if scope is not None and not shows(scope, catalog, namespace, name):
        return False
    # The call may have been admitted by a policy that is no longer in force; ids of roles are of one policy alone.
    current = state.catalogs.get(catalog.name)
    if current is None:
        return False
    if current.authorizer is Authorizer.CATALOG:
        return True
    rights = state.rights(subject.effective, current)
    return rights is not None and may_list(current, rights, namespace, name)
