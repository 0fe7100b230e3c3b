"""A policy with every kind of table, the product's rooms over it, and once more what each caller may do there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from signproxy.credentials.credentials import Credentials
from signproxy.errors import Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor
from signproxy.model import NamedTable, Principal, Subject
from signproxy.policy.state import PolicyState
from signproxy.server.api.routes import Route, find_route
from signproxy.signing.sign import RequestSigner
from signproxy.signing.sign_way import read_message
from tests.coroutines import driven
from tests.gate.cases import judged, verdict_of
from tests.policies import MemoryPolicySource
from tests.properties.store import Touch, Use, touched
from tests.rooms import ACCESS_KEY, SECRET, gate_over
from tests.verifier import as_java, as_pyiceberg, verify

NOW = 1_800_000_000.0
EVENT = "01KABCDEFGHJKMNPQRSTVWXYZ0"

_HEAD = """
remote_signing: true
default_catalog: lake
storages:
  aws:
    kind: aws
    region: us-west-2
    buckets: [my-bucket, b.with.dot]
    opt_ins: {tagging: true, recover: true, multipart_cleanup: true}
  minio:
    kind: s3-compatible
    region: us-east-1
    buckets: [small]
    stamp: "off"
    checks_unsigned_headers: false
    endpoints:
      - {url: "http://minio.local:9000", styles: [path]}
      - {url: "https://s3.minio.corp", styles: [path, virtual-host]}
catalogs:
  lake: {storages: [aws, minio], remote_signing: true}
  located: {storages: [aws], remote_signing: true, binding: by-location}
  nested: {storages: [aws], remote_signing: true, binding: by-location, overlap: allowed}
catalog_roles:
  lake: [reader, writer, keeper]
  located: [reader, one]
  nested: [outer, inner]
principal_roles:
  readers: {lake: [reader], located: [reader]}
  writers: {lake: [writer]}
  keepers: {lake: [writer, keeper]}
  partial: {located: [one], nested: [outer]}
  both: {nested: [outer, inner]}
