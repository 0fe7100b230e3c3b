"""Decide whether a subject may have keys for a table, and what they may do: no more than would be signed for it."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import unprivileged
from signproxy.policy.rights import (
    NO_RIGHTS,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    Standing,
    authority_of,
)
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table


def decide_keys(
    state: PolicyState, catalog: Catalog, subject: Subject, table: Table, standing: Standing | None = None
) -> tuple[Allow, Ceiling] | Deny:
    """Return the `Allow` and the ceiling of keys for a table; the refusal of one that the subject may not even read.

    A subject that may write gets keys that write; every other reader gets keys that only read.
    """
    rights = state.rights(subject.effective, catalog)
    if rights is None:
        if standing is None or not standing.mask:
            return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}", table.id)
        rights = NO_RIGHTS
    owners, denial = (table,), None
    for need, ceiling in ((SIGN_S3_WRITE_REQUEST, Ceiling.NONE), (SIGN_S3_READ_REQUEST, Ceiling.READ_ONLY)):
        denial = unprivileged(catalog, subject, rights, owners, need, standing)
        if denial is None:
            if standing is not None:
                authority = standing.authority(catalog, rights, owners, need, ())
            else:
                authority = authority_of(catalog, rights, owners, need)
            return Allow(table.id, authority), ceiling
    assert denial is not None  # noqa: S101 - else it had been returned
    return denial
