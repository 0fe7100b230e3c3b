"""Write what `signproxy policy export` printed on the first and on the last day, and a price list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tools.sample_data.clock import UTC
from tools.sample_data.stage import Revoked
from tools.sample_data.world import CATALOG, Grant, Principal, World

SCHEMA = "signproxy.policy-export/1"
_AFTER = 60
"""Seconds past the end of the month."""

PRICES = """\
# Dollars, as S3 Standard was priced in us-east-1. Requests per thousand, bytes per gigabyte.
currency: USD
default:
  requests:
    put: 0.005
    list: 0.005
    get: 0.0004
    head: 0.0004
    delete: 0.0
  egress: 0.0
buckets:
  lake:
    egress: 0.09
"""


def write_policy(
    directory: Path, world: World, grants: Sequence[Grant], revoked: Sequence[Revoked], people: Sequence[Principal]
) -> None:
    """Write both exports; only the last one says what was withdrawn."""
    below = directory / "policy"
    below.mkdir()
    encoder = msgspec.json.Encoder()
    then = [one for one in (*grants, *(each.grant for each in revoked)) if one.granted_at <= world.first]
    first = _lines(world, then, (), people, world.first)
    (below / f"{UTC.text(world.first)[:10]}.ndjson").write_bytes(encoder.encode_lines(first))
    last = _lines(world, grants, revoked, people, world.end + _AFTER)
    (below / f"{UTC.text(world.end)[:10]}.ndjson").write_bytes(encoder.encode_lines(last))


def write_prices(directory: Path) -> None:
    """Write the price list."""
    (directory / "prices.yaml").write_text(PRICES)


def _lines(
    world: World, grants: Iterable[Grant], revoked: Iterable[Revoked], people: Iterable[Principal], at: int
) -> Iterator[dict[str, Any]]:
    yield {"kind": "policy", "schema": SCHEMA, "policy_rev": f"{at:08x}", "exported_at": UTC.text(at)}
    for person in people:
        yield {"kind": "principal", "principal": person.name, "roles": [person.role]}
    for table in world.tables:
        yield {
            "kind": "table",
            "catalog": CATALOG,
            "namespace": table.namespace,
            "table": table.name,
            "uuid": table.uuid,
            "locations": [f"s3://{table.bucket.name}/{table.location}"],
        }
    for grant in grants:
        yield {"kind": "grant", **_grant(grant), "granted_at": UTC.text(grant.granted_at)}
    for each in revoked:
        yield {"kind": "revoked", **_grant(each.grant), "at": UTC.text(each.at)}


def _grant(grant: Grant) -> dict[str, Any]:
    identity = (grant.principal, grant.role, grant.via_role, grant.privilege, grant.securable)
    _, _, name = grant.securable.partition(":")
    _, *levels = name.split(".")
    return {
        "grant_id": hashlib.sha256("\x1e".join(identity).encode()).hexdigest()[:24],
        "principal": grant.principal,
        "principal_role": grant.role,
        "via_role": grant.via_role,
        "privilege": grant.privilege,
        "resource": grant.securable,
        "catalog": CATALOG,
        **dict(zip(("namespace", "table"), levels, strict=False)),
    }
