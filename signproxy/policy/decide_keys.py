"""Decide whether a subject may have keys for a table, and what they may do: no more than would be signed for it."""

from __future__ import annotations

from typing import NamedTuple

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import unprivileged
from signproxy.policy.rights import (
    FULL_METADATA,
    NO_RIGHTS,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    Rights,
    Standing,
    authority_of,
    mask_on,
)
from signproxy.policy.state import PolicyState
from signproxy.policy.table import MetadataLevel, Table


class KeysAllowed(NamedTuple):
    """What keys for a table may do."""

    allow: Allow
    ceiling: Ceiling
    metadata: MetadataLevel
    """The level that holds for the subject: open for a protected table of which it may read and write all metadata."""


_WRITING = SIGN_S3_WRITE_REQUEST, Ceiling.NONE
_READING = SIGN_S3_READ_REQUEST, Ceiling.READ_ONLY
_TRIED = {None: (_WRITING, _READING), Ceiling.NONE: (_WRITING,), Ceiling.READ_ONLY: (_READING,)}


def decide_keys(
    state: PolicyState,
    catalog: Catalog,
    subject: Subject,
    table: Table,
    standing: Standing | None = None,
    wanted: Ceiling | None = None,
) -> KeysAllowed | Deny:
    """Return what keys for a table may do; the refusal of a subject that may not have them.

    Where no ceiling is wanted, a subject that may write gets keys that write; every other reader gets keys that only
    read. With one, the keys have this ceiling or are refused.
    """
    rights = state.rights(subject.effective, catalog)
    if rights is None:
        if standing is None or not standing.mask:
            return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}", table.id)
        rights = NO_RIGHTS
    owners, denial = (table,), None
    for need, ceiling in _TRIED[wanted]:
        denial = unprivileged(catalog, subject, rights, owners, need, standing)
        if denial is None:
            if standing is not None:
                authority = standing.authority(catalog, rights, owners, need, ())
            else:
                authority = authority_of(catalog, rights, owners, need)
            return KeysAllowed(Allow(table.id, authority), ceiling, _metadata(rights, table))
    assert denial is not None  # noqa: S101 - else it had been returned
    return denial


def _metadata(rights: Rights, table: Table) -> MetadataLevel:
    opened = table.metadata is MetadataLevel.PROTECTED and mask_on(rights, table) & FULL_METADATA
    return MetadataLevel.OPEN if opened else table.metadata
