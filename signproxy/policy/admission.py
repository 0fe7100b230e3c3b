"""Say whether a subject may know of a catalog, and whether anything in it is signed or forwarded at all."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Deny, Subject
from signproxy.policy.catalog import Authorizer, Catalog, CatalogKind
from signproxy.policy.state import PolicyState


def refuse_stranger(state: PolicyState, catalog: Catalog, subject: Subject) -> Deny | None:
    """Refuse a subject that may not know of the catalog.

    This comes before any switch: an unknown caller must not learn whether a foreign catalog signs.
    """
    caller = subject.caller
    if caller.catalogs is not None and catalog.name not in caller.catalogs:
        return Deny(Reason.CATALOG_NOT_FOR_ISSUER, f"issuer {caller.issuer!r}, catalog {catalog.name!r}")
    # Also where nothing of a table is asked for: an upstream is shown the owner's own token.
    limited = caller.scope is not None or caller.key_scope is not None
    if limited and any(scope.catalog != catalog.name for scope in caller.scopes):
        return Deny(Reason.NOT_IN_SCOPE, f"good for another catalog than {catalog.name!r}")
    # Where the upstream alone authorizes, the policy need not know its callers.
    rights = state.rights(subject.effective, catalog)
    if (rights is None or not rights.roles) and catalog.authorizer is not Authorizer.CATALOG:
        return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r} in {catalog.name!r}")
    return None


def refuse_closed(state: PolicyState, catalog: Catalog) -> Deny | None:
    """Refuse a catalog in which nothing is signed or forwarded: switched off, or another system's."""
    if not (state.remote_signing and catalog.remote_signing):
        where = f"catalog {catalog.name!r}" if state.remote_signing else "the whole system"
        return Deny(Reason.REMOTE_SIGNING_OFF, f"off for {where}")
    if catalog.kind is CatalogKind.EXTERNAL and not catalog.allow_external:
        return Deny(Reason.CATALOG_FEDERATED, f"catalog {catalog.name!r}")
    return None
