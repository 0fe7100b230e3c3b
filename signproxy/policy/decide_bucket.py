"""Decide whether a subject may know of a bucket, where a request is about neither keys nor lists."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.model import Allow, Deny, KeyScope, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide_volume import VOLUME_READ, mask_in
from signproxy.policy.reach import grants_at
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, Rights, granted
from signproxy.policy.state import PolicyState
from signproxy.policy.table import NO_GRANTS, Grants
from signproxy.s3.storage import Storage


def decide_bucket(state: PolicyState, catalog: Catalog, subject: Subject, bucket: str) -> Allow | Deny:
    """Judge whether a subject may know of a bucket: one that may read anything in it may.

    That there is a bucket of this name is all that it learns, so grants that lie close together are not told apart.
    """
    rights = state.rights(subject.effective, catalog)
    if rights is None:
        return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}")
    scopes = [scope for scope in subject.caller.scopes if scope.namespace]
    if scopes:
        known = all(_reads_in(catalog, rights, bucket, scope) for scope in scopes)
    else:
        tables = _tables_in(catalog, bucket)
        known = (tables is not None and _reads(rights, tables)) or any(
            VOLUME_READ & mask_in(rights, volume) for volume in catalog.volumes.in_bucket(bucket)
        )
    if known:
        return Allow(None, BucketAuthority(catalog.name, bucket))
    detail = f"principal {subject.effective.name!r} may read nothing in bucket {bucket!r} of catalog {catalog.name!r}"
    return Deny(Reason.NO_READ_DATA, detail)


def unlisted(state: PolicyState, catalog: Catalog, subject: Subject) -> tuple[Storage, ...]:
    """Return the storages of which only the store knows which buckets a subject may know of: clients make them."""
    rights = state.rights(subject.effective, catalog)
    if rights is None or any(scope.namespace for scope in subject.caller.scopes):
        return ()
    patterns = [volume for volume in catalog.volumes if volume.is_pattern and VOLUME_READ & mask_in(rights, volume)]
    return tuple([catalog.storages[name] for name in dict.fromkeys(volume.storage for volume in patterns)])


def _tables_in(catalog: Catalog, bucket: str) -> Grants | None:
    """Return what is granted on the tables in a bucket; None where there are none."""
    if catalog.learning is None:
        return catalog.readers.get(bucket)
    # Which of the tables that an upstream tells of lie in which bucket is not known beforehand.
    if any(root.bucket == bucket for root in catalog.learning.roots):
        return catalog.below.get("", NO_GRANTS)
    return None


def _reads_in(catalog: Catalog, rights: Rights, bucket: str, scope: KeyScope) -> bool:
    """Whether something may be read in the table or the namespace that a key is good for."""
    if scope.catalog != catalog.name:
        return False
    table = catalog.table(scope.namespace, scope.table)
    if table is not None and not any(place.bucket == bucket for place in table.places):
        return False
    below = NO_GRANTS if scope.table else catalog.below.get(scope.namespace, NO_GRANTS)
    return _reads(rights, grants_at(catalog, scope.namespace, scope.table or None)) or _reads(rights, below)


def _reads(rights: Rights, grants: Grants) -> bool:
    return not SIGN_S3_READ_REQUEST & ~(rights.mask | granted(grants, rights.roles))


class BucketAuthority(msgspec.Struct, frozen=True, gc=False):
    """What stands behind an `Allow` that concerns a bucket alone: something in it may be read."""

    catalog: str
    bucket: str

    @property
    def rule_id(self) -> str:
        """The bucket; the grants behind it may be a million."""
        return f"reader@bucket:{self.catalog}/{self.bucket}"