principals:
  reader: {roles: [readers]}
  writer: {roles: [writers]}
  keeper: {roles: [keepers]}
  partial: {roles: [partial]}
  both: {roles: [both]}
  nobody: {roles: []}
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the tests know it."""

    catalog: str
    name: str
    places: tuple[str, ...]
    """`store bucket prefix/` of each location."""
    metadata: str = "protected"
    overwrite: str = "allowed"

    def holds(self, touch: Touch) -> bool:
        """Whether every reading of what is touched lies below one location of the table."""
        for place in self.places:
            store, bucket, prefix = place.split(" ", 2)
            if (
                (touch.store, touch.bucket) == (store, bucket)
                and all(reading.startswith(prefix) for reading in touch.readings)
                # Strictly below: the folder's own marker is no object of the table.
                and (touch.use is Use.LIST or prefix not in touch.readings)
            ):
                return True
        return False

    def meets(self, touch: Touch) -> bool:
        """Whether what is touched lies in the table as a plain store reads it, or shows what lies in it."""
        for place in self.places:
            store, bucket, prefix = place.split(" ", 2)
            if (touch.store, touch.bucket) != (store, bucket):
                continue
            for reading in touch.plain:
                reaches = touch.use is Use.LIST and prefix.startswith(reading)
                if reaches or (reading.startswith(prefix) and (len(reading) > len(prefix) or touch.use is Use.LIST)):
                    return True
        return False

    @property
    def yaml(self) -> str:
        locations = [f"s3://{bucket}/{prefix[:-1]}" for _, bucket, prefix in (p.split(" ", 2) for p in self.places)]
        entry = {
            "name": self.name,
            "namespace": "ns",
            "catalog": self.catalog,
            "location": locations[0],
            "locations": locations[1:],
            "metadata": self.metadata,
            "overwrite": self.overwrite,
        }
        return f"  - {msgspec.json.encode(entry).decode()}\n"


TABLES: tuple[Table, ...] = (
    Table("lake", "t1", ("aws my-bucket wh/t1/",)),
    Table("lake", "t10", ("aws my-bucket wh/t10/",)),
    Table("lake", "T1", ("aws my-bucket wh/T1/",)),
    Table("lake", "odd", ("aws my-bucket wh/a b+\u00e9%2Fc=d/",)),
    Table("lake", "two", ("aws my-bucket wh/two/", "aws b.with.dot data/two/", "minio small data/two/")),
    Table("lake", "once", ("aws my-bucket wh/once/",), overwrite="forbid"),
    Table("lake", "sealed", ("aws my-bucket wh/sealed/",), metadata="sealed"),
    Table("lake", "open", ("aws my-bucket wh/open/",), metadata="open"),
    Table("lake", "small", ("minio small wh/small/",)),
    Table("located", "l1", ("aws my-bucket by/l1/",)),
    Table("located", "l2", ("aws my-bucket by/l2/",)),
    Table("nested", "n1", ("aws my-bucket nest/n1/",)),
    Table("nested", "n2", ("aws my-bucket nest/n1/sub/n2/",)),
    Table("nested", "n3", ("aws my-bucket nest/n1/",), overwrite="forbid"),
)
BY_NAME = {(table.catalog, table.name): table for table in TABLES}
CATALOGS = ("lake", "located", "nested")

# Role, catalog, table (empty: the whole catalog), privileges.
GRANTS: tuple[tuple[str, str, str, str], ...] = (
    ("reader", "lake", "", "TABLE_REMOTE_SIGN, TABLE_READ_DATA"),
    ("writer", "lake", "", "TABLE_REMOTE_SIGN, TABLE_WRITE_DATA"),
    ("keeper", "lake", "", "TABLE_FULL_METADATA"),
    ("reader", "located", "", "TABLE_REMOTE_SIGN, TABLE_READ_DATA"),
    ("one", "located", "l1", "TABLE_REMOTE_SIGN, TABLE_WRITE_DATA"),
    ("one", "located", "l2", "TABLE_WRITE_DATA"),
    ("outer", "nested", "n1", "TABLE_REMOTE_SIGN, TABLE_WRITE_DATA"),
    ("outer", "nested", "n3", "TABLE_REMOTE_SIGN, TABLE_WRITE_DATA"),
    ("inner", "nested", "n2", "TABLE_REMOTE_SIGN, TABLE_READ_DATA"),
)
# What each caller may do, said once more by hand: r(ead), w(rite), m(etadata).
_LAKE = tuple(table.name for table in TABLES if table.catalog == "lake")
MAY: dict[str, dict[tuple[str, str], str]] = {
    "reader": {
        **{("lake", name): "r" for name in _LAKE},
        ("located", "l1"): "r",
        ("located", "l2"): "r",
    },
    "writer": {("lake", name): "rw" for name in _LAKE},
    "keeper": {("lake", name): "rwm" for name in _LAKE},
    "partial": {("located", "l1"): "rw", ("nested", "n1"): "rw", ("nested", "n3"): "rw"},
    "both": {("nested", "n1"): "rw", ("nested", "n3"): "rw", ("nested", "n2"): "r"},
    "nobody": {},
    "stranger": {},
}
CALLERS = tuple(MAY)


def policy(grants: tuple[tuple[str, str, str, str], ...] = GRANTS) -> str:
    """Return the policy with these grants."""
    lines = [
        f"  - {{role: {role}, catalog: {catalog}, privileges: [{privileges}]"
        + (f", namespace: ns, table: {table}}}\n" if table else "}\n")
        for role, catalog, table, privileges in grants
    ]
    tables = "".join(table.yaml for table in TABLES)
    return f"{_HEAD}tables:\n{tables}" + (f"grants:\n{''.join(lines)}" if lines else "")


@cache
def state_of(grants: frozenset[int]) -> PolicyState:
    """Return the policy with some of the grants."""
    chosen = tuple(grant for number, grant in enumerate(GRANTS) if number in grants)
    return MemoryPolicySource(policy(chosen), single_issuer=True).load(1)


ALL_GRANTS = frozenset(range(len(GRANTS)))


def subject_of(who: str) -> Subject:
    """Return a caller by its name in the policy."""
    return Subject.of(Principal(f"static/{who}", "static", who, 4e9))


@cache
def gate_of(grants: frozenset[int] = ALL_GRANTS) -> Gate:
    """Return the gate over the policy with some of the grants; the operator accepted the unsafe storage."""
    return gate_over(state_of(grants), frozenset({"minio"}))


@dataclass(frozen=True, slots=True)
class Signed:
    """A request that was signed."""

    who: str
    route: Route
    message: dict[str, Any]
    answer: dict[str, Any]
    judgement: Judgement


_GATE = gate_of()
_SIGNER = RequestSigner()
_CREDENTIALS = Credentials(ACCESS_KEY, SECRET)


def attempt(who: str, path: str, raw: bytes, gate: Gate = _GATE) -> Signed | Refused:
    """Ask as a caller of a route does, with the bytes of a sign request; anything but these two fails the test."""
    subject = subject_of(who)
    try:
        route = find_route(path)
        message = read_message(raw)
    except Refused as refused:
        return refused
    judgement = driven(judged(gate, subject, AskedFor(route.address, route.target, message)))
    allow = verdict_of(judgement)
    if isinstance(allow, Refused):
        return allow
    assert judgement.request is not None
    signed = _SIGNER.sign(allow, judgement.request, _CREDENTIALS, event_id=EVENT, now=NOW)
    return Signed(who, route, msgspec.to_builtins(message), msgspec.to_builtins(signed), judgement)


def check_signed(signed: Signed) -> None:
    """Fail if a signature reaches what its caller may not reach, does not verify, or changed the request."""
    check_uri(signed)
    check_contained(signed)
    check_verifies(signed)


_STAMP = re.compile(f"[?&]x-signproxy-id={EVENT}")


def check_uri(signed: Signed) -> None:
    """Fail unless the answered uri is the client's own, byte for byte, with the stamp at its end where it is on."""
    given, answered = signed.message["uri"], signed.answer["uri"]
    request = signed.judgement.request
    assert request is not None
    assert answered.startswith(given)
    added = answered[len(given) :]
    if request.storage.name == "minio":
        assert added == ""
    else:
        assert _STAMP.fullmatch(added)
        assert added[0] == ("&" if "?" in given else "?")


