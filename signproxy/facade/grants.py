"""Decide what a caller is told of the signer, with a table of an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from signproxy.catalog.access_delegation import modes_offered
from signproxy.catalog.carried import APPLICATION, CONTEXT, QUERY, Contexts
from signproxy.catalog.names import encode_segment
from signproxy.catalog.signer_grant import (
    DELEGATION_HEADER,
    Offer,
    SignerGrant,
    client_of,
    mount_of,
    variant_of,
)
from signproxy.gate.request import AskedFor
from signproxy.identity.authenticator import Authenticator
from signproxy.inventory.learned.sighting import Staged, TableFacts
from signproxy.model import Subject, TableScope
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.state import PolicyState


class Granting(NamedTuple):
    """Makes grants by the settings in force."""

    authenticator: Authenticator
    contexts: Contexts
    public_url: str
    token_seconds: float | None
    """How long table tokens live; None where they are switched off."""
    listener: str = ""
    """The S3 listener's URL; empty where there is none that clients can be told."""

    def modes(
        self, state: PolicyState, catalog: Catalog, offer: Offer, subject: Subject, headers: Mapping[str, str]
    ) -> tuple[Delegation, ...]:
        """Return how the caller may reach a table's objects, the first of it that can be had. Raise Refused."""
        if not signs(state, catalog):
            return ()
        offered = state.delegation_of(subject.caller, catalog)
        return modes_offered(offered, offer, headers.get(DELEGATION_HEADER, ""))

    def offered(
        self, modes: tuple[Delegation, ...], catalog: Catalog, asked: AskedFor, headers: Mapping[str, str]
    ) -> SignerGrant | None:
        """Return what this caller is told of the signer, but for what differs from table to table, if it may be."""
        if Delegation.REMOTE_SIGNING not in modes:
            return None
        said = {APPLICATION: asked.application, QUERY: asked.query_id}
        return SignerGrant(
            mount=mount_of(self.public_url, catalog.name),
            prefix=encode_segment(catalog.name),
            client=client_of(headers.get("User-Agent", ""), headers.get("X-Client-Version", "")),
            context={name: value for name, value in said.items() if value},
        )

    def variant(self, grant: SignerGrant | None, state: PolicyState, now: float) -> str:
        """Return what tells answers that are made now from others. With tokens they are others after half a life."""
        if grant is None:
            return variant_of(None, state.rev, self.listener)
        if self.token_seconds is None:
            return variant_of(grant, state.rev)
        return variant_of(grant, state.rev, str(int(2 * now / self.token_seconds)))

    def of_table(
        self, grant: SignerGrant | None, catalog: Catalog, facts: TableFacts, subject: Subject, bearer: str
    ) -> SignerGrant | None:
        """Return a grant with a token of the table, where there are such tokens."""
        if grant is None or self.token_seconds is None:
            return grant
        scope = TableScope(catalog.name, facts.namespace, facts.name, facts.uuid)
        token = self.authenticator.table_token(subject.caller, bearer, scope)
        return grant if token is None else msgspec.structs.replace(grant, token=token)

    def of_staged(self, grant: SignerGrant | None, staged: Staged) -> SignerGrant | None:
        """Return a grant that carries what was staged: another replica, or this one later, knows nothing of it."""
        context = "" if grant is None else self.contexts.seal(staged)
        if grant is None or not context:
            return grant
        return msgspec.structs.replace(grant, context={**grant.context, CONTEXT: context})

    def listener_for(self, state: PolicyState, catalog: Catalog) -> str:
        """Return where a caller that signs by itself sends its S3 requests: the S3 listener's URL, empty for the store.

        A caller that is offered signatures sends its requests to the store. Where signing is off for the catalog, the
        listener serves none of its tables, and callers have the store's own keys.
        """
        return self.listener if signs(state, catalog) else ""


def signs(state: PolicyState, catalog: Catalog) -> bool:
    """Whether signing is on for a catalog."""
    return refuse_closed(state, catalog) is None
