"""Write down how the rooms of a worker are doing."""

from __future__ import annotations

from signproxy.audit.trail import AuditTrail
from signproxy.credentials.store import CredentialStore
from signproxy.identity.authenticator import Authenticator
from signproxy.server.process.spool import Spool
from signproxy.server.status.report import AuditReport, CredentialsReport, KeysReport


def keys_of(authenticator: Authenticator) -> tuple[KeysReport, ...]:
    """Return how the keys of each issuer are."""
    return tuple(
        KeysReport(health.issuer, health.keys, health.age, health.failures, health.last_error)
        for health in authenticator.health()
    )


def credentials_of(store: CredentialStore) -> tuple[CredentialsReport, ...]:
    """Return how the credentials of each storage are."""
    return tuple(
        CredentialsReport(
            state.storage,
            state.bucket,
            state.provider,
            state.expires_at,
            state.refreshed_at,
            state.failures,
            state.problem,
        )
        for state in store.states
    )


def audit_of(trail: AuditTrail, spool: Spool) -> AuditReport:
    """Return how the trail is doing, and what becomes of its segments."""
    state, shipping = trail.state, spool.shipping
    counts = (state.queued, state.written, state.dropped, state.refused, state.errors)
    return AuditReport(trail.boot_id, *counts, state.problem, spool.sealed, shipping.waiting, shipping.problem)