def check_verifies(signed: Signed) -> None:
    """Fail unless a strict store accepts the request as either client would send it."""
    region = signed.message["region"]
    # Only a bulk delete has its body in the message; an empty one is none.
    message = {name: value for name, value in signed.message.items() if name != "body" or value}
    for merge in (as_java, as_pyiceberg):
        verify(merge(message, signed.answer), {ACCESS_KEY: SECRET}, now=NOW, region=region)


def check_contained(signed: Signed) -> None:
    """Fail if some store would touch something that the caller may not touch, or not through this route."""
    message = signed.message
    touches, _ = touched(message["method"], signed.answer["uri"], message["headers"], message.get("body"))
    assert touches
    catalog = signed.judgement.catalog
    assert catalog in CATALOGS
    for number, touch in enumerate(touches):
        owners = [table for table in TABLES if table.catalog == catalog and table.meets(touch)]
        assert owners, touch
        if isinstance(signed.route.target, NamedTable) and catalog == "lake":
            # Strict: the very table that the path names, for the source of a copy too.
            assert [table.name for table in owners] == [signed.route.target.name]
        for table in owners:
            assert table.holds(touch), (table, touch)
            _check_right(signed, table, touch)
        if number == 0:
            _check_once(signed, owners, touch, len(touches))


def _check_right(signed: Signed, table: Table, touch: Touch) -> None:
    rights = MAY[signed.who].get((table.catalog, table.name), "")
    assert ("w" if touch.use in (Use.WRITE, Use.DELETE) else "r") in rights, (table, touch)
    if table.metadata == "open":
        return
    # A prefix stands in the query, where no reader drops or resolves anything.
    for reading in touch.plain if touch.use is Use.LIST else touch.readings:
        closed = reading.endswith((".metadata.json", ".metadata.json.gz", "/version-hint.text"))
        below = False
        for place in table.places:
            path = f"{place.split(' ', 2)[2]}metadata/"
            # A store may delete what lies below a key, and a list shows it.
            ancestor = (touch.use is Use.DELETE and path.startswith(f"{reading}/")) or (
                touch.use is Use.LIST and path.startswith(reading)
            )
            below = below or reading.startswith(path) or ancestor
            closed = closed or (ancestor and touch.use is Use.DELETE)
        assert not (table.metadata == "sealed" and below), (table, touch)
        if closed and touch.use is not Use.LIST:
            assert "m" in rights, (table, touch)


def _check_once(signed: Signed, owners: list[Table], touch: Touch, touches: int) -> None:
    """Fail if an object that may be written once could be written twice."""
    if touch.use is not Use.WRITE or not any(table.overwrite == "forbid" for table in owners):
        return
    query = signed.message["uri"].partition("?")[2]
    method = signed.message["method"]
    completes = method == "POST" and "uploadId" in query
    if completes or (method == "PUT" and "uploadId" not in query and "tagging" not in query):
        assert touches == 1
        assert signed.answer["headers"].get("If-None-Match") == ["*"]
        assert "if-none-match" in signed.answer["headers"]["Authorization"][0]
