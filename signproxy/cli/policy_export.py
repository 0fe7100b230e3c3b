"""Export the policy for the pipeline: tables, principals, and each grant for each principal that has it."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from signproxy.cli import configuration
from signproxy.cli.terminal import write_whole
from signproxy.config import Settings
from signproxy.documents import decode, load_yaml
from signproxy.identity.opaque import STATIC_ISSUER
from signproxy.inventory.declared.build import build_state
from signproxy.inventory.declared.catalog_draft import levels_of
from signproxy.inventory.declared.document import GrantEntry, PolicyDocument
from signproxy.inventory.declared.findings import Findings
from signproxy.inventory.declared.snapshot import FileSnapshot, read_consistently, read_inventory
from signproxy.inventory.declared.source import accept_bindings
from signproxy.model import NAMESPACE_SEPARATOR
from signproxy.policy.state import PolicyState
from signproxy.server.process.build import single_issuer

EXPORT_SCHEMA = "signproxy.policy-export/1"


Line = dict[str, object]
"""A line of an export: its kind, and what is known; what is empty is left out."""


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
            write_whole(Path(options.output), spool)
        else:
            sys.stdout.flush()
            shutil.copyfileobj(spool, sys.stdout.buffer)
    return 0


def lines(snapshot: FileSnapshot, state: PolicyState, issuer: str, exported_at: str) -> Iterator[Line]:
    """Yield every line; `state` is what the snapshot's files declare. `issuer` is that of bare names.

    The first says which policy it is, and when it was looked at. Then come the principals that the policy declares,
    under the names that audit events use; the tables with locations, for those that only an upstream knows are not in a
    policy; and each grant for each principal that has it.
    """
    yield _line("policy", schema=EXPORT_SCHEMA, policy_rev=state.rev, exported_at=exported_at)
    for name, roles in state.principals.items():
        mode = "observe" if name in state.observed else ""
        yield _line("principal", principal=full_name(name, issuer), roles=roles, mode=mode)
    for catalog in state.catalogs.values():
        for table in catalog.tables():
            places = [str(place) for place in table.places]
            named = {"catalog": table.id.catalog, "namespace": table.id.namespace, "table": table.id.name}
            yield _line("table", **named, uuid=table.uuid, locations=places)
    holders = _holders(state, issuer)
    for entry in _entries(snapshot):
        yield from _grants(entry, entry.catalog or state.default_catalog, holders)


def _spool(snapshot: FileSnapshot, settings: Settings, now: str, spool: IO[bytes]) -> None:
    state = build_state(snapshot, epoch=0, check_bindings=accept_bindings, single_issuer=single_issuer(settings))
    issuer = issuer_of(settings)
    encode = msgspec.json.Encoder().encode
    spool.seek(0)
    spool.truncate()
    spool.writelines(encode(line) + b"\n" for line in lines(snapshot, state, issuer, now))


def issuer_of(settings: Settings) -> str:
    """Return the issuer of names that leave it out, which only a policy for one issuer may."""
    return next(iter(settings.identity.issuers), STATIC_ISSUER)


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


def _entries(snapshot: FileSnapshot) -> Iterator[GrantEntry]:
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


def _grants(entry: GrantEntry, catalog: str, holders: _Holders) -> Iterator[Line]:
    """Yield one privilege after the other that one catalog role has on one securable, for each principal.

    Without `principal` it is for callers whose token brings `principal_role`; without that, too, no principal has it.
    """
    levels = () if entry.namespace is None else levels_of(entry.namespace)
    # As `rule_id` of audit events names it: `namespace:lake.sales`.
    resource = resource_of(catalog, levels, entry.table or "", entry.volume or "")
    place = {"namespace": NAMESPACE_SEPARATOR.join(levels), "table": entry.table, "volume": entry.volume}
    for principal, principal_role in holders.get((catalog, entry.role)) or [("", "")]:
        for privilege in entry.privileges:
            identity = _id(principal, principal_role, entry.role, privilege, resource)
            granted = {"grant_id": identity, "via_role": entry.role, "privilege": privilege, "resource": resource}
            held = {"catalog": catalog, "principal": principal, "principal_role": principal_role}
            yield _line("grant", **granted, **held, **place)


def _line(kind: str, **known: object) -> Line:
    return {"kind": kind, **{name: value for name, value in known.items() if value}}


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
