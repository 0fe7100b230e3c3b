"""Export the policy for the pipeline: tables, principals, and each grant for each principal that has it."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from signproxy.cli import configuration
from signproxy.config import Settings
from signproxy.documents import decode, load_yaml
from signproxy.errors import Finding, Invalid
from signproxy.identity.opaque import STATIC_ISSUER
from signproxy.inventory.declared.build import build_state
from signproxy.inventory.declared.catalog_draft import levels_of
from signproxy.inventory.declared.document import GrantEntry, PolicyDocument
from signproxy.inventory.declared.findings import Findings
from signproxy.inventory.declared.ndjson import read_inventory
from signproxy.inventory.declared.snapshot import Snapshot, read_consistently
from signproxy.inventory.declared.source import accept_bindings
from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.state import PolicyState
from signproxy.server.process.build import single_issuer

EXPORT_SCHEMA = "signproxy.policy-export/1"

_LINES = 4096
"""Lines that are written together."""


class _Line(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag_field="kind"):
    """What a line has in common with others: its kind, and that what is empty is left out."""


class ExportedPolicy(_Line, frozen=True, gc=False, omit_defaults=True, tag="policy"):
    """The first line: which policy it is, and when it was looked at."""

    schema: str
    policy_rev: str
    exported_at: str


class ExportedPrincipal(_Line, frozen=True, gc=False, omit_defaults=True, tag="principal"):
    """A principal that the policy declares, under the name that audit events use."""

    principal: str
    roles: tuple[str, ...] = ()
    mode: str = "enforce"


class ExportedTable(_Line, frozen=True, gc=False, omit_defaults=True, tag="table"):
    """A table with a location; those that only an upstream knows are not in a policy."""

    catalog: str
    namespace: str
    table: str
    uuid: str = ""
    locations: tuple[str, ...] = ()


class ExportedGrant(_Line, frozen=True, gc=False, omit_defaults=True, tag="grant"):
    """One privilege that one catalog role has on one securable, for one principal that the role reaches.

    Without `principal` it is for callers whose token brings `principal_role`; without that, too, no principal has it.
    """

    grant_id: str
    via_role: str
    privilege: str
    resource: str
    """As `rule_id` of audit events names it: `namespace:lake.sales`."""
    catalog: str
    principal: str = ""
    principal_role: str = ""
    namespace: str = ""
    table: str = ""
    volume: str = ""
    granted_at: str = ""
    """Not known to a policy; an export that is written another way may have it."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where the policy is and where the export goes."""
    configuration.arguments(parser)
    parser.add_argument("--output", metavar="FILE", help="write to this file, wholly or not at all (default: stdout)")


def run(options: argparse.Namespace) -> int:
    """Write the export, of files that belong together."""
    settings = configuration.settings_of(options)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with TemporaryFile() as spool:
        read_consistently(Path(settings.policy.path), lambda snapshot: _spool(snapshot, settings, now, spool))
        spool.seek(0)
        if options.output:
            _write(Path(options.output), spool)
        else:
            sys.stdout.flush()
            shutil.copyfileobj(spool, sys.stdout.buffer)
    return 0


def lines(snapshot: Snapshot, state: PolicyState, issuer: str, exported_at: str) -> Iterator[_Line]:
    """Yield every line; `state` is what the snapshot's files declare. `issuer` is that of bare names."""
    yield ExportedPolicy(EXPORT_SCHEMA, state.rev, exported_at)
    for name, roles in state.principals.items():
        yield ExportedPrincipal(full_name(name, issuer), roles, "observe" if name in state.observed else "enforce")
    for catalog in state.catalogs.values():
        for table in catalog.tables():
            places = tuple(str(place) for place in table.places)
            yield ExportedTable(table.id.catalog, table.id.namespace, table.id.name, table.uuid, places)
    holders = _holders(state, issuer)
    for entry in _entries(snapshot):
        yield from _grants(entry, entry.catalog or state.default_catalog, holders)


