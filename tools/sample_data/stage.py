"""Play scenes beside the ordinary traffic: requests of people made for them, with the truth about each."""

from __future__ import annotations

from typing import Any

from signproxy.audit.event import AuditEvent, Kind, Verdict
from tools.sample_data.clock import UTC
from tools.sample_data.ids import EventIds, RequestIds, drawn
from tools.sample_data.rows import Row, encoded, session_arn, session_name, stamp
from tools.sample_data.truth import Fault, Request
from tools.sample_data.world import (
    ACCOUNT,
    CATALOG,
    ISSUER,
    READ,
    SIGN,
    VENDING_ROLE,
    WRITE,
    Bucket,
    Grant,
    Principal,
    Table,
    World,
    grantee_of,
)

AGENT = "Apache Iceberg 1.11.0 (commit 2f1c4a) Spark/4.1.0"
DAY = 86_400
_SIZE = 1_048_576
_METHODS = {
    "GetObject": "GET",
    "HeadObject": "HEAD",
    "ListObjectsV2": "GET",
    "PutObject": "PUT",
    "CopyObject": "PUT",
    "DeleteObject": "DELETE",
    "DeleteObjects": "POST",
}
_ACCESS = {"GET": "read", "HEAD": "read", "PUT": "write", "DELETE": "delete", "POST": "delete"}


class Revoked:
    """A grant that was withdrawn."""

    def __init__(self, grant: Grant, at: int) -> None:
        self.grant = grant
        self.at = at


