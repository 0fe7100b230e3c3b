"""Decide whether a subject may do an S3 operation in a volume, or know of a bucket. Only the transparent way asks."""

from __future__ import annotations

from signproxy.errors import Reason
from signproxy.model import Allow, Ceiling, Deny, KeyScope, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.containment import addressed
from signproxy.policy.privileges import Privilege, names_of
from signproxy.policy.reach import grants_at
from signproxy.policy.rights import SIGN_S3_READ_REQUEST, PolicyAuthority, Rights, granted
from signproxy.policy.state import PolicyState
from signproxy.policy.table import NO_GRANTS, Grants, Overwrite
from signproxy.policy.volume import Volume
from signproxy.s3.operation import GUARDED_WRITES, Access, Operation
from signproxy.s3.request import S3Request
from signproxy.s3.rules import KeyRules
from signproxy.s3.storage import Storage

VOLUME_READ = int(Privilege.VOLUME_READ_DATA)
VOLUME_WRITE = int(Privilege.VOLUME_WRITE_DATA)
VOLUME_MANAGE = int(Privilege.VOLUME_MANAGE)

_OTHER = frozenset({Operation.OTHER_READ, Operation.OTHER_WRITE})
_PARTS = frozenset({Operation.CREATE_MULTIPART_UPLOAD, Operation.UPLOAD_PART, Operation.UPLOAD_PART_COPY})


def decide_volume(
    state: PolicyState, catalog: Catalog, subject: Subject, volume: Volume, request: S3Request
) -> Allow | Deny:
    """Judge a request for the volume that was found for what it addresses; the source of a copy is judged apart.

    The order is privileges, ceiling, location, write-once: a subject that may not touch a volume learns nothing of
    where it lies.
    """
    rights = state.rights(subject.effective, catalog)
    if rights is None:
        return Deny(Reason.PRINCIPAL_UNKNOWN, f"principal {subject.effective.name!r}", volume=volume.id)
    need = needed(request)
    missing = need & ~mask_in(rights, volume)
    if missing:
        return _lacking(subject, volume, missing)
    if need != VOLUME_READ and (subject.ceiling is not Ceiling.NONE or subject.delegated):
        # A caller who acts on another's rights, or was clamped, only ever reads.
        detail = f"delegated: {subject.delegated}, {subject.ceiling.value}"
        return Deny(Reason.CEILING, detail, volume=volume.id)
    denial = _outside(volume, request)
    if denial is not None:
        return denial
    write_once = False
    if volume.overwrite is Overwrite.FORBID and request.operation.access is Access.WRITE and request.key:
        operation = request.operation
        # Anything else that writes an object in a single step cannot be guarded.
        write_once = operation in GUARDED_WRITES
        if request.conditional or not (write_once or operation in _PARTS):
            detail = f"{operation.s3_name}, conditional: {request.conditional}"
            return Deny(Reason.WRITE_ONCE, detail, volume=volume.id)
    return Allow(None, _authority(catalog, rights, volume, need), write_once, volume=volume.id)


def needed(request: S3Request) -> int:
    """Return the privilege that a request needs on its volume."""
    if not request.operation.needs_write:
        return VOLUME_READ
    return VOLUME_MANAGE if is_of_bucket(request) else VOLUME_WRITE


def is_of_bucket(request: S3Request) -> bool:
    """Whether a request is about a bucket itself, and neither about keys nor about what begins with a prefix."""
    return request.operation in _OTHER and not request.key


def mask_in(rights: Rights, volume: Volume) -> int:
    """Return everything that the holder may do in a volume."""
    return rights.mask | granted(volume.grants, rights.roles)


def contains(volume: Volume, request: S3Request, key: str) -> bool:
    """Whether a key lies in the volume. Of what is not a key, `_outside` asks otherwise."""
    if not key.startswith(volume.prefix):
        # Clients that see folders ask whether there is an object of the folder's name before they look into it.
        return (
            request.operation.access is Access.READ and volume.rules.keys is KeyRules.S3 and f"{key}/" == volume.prefix
        )
    # The marker of the volume's own folder is a key to clients that see folders, and to no others.
    return len(key) > len(volume.prefix) or (volume.rules.keys is KeyRules.S3 and bool(key))


def _outside(volume: Volume, request: S3Request) -> Deny | None:
    if volume.storage != request.storage.name or not volume.holds_bucket(request.bucket):
        return _outside_volume(volume, request, request.key)
    if is_of_bucket(request):
        if volume.prefix:
            return _outside_volume(volume, request, "")
        return None
    listed = request.operation.by_prefix
    keys = addressed(request)
    for key in keys:
        if not (key.startswith(volume.prefix) if listed else contains(volume, request, key)):
            return _outside_volume(volume, request, key)
    # Without a key nothing was checked, so nothing is allowed.
    return None if keys else _outside_volume(volume, request, "")


def _outside_volume(volume: Volume, request: S3Request, key: str) -> Deny:
    where = f"{f's3://{request.bucket}/{key}'!r} on storage {request.storage.name!r}"
    return Deny(Reason.OUTSIDE_TABLE, f"{where} is not below {str(volume)!r}", volume=volume.id)


def _lacking(subject: Subject, volume: Volume, missing: int) -> Deny:
    if missing & VOLUME_MANAGE:
        reason = Reason.NO_MANAGE
    elif missing & VOLUME_WRITE:
        reason = Reason.NO_WRITE_DATA
    else:
        reason = Reason.NO_READ_DATA
    names = ", ".join(names_of(missing))
    detail = f"principal {subject.effective.name!r} lacks {names} on volume {str(volume.id)!r}"
    return Deny(reason, detail, volume=volume.id)


def _authority(catalog: Catalog, rights: Rights, volume: Volume, need: int) -> PolicyAuthority:
    """Return the deciding grants, `role@catalog:…` or `role@volume:…`: the catalog's first."""
    rules: list[str] = []
    for securable, grants in ((f"catalog:{catalog.name}", catalog.grants), (f"volume:{volume.id}", volume.grants)):
        for role, mask in sorted(grants.items()):
            if role in rights.roles and mask & need:
                need &= ~mask
                rules.append(f"{catalog.roles.get(role, str(role))}@{securable}")
    return PolicyAuthority("+".join(rules))


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
        # The bucket is named: the grants behind it may be a million.
        return Allow(None, PolicyAuthority(f"reader@bucket:{catalog.name}/{bucket}"))
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