def _spool(snapshot: Snapshot, settings: Settings, now: str, spool: IO[bytes]) -> None:
    state = build_state(snapshot, epoch=0, check_bindings=accept_bindings, single_issuer=single_issuer(settings))
    issuer = issuer_of(settings)
    encoder = msgspec.json.Encoder()
    spool.seek(0)
    spool.truncate()
    held: list[_Line] = []
    for line in lines(snapshot, state, issuer, now):
        held.append(line)
        if len(held) >= _LINES:
            spool.write(encoder.encode_lines(held))
            held.clear()
    spool.write(encoder.encode_lines(held))


def issuer_of(settings: Settings) -> str:
    """Return the issuer of names that leave it out, which only a policy for one issuer may."""
    return next(iter(settings.identity.issuers), STATIC_ISSUER)


def _write(path: Path, spool: IO[bytes]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as out:
            shutil.copyfileobj(spool, out)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise Invalid([Finding(str(path), "", f"cannot be written: {error.strerror}")]) from None


_Holders = dict[tuple[str, str], list[tuple[str, str]]]


def _holders(state: PolicyState, issuer: str) -> _Holders:
    """Return who has which catalog role, each with the principal role it comes by; '' stands for a token's bearer."""
    stands_for = {
        role: [(name, state.catalogs[name].roles[number]) for name, ids in reached.items() for number in sorted(ids)]
        for role, reached in state.principal_roles.items()
    }
    holders: _Holders = {}
    for role, catalog_roles in stands_for.items():
        for catalog_role in catalog_roles:
            holders.setdefault(catalog_role, []).append(("", role))
    for name, roles in state.principals.items():
        for role in roles:
            for catalog_role in stands_for[role]:
                holders.setdefault(catalog_role, []).append((full_name(name, issuer), role))
    return holders


def _entries(snapshot: Snapshot) -> Iterator[GrantEntry]:
    """Yield the grants as they are written: the state has them merged, with all that they imply."""
    named: list[str] = []
    for file, content in snapshot.documents():
        document = decode(PolicyDocument, load_yaml(content.decode(), file), file=file)
        yield from document.grants
        named += document.inventories
    for name in named:
        with snapshot.inventory(name) as stream:
            for _, line in read_inventory(name, stream, lambda _: None, Findings()):
                if isinstance(line, GrantEntry):
                    yield line


def _grants(entry: GrantEntry, catalog: str, holders: _Holders) -> Iterator[ExportedGrant]:
    levels = () if entry.namespace is None else levels_of(entry.namespace)
    resource = resource_of(catalog, levels, entry.table or "", entry.volume or "")
    namespace = NAMESPACE_SEPARATOR.join(levels)
    for principal, principal_role in holders.get((catalog, entry.role)) or [("", "")]:
        for privilege in entry.privileges:
            yield ExportedGrant(
                grant_id=_id(principal, principal_role, entry.role, privilege, resource),
                via_role=entry.role,
                privilege=privilege,
                resource=resource,
                catalog=catalog,
                principal=principal,
                principal_role=principal_role,
                namespace=namespace,
                table=entry.table or "",
                volume=entry.volume or "",
            )


def resource_of(catalog: str, levels: tuple[str, ...], table: str, volume: str) -> str:
    """Name a securable as audit events do."""
    if volume:
        return f"volume:{catalog}.{volume}"
    if table:
        return f"table:{'.'.join((catalog, *levels, table))}"
    return f"namespace:{'.'.join((catalog, *levels))}" if levels else f"catalog:{catalog}"


def _id(*parts: str) -> str:
    return hashlib.sha256("\x1e".join(parts).encode()).hexdigest()[:24]


def full_name(name: str, issuer: str) -> str:
    """Return a principal's full name: where there is one issuer, the policy may leave it out."""
    return name if "/" in name else f"{issuer}/{name}"