class Stage:
    """What the scenes leave: events with their rows, rows alone, people, grants, and the truth."""

    def __init__(self, world: World, seed: str, number: int) -> None:
        self.world = world
        self.random = drawn(seed, "stage")
        self.events: list[tuple[float, int, AuditEvent]] = []
        self.rows: list[Row] = []
        self.people: list[Principal] = []
        self.grants: list[Grant] = []
        self.revoked: list[Revoked] = []
        self.given_back: list[int] = []
        """When a right was given back."""
        self.faults: list[Fault] = []
        self.revocations: list[dict[str, Any]] = []
        self._ids = EventIds(self.random)
        self._requests = RequestIds(number + 1, self.random)
        self._tables = {
            bucket: [one for one in world.tables if one.bucket is bucket] for bucket in {t.bucket for t in world.tables}
        }
        self._taken: set[int] = set()
        self._held: dict[str, set[str]] = {}
        self._ips = 0

    # who and what

    def person(self, role: str, way: str = "sign", *, loopback: bool = False) -> Principal:
        """Return a new principal: no other scene's events are of it."""
        name = f"{role}-{len(self.people):03d}"
        self._ips += 1
        ip = f"10.77.{self._ips // 250}.{self._ips % 250 + 2}"
        person = Principal(
            name=f"{ISSUER}/{name}",
            kind="service",
            way=way,
            ip=ip,
            event_ip="127.0.0.1" if loopback else ip,
            role=f"{name}-role",
            agent=0,
            caches=False,
            writes=False,
            tables=(),
            namespaces=(),
        )
        self.people.append(person)
        return person

    def table(self, bucket: Bucket | None = None) -> Table:
        """Return a table that no other scene has."""
        tables = self.world.tables if bucket is None else self._tables.get(bucket) or self.world.tables
        while True:
            table = tables[self.random.randrange(len(tables))]
            if table.number not in self._taken or len(self._taken) >= len(tables) // 2:
                self._taken.add(table.number)
                return table

    def grant(self, person: Principal, *securables: str, age: float = 200, writes: bool = False) -> list[Grant]:
        """Give a principal the rights to read, some days before the end of the month."""
        privileges = [READ, SIGN]
        if writes:
            privileges.append(WRITE)
        at = int(self.world.end - age * DAY)
        grants = [Grant(person.name, person.role, name, on, at) for on in securables for name in privileges]
        self.grants += grants
        self._held.setdefault(person.name, set()).update(securables)
        return grants

    def moment(self, first: float = 0.2, last: float = 0.9) -> float:
        """Return a time within a part of the month, to the millisecond."""
        return round(self.world.first + self.world.days * DAY * self.random.uniform(first, last), 3)

    # what happens

    def event(
        self, person: Principal, table: Table, at: float, s3_op: str = "GetObject", key: str = "", **changes: Any
    ) -> AuditEvent:
        """Let signproxy record a request that it serves; without a key, one of the table's."""
        method = _METHODS[s3_op]
        event = AuditEvent(
            event_id=self._ids.at(at),
            kind=Kind.FORWARD if person.way == "forward" else Kind.SIGN,
            request_id=f"scene{len(self.events):08x}",
            principal=person.name,
            issuer=ISSUER,
            roles=(person.role,),
            remote_ip=person.event_ip,
            user_agent=AGENT,
            application=person.kind,
            catalog=CATALOG,
            namespace=table.namespace,
            table=table.name,
            table_uuid=table.uuid,
            bucket=table.bucket.name,
            key=key or self.key(table),
            method=method,
            s3_op=s3_op,
            access="list" if s3_op == "ListObjectsV2" else _ACCESS[method],
            decision=Verdict.ALLOW,
            reason="allowed",
            policy_rev="",
            http_status=200,
            total_us=60,
            authz_us=20,
        )
        if event.kind is Kind.SIGN:
            event.stamped = True
            event.access_key_id = table.bucket.access_key[-4:]
            event.expires_at = UTC.text(at + 900)
        for name, value in changes.items():
            setattr(event, name, value)
        if event.decision is not Verdict.ALLOW:
            event.stamped, event.expires_at, event.access_key_id = False, "", ""
        self.events.append((at, len(self.events), event))
        return event

    def denied(self, person: Principal, table: Table, at: float, reason: str = "no_read_data") -> AuditEvent:
        """Let signproxy refuse a request."""
        return self.event(person, table, at, decision=Verdict.DENY, reason=reason, http_status=403)

    def row(self, person: Principal, table: Table, at: float, event: AuditEvent | None = None, **changes: Any) -> Row:
        """Let the store serve what was signed, or whatever the changes make of it."""
        bucket = table.bucket
        key = event.key if event is not None else self.key(table)
        row = Row(
            at=at,
            bucket=bucket,
            remote_ip=person.ip,
            requester=bucket.requester,
            access_key=bucket.access_key,
            request_id=self._requests.new(),
            s3_op=event.s3_op if event is not None else "GetObject",
            method=event.method if event is not None else "GET",
            key=key,
            path=encoded(key),
            query=stamp(event.event_id) if event is not None else "",
            status=200,
            error="",
            sent=_SIZE,
            size=_SIZE,
            millis=21,
            user_agent=AGENT,
            class_=("stamp" if bucket.stamped else "probable") if event is not None else "unattributed",
            event_id=event.event_id if event is not None else "",
            principal=event.principal if event is not None else "",
        )._replace(**changes)
        if "key" in changes and "path" not in changes:
            row = row._replace(path=encoded(row.key))
        self.rows.append(row)
        return row

    def forwarded(self, person: Principal, table: Table, at: float, **changes: Any) -> tuple[AuditEvent, Row]:
        """Let signproxy forward a request, and the store serve it."""
        event = self.event(person, table, at, **{"stamped": True} | changes)
        row = self._sent_on(person, table, at - 0.003, event, otherwise="request_id")
        event.upstream_request_id, event.upstream_status, event.bytes_out = row.request_id, 200, row.sent
        return event, row

    def lost(self, person: Principal, table: Table, at: float, *, stamped: bool) -> tuple[AuditEvent, Row]:
        """Let signproxy forward a request, the store serve it, and the answer come too late."""
        event = self.event(
            person, table, at, decision=Verdict.ERROR, reason="store_timeout", http_status=504, total_us=30_000_000
        )
        event.stamped, event.upstream_us = stamped, 30_000_000
        return event, self._sent_on(person, table, at - 29, event, otherwise="probable")

    def _sent_on(self, person: Principal, table: Table, at: float, event: AuditEvent, otherwise: str) -> Row:
        """Let the store have what signproxy forwards; `otherwise` is its class where no stamp is to be seen."""
        class_ = "stamp" if event.stamped and table.bucket.stamped else otherwise
        query = stamp(event.event_id) if event.stamped else ""
        return self.row(person, table, at, event, query=query, remote_ip="10.0.0.17", class_=class_)

    def vended(
        self, person: Principal, table: Table, at: float, uses: list[float], **changes: Any
    ) -> tuple[AuditEvent, list[Row]]:
        """Let signproxy hand out keys, and their holder use them at these times."""
        event = self.event(person, table, at, **changes)
        event.kind, event.method, event.s3_op, event.key, event.bucket = Kind.VEND, "GET", "", "", ""
        event.call, event.prefixes, event.expires_at = "load_credentials", (f"{table.location}/",), UTC.text(at + 3600)
        event.stamped, event.access_key_id = False, "V3ND"
        requester = session_arn(VENDING_ROLE, session_name(person.name, event.event_id), ACCOUNT)
        rows = [
            self.row(
                person,
                table,
                use,
                requester=requester,
                access_key=f"ASIAV{event.event_id[-11:]}V3ND",
                class_="session",
                event_id=event.event_id,
                principal=person.name,
            )
            for use in uses
        ]
        return event, rows

    def key(self, table: Table) -> str:
        """Return a key of a table that no other request is for."""
        return f"{table.location}/data/event_day=2026-09-30/{self.random.getrandbits(64):016x}-00001.parquet"

    def request_id(self) -> str:
        """Return the id of a request that the store has of its own."""
        return self._requests.new()

    def unknown_id(self, at: float) -> str:
        """Return the id of an event that never was."""
        return self._ids.at(at)

    def settle(self) -> None:
        """Name the grants that each decision stood on, as the server does, once all are given."""
        for _, _, event in self.events:
            if event.decision is Verdict.ALLOW:
                namespace = f"{CATALOG}.{event.namespace}"
                around = (f"catalog:{CATALOG}", f"namespace:{namespace}", f"table:{namespace}.{event.table}")
                held = self._held[event.principal]
                event.rule_id = "+".join(f"{grantee_of(event.principal)}@{on}" for on in around if on in held)

    # the truth

    def fault(  # noqa: PLR0913 - each is a column of the truth
        self,
        class_: str,
        what: str,
        *,
        person: Principal | None = None,
        table: Table | None = None,
        events: list[AuditEvent] | None = None,
        rows: list[Row] | None = None,
        planted: bool = True,
        also: tuple[str, ...] = (),
        times: tuple[float, float] | None = None,
        **expect: Any,
    ) -> None:
        """Note a planted fault, or with `planted=False` its near miss."""
        requests: tuple[Request, ...] = tuple((row.bucket.source, row.request_id) for row in rows or ())
        moments = [row.at for row in rows or ()] or list(times or ())
        number = sum(fault.class_ == class_ for fault in self.faults)
        self.faults.append(
            Fault(
                fault_id=f"{class_}-{number}",
                class_=class_,
                planted=planted,
                what=what,
                principal=person.name if person is not None else "",
                catalog=CATALOG if table is not None else "",
                namespace=table.namespace if table is not None else "",
                table=table.name if table is not None else "",
                bucket=table.bucket.name if table is not None else "",
                event_ids=tuple(event.event_id for event in events or ()),
                requests=requests,
                first_ts=UTC.text(min(moments)) if moments else "",
                last_ts=UTC.text(max(moments)) if moments else "",
                n=max(1, len(requests)),
                also=also,
                expect=expect,
            )
        )

    def near(self, class_: str, what: str, **told: Any) -> None:
        """Note a near miss, which must not be found as this class."""
        self.fault(class_, what, planted=False, **told)


def on_namespace(table: Table) -> str:
    """Return the securable of a table's namespace."""
    return f"namespace:{CATALOG}.{table.namespace}"


def on_table(table: Table) -> str:
    """Return the securable of a table."""
    return f"table:{table.text}"
