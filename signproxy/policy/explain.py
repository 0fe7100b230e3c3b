"""Tell an operator why a decision fell as it did, and the one change of the policy that would turn it."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason
from signproxy.model import NAMESPACE_SEPARATOR, Deny, Subject, TableId
from signproxy.policy.catalog import Catalog
from signproxy.policy.containment import addressed, contains_key
from signproxy.policy.decide_volume import mask_in, needed
from signproxy.policy.privileges import names_of
from signproxy.policy.reach import grants_at, namespace_at
from signproxy.policy.rights import (
    FULL_METADATA,
    SIGN_S3_READ_REQUEST,
    SIGN_S3_WRITE_REQUEST,
    ReachingGrant,
    Rights,
    grounds,
    mask_on,
)
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table, TableSettings
from signproxy.s3.request import S3Request

_ELLIPSIS_AFTER = 40
"""Characters that a comparison shows behind the first difference."""


class LocationMatch(msgspec.Struct, frozen=True, gc=False):
    """How far a key follows a location of the table."""

    location: str
    key: str
    common: int
    """Characters that both begin with."""

    def __str__(self) -> str:
        """Show the key with what differs in brackets, control characters escaped."""
        differs = self.key[self.common : self.common + _ELLIPSIS_AFTER]
        shown = f"{_plain(self.key[: self.common])}[{_plain(differs) or 'ends here'}]"
        expected = self.location[self.common : self.common + _ELLIPSIS_AFTER]
        return f"{shown}; the location goes on with [{_plain(expected) or 'nothing: a key must follow'}]"


def nearest_grants(catalog: Catalog, table: Table, missing: int) -> tuple[ReachingGrant, ...]:
    """Return the grants on a table, to whatever role, that give the most of what is missing; the best first."""
    helpful = [ground for ground in grounds(catalog, table) if ground.mask & missing]
    return tuple(sorted(helpful, key=lambda ground: -(ground.mask & missing).bit_count()))


def nearest_location(table: Table, bucket: str, key: str) -> LocationMatch:
    """Return the location of a table that a key follows the furthest, bucket included."""
    address = f"{bucket}/{key}"
    matches = [
        LocationMatch(location, address, _common(location, address))
        for location in (f"{place.bucket}/{place.prefix}" for place in table.places)
    ]
    return max(matches, key=lambda match: match.common)


def suggest(state: PolicyState, catalog: Catalog, subject: Subject, deny: Deny, request: S3Request | None) -> str:
    """Return one change of the policy that would turn a denial, as YAML after a word of reason, or nothing.

    For operators alone: it names roles, tables and locations.
    """
    if deny.reason is Reason.PRINCIPAL_UNKNOWN:
        role = next(iter(state.principal_roles), "a-principal-role")
        yaml = f"principals: {{{_quoted(subject.effective.name)}: {{roles: [{_quoted(role)}]}}}}"
        return f"add the principal to the policy: {yaml}"
    rights = state.rights(subject.effective, catalog)
    if deny.volume is not None and rights is not None and request is not None:
        return _grant_in(catalog, rights, deny, request)
    table = None if deny.table is None else _known(catalog, deny.table)
    if table is None or rights is None or request is None:
        return ""
    match deny.reason:
        case Reason.NO_REMOTE_SIGN | Reason.NO_READ_DATA | Reason.NO_WRITE_DATA:
            need = SIGN_S3_WRITE_REQUEST if request.operation.needs_write else SIGN_S3_READ_REQUEST
            return _grant(state, catalog, subject, rights, table, need)
        case Reason.METADATA_PROTECTED:
            return _grant(state, catalog, subject, rights, table, FULL_METADATA)
        case Reason.METADATA_SEALED:
            return f"lift the seal of the table: {_table_yaml(table.id, 'metadata: protected')}"
        case Reason.OUTSIDE_TABLE if table.location:
            return _relocate(catalog, table, request)
        case Reason.COPY_SOURCE_OUTSIDE if table.location:
            return _bind(catalog, table, request)
        case _:
            return ""


def _grant_in(catalog: Catalog, rights: Rights, deny: Deny, request: S3Request) -> str:
    """Return the grant that lets a request into a volume, where a grant is what it lacks."""
    volume = None if deny.volume is None else catalog.volumes.named(deny.volume.name)
    if volume is None or deny.reason not in (Reason.NO_READ_DATA, Reason.NO_WRITE_DATA, Reason.NO_MANAGE):
        return ""
    lacking = ", ".join(names_of(needed(request) & ~mask_in(rights, volume)))
    held = [catalog.roles[role] for role in sorted(rights.roles) if role in catalog.roles]
    role = next(iter(held or catalog.roles.values()), "a-role")
    on = f"catalog: {_quoted(catalog.name)}, volume: {_quoted(volume.id.name)}"
    return f"grant {lacking}: grants: [{{role: {_quoted(role)}, {on}, privileges: [{lacking}]}}]"


def _known(catalog: Catalog, table: TableId) -> Table | None:
    """Return the table, or what the policy says of one whose location an upstream tells: its grants alone."""
    declared = catalog.table(table.namespace, table.name)
    if declared is not None or catalog.learning is None:
        return declared
    namespace = namespace_at(catalog, table.namespace) or catalog.learning.nowhere
    grants = grants_at(catalog, table.namespace, table.name)
    return Table(table, namespace, "", TableSettings("", ""), grants)


def _grant(state: PolicyState, catalog: Catalog, subject: Subject, rights: Rights, table: Table, need: int) -> str:
    missing = need & ~mask_on(rights, table)
    nearest = nearest_grants(catalog, table, missing)
    near = f" (nearest: {nearest[0].rule_id})" if nearest else ""
    lacking = ", ".join(names_of(missing))
    if not rights.roles:
        principal_role = next(iter(state.principal_roles_of(subject.effective) or ()), "a-principal-role")
        role = nearest[0].role if nearest else next(iter(catalog.roles.values()), "a-role")
        yaml = f"principal_roles: {{{_quoted(principal_role)}: {{{_quoted(catalog.name)}: [{_quoted(role)}]}}}}"
        return f"give it a role in the catalog{near}: {yaml}"
    role = _closest_role(catalog, rights, table, need)
    on = f"catalog: {_quoted(catalog.name)}, {_namespace_yaml(table.id)}, table: {_quoted(table.name)}"
    yaml = f"grants: [{{role: {_quoted(role)}, {on}, privileges: [{lacking}]}}]"
    return f"grant {lacking}{near}: {yaml}"


def _closest_role(catalog: Catalog, rights: Rights, table: Table, need: int) -> str:
    """Return the subject's role that already has the most of what is needed."""
    held: dict[str, int] = {catalog.roles.get(role, str(role)): 0 for role in sorted(rights.roles)}
    for ground in grounds(catalog, table, rights.roles):
        held[ground.role] |= ground.mask & need
    return max(held, key=lambda role: held[role].bit_count())


def _relocate(catalog: Catalog, table: Table, request: S3Request) -> str:
    storage = request.storage.name
    for key in addressed(request):
        if not contains_key(table, storage, request.bucket, key):
            match = nearest_location(table, request.bucket, key)
            owners = catalog.locations.owners(request.bucket, key)
            if owners:
                yaml = f"catalogs: {{{_quoted(catalog.name)}: {{binding: by-location}}}}"
                return f"{match}; the key lies in {owners[0].id}: ask for that table, or let keys decide: {yaml}"
            folder = f"s3://{request.bucket}/{key.rpartition('/')[0]}"
            return f"{match}; if this is the table's: {_table_yaml(table.id, f'locations: [{_quoted(folder)}]')}"
    return ""


def _bind(catalog: Catalog, table: Table, request: S3Request) -> str:
    source = request.copy_source
    if source is None:
        return ""
    match = nearest_location(table, source.bucket, source.key)
    owners = catalog.locations.owners(source.bucket, source.key)
    if not owners or table in owners:
        return f"source {match}"
    yaml = f"catalogs: {{{_quoted(catalog.name)}: {{binding: by-location}}}}"
    return f"the source lies in {owners[0].id}; to copy between tables that may be read: {yaml}"


def _table_yaml(table: TableId, setting: str) -> str:
    on = f"catalog: {_quoted(table.catalog)}, {_namespace_yaml(table)}, name: {_quoted(table.name)}"
    return f"tables: [{{{on}, {setting}}}]"


def _namespace_yaml(table: TableId) -> str:
    levels = table.namespace.split(NAMESPACE_SEPARATOR)
    return f"namespace: [{', '.join(map(_quoted, levels))}]"


def _common(one: str, other: str) -> int:
    count = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        count += 1
    return count


def _quoted(text: str) -> str:
    """Return text as YAML reads it between double quotes, in plain ASCII."""
    return f'"{_plain(text).replace(chr(34), chr(92) + chr(34))}"'


def _plain(text: str) -> str:
    """Escape what a terminal would obey or hide."""
    return text.encode("unicode_escape").decode("ascii")
