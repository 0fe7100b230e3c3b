"""Generate the ordinary traffic of one instance: queries over several tables, each with its requests, in every way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import gmtime, strftime

from signproxy.audit.event import AuditEvent, Kind, Verdict
from tools.sample_data.asked import ACCESS, AGENTS, DENIALS, METHODS, READS, WRITES
from tools.sample_data.clock import UTC
from tools.sample_data.ids import EventIds, RequestIds, drawn
from tools.sample_data.rhythm import KINDS, SLOT, weights
from tools.sample_data.rows import Row, encoded, session_arn, session_name, stamp
from tools.sample_data.world import (
    ACCOUNT,
    CATALOG,
    ISSUER,
    SERVER_ROLE,
    VENDING_ROLE,
    Bucket,
    Principal,
    Table,
    World,
    grantee_of,
)

Item = tuple[float, int, AuditEvent, tuple[Row, ...]]
"""Time, number, event, and what the stores log because of it."""

VEND_SECONDS = 3600
SIGN_SECONDS = 900

_ALLOW, _DENY, _ERROR = Verdict.ALLOW, Verdict.DENY, Verdict.ERROR


class Traffic:
    """The events of one instance, in the order of their times."""

    def __init__(self, world: World, seed: str, number: int, people: Sequence[Principal], events: int) -> None:
        self._world = world
        self._random = drawn(seed, "traffic", number)
        self._ids = EventIds(self._random)
        self._requests = RequestIds(number + 1, self._random)
        self._by_kind = [[person for person in people if person.kind == kind] for kind in KINDS]
        self._events = events
        self._number = 0
        self._made = 0
        self._items: list[Item] = []
        self._sizes = [int(2 ** self._random.uniform(14, 28)) for _ in range(1024)]
        self._day = ""
        self._given: set[tuple[str, int, str]] = set()
        """Who was given keys for which table before: such keys may be refreshed."""
        self._owners = [person for person in people if person.way == "sign" and person.kind == "service"][:3]

    def items(self) -> Iterator[Item]:
        """Yield exactly as many events as were asked for."""
        world = self._world
        slots = range(world.first, world.end, SLOT)
        busy = [
            [weight * len(people) for weight, people in zip(weights(slot), self._by_kind, strict=True)]
            for slot in slots
        ]
        total = sum(map(sum, busy)) or 1.0
        due = 0.0
        for slot, each in zip(slots, busy, strict=True):
            due += self._events * sum(each) / total
            self._slot(slot, each, min(self._events, round(due)))
            yield from self._ready(slot + SLOT)
        self._slot(world.end - SLOT, busy[-1], self._events)
        yield from self._ready(float("inf"))

    def _ready(self, until: float) -> Iterator[Item]:
        """Yield what happens before a time; queries go on over the end of their slot."""
        items = self._items
        items.sort()
        at = len(items)
        while at and items[at - 1][0] >= until:
            at -= 1
        yield from items[:at]
        del items[:at]

    def _slot(self, slot: int, busy: list[float], target: int) -> None:
        random = self._random.random
        self._day = strftime("%Y-%m-%d", gmtime(slot))
        service = busy[0]
        analyst = service + busy[1]
        total = analyst + busy[2] or 1.0
        while self._made < target:
            drawn = random() * total
            people = self._by_kind[0 if drawn < service else 1 if drawn < analyst else 2] or next(
                filter(None, self._by_kind)
            )
            person = people[int(random() * len(people))]
            at = min(slot + random() * SLOT, self._world.end - 1.0)
            if person.way == "vend":
                self._vended(person, at)
            else:
                self._query(person, at)

    def _query(self, person: Principal, at: float) -> None:
        """One query: one to four tables, each loaded from the catalog and read or written."""
        random = self._random.random
        tables = person.tables
        effective = ""
        chain: tuple[str, ...] = ()
        if person.kind == "analyst" and self._owners and random() < 0.08:
            owner = self._owners[int(random() * len(self._owners))]
            if owner.name != person.name:
                effective, chain, tables = owner.name, (f"{CATALOG}.reporting.v_{owner.namespaces[0]}",), owner.tables
        self._number += 1
        query = f"q-{self._number:x}-{int(random() * 0xFFFFFF):06x}"
        end = self._world.end - 0.5
        for _ in range(1 + int(random() ** 2 * 4)):
            if self._made >= self._events:
                return
            table = self._world.tables[tables[int(random() * len(tables))]]
            if person.way == "sign" and random() < 0.4:
                self._loaded(person, table, at, query)
                at = min(end, at + 0.02 + random() * 0.2)
            writes = person.writes and not effective and random() < 0.35
            for _ in range(1 + int(random() ** 2 * 24)):
                if self._made >= self._events:
                    return
                draw = random()
                if draw < 0.01:
                    self._denied(person, table, at, query)
                elif writes:
                    self._request(person, table, at, WRITES[int(random() * len(WRITES))], query, "", ())
                else:
                    self._request(person, table, at, READS[int(random() * len(READS))], query, effective, chain)
                at = min(end, at + random() * 0.8)

    def _request(
        self, person: Principal, table: Table, at: float, s3_op: str, query: str, effective: str, chain: tuple[str, ...]
    ) -> None:
        """A request that is signed or forwarded."""
        random = self._random.random
        bucket = table.bucket
        event_id = self._ids.at(at)
        access = ACCESS.get(s3_op, "write")
        key, path, parameters = self._object(table, s3_op)
        forwards = person.way == "forward"
        authz = 8 + int(random() * 20)
        event = AuditEvent(
            event_id=event_id,
            kind=Kind.FORWARD if forwards else Kind.SIGN,
            request_id=f"{self._number:08x}{self._made:08x}",
            principal=person.name,
            effective_principal=effective,
            view_chain=chain,
            issuer=ISSUER,
            roles=(person.role,),
            remote_ip=person.event_ip,
            user_agent=AGENTS[person.agent % len(AGENTS)],
            application=person.kind,
            query_id=query,
            catalog=CATALOG,
            namespace=table.namespace,
            table=table.name,
            table_uuid=table.uuid,
            bucket=bucket.name,
            key=key,
            method=METHODS[s3_op],
            s3_op=s3_op,
            access=access,
            decision=_ALLOW,
            reason="allowed",
            rule_id=f"{grantee_of(effective or person.name)}@namespace:{CATALOG}.{table.namespace}",
            policy_rev="",
            http_status=200,
            access_key_id=bucket.access_key[-4:],
            total_us=authz + 30,
            authz_us=authz,
        )
        if not key:
            event.prefixes = (f"{table.location}/",)
        self._made += 1
        if forwards:
            rows: tuple[Row, ...] = (self._forwarded(bucket, at, event, path, parameters),)
        else:
            event.stamped = True
            event.sign_us = 22
            event.expires_at = UTC.text(at + SIGN_SECONDS)
            event.cacheable = cacheable = person.caches and event.method in ("GET", "HEAD")
            rows = self._signed(person, bucket, at, event, path, parameters, cacheable=cacheable)
        self._items.append((at, self._made, event, rows))

    def _signed(
        self,
        person: Principal,
        bucket: Bucket,
        at: float,
        event: AuditEvent,
        path: str,
        parameters: str,
        *,
        cacheable: bool,
    ) -> tuple[Row, ...]:
        """The client sends what was signed: once as a rule, never, again out of its cache, or again after a 503."""
        draw = self._random.random()
        if draw < 0.01:
            return ()
        query = _with_stamp(parameters, event)
        row = self._row(at + 0.01 + draw * 0.5, event, bucket, person.ip, path, query)
        if draw < 0.016:
            later = row.at + 0.2 + draw * 20
            failed = row._replace(status=503, error="SlowDown", sent=0, request_id=self._requests.new())
            return failed, row._replace(at=later)
        if cacheable and draw > 0.85:
            return row, row._replace(at=row.at + 1 + (draw - 0.85) * 150, request_id=self._requests.new())
        return (row,)

    def _forwarded(self, bucket: Bucket, at: float, event: AuditEvent, path: str, parameters: str) -> Row:
        event.stamped = True
        row = self._row(at - 0.004, event, bucket, "10.0.0.17", path, _with_stamp(parameters, event))
        event.upstream_request_id = row.request_id
        event.upstream_status = event.http_status = row.status
        event.bytes_out = row.sent
        event.bytes_in = row.size if event.method == "PUT" else 0
        event.connect_us, event.first_byte_us, event.upstream_us = 3, row.millis * 500, row.millis * 1000
        event.total_us += event.upstream_us
        return row if bucket.stamped else row._replace(class_="request_id")

    def _row(self, at: float, event: AuditEvent, bucket: Bucket, ip: str, path: str, query: str) -> Row:
        """A request that signproxy's own key is good for."""
        random = self._random.random
        size = self._sizes[int(random() * 1024)]
        method = event.method
        status, sent = 200, 0
        if event.s3_op == "GetObject":
            sent = size
            if random() < 0.6:
                status, sent = 206, min(size, 65_536)
        elif event.s3_op == "ListObjectsV2":
            sent, size = 4096, 0
        elif method == "POST":
            sent, size = 320, 0
        return Row(
            at,
            bucket,
            ip,
            bucket.requester,
            bucket.access_key,
            self._requests.new(),
            event.s3_op,
            method,
            event.key,
            path,
            query,
            status,
            "",
            sent,
            size,
            8 + int(random() * 90),
            event.user_agent,
            "stamp" if bucket.stamped else "probable",
            event.event_id,
            event.principal,
        )

    def _object(self, table: Table, s3_op: str) -> tuple[str, str, str]:
        """Return a key, the same encoded, and what else the query has."""
        draw = int(self._random.random() * 100_000)
        if s3_op == "ListObjectsV2":
            return "", "", f"list-type=2&prefix={encoded(table.location).replace('/', '%2F')}%2F"
        mixed = (draw % 400 + 1) * 2_654_435_761 + table.number * 40_503 & 0xFFFFFFFF
        if draw < 70_000 or s3_op[0] not in "GH":
            name = f"{draw % 400:05d}-{mixed % 997}-{mixed:08x}-00001.parquet"
            key = f"{table.location}/data/event_day={self._day}/{name}"
            path = f"{table.location}/data/event_day%3D{self._day}/{name}"
        else:
            key = path = f"{table.location}/metadata/{mixed:08x}-m{draw % 4}.avro"
        if s3_op == "UploadPart":
            return key, path, f"partNumber={draw % 9 + 1}&uploadId={mixed:08x}"
        if s3_op == "CreateMultipartUpload":
            return key, path, "uploads="
        return key, path, f"uploadId={mixed:08x}" if s3_op == "CompleteMultipartUpload" else ""

    def _vended(self, person: Principal, at: float) -> None:
        """Keys for one table, and what their holder does with them; refreshed once in a while."""
        random = self._random.random
        table = self._world.tables[person.tables[int(random() * len(person.tables))]]
        access = "write" if person.writes and random() < 0.4 else "read"
        given = (person.name, table.number, access)
        kind = Kind.REFRESH if given in self._given and random() < 0.25 else Kind.VEND
        self._given.add(given)
        event = self._plain(person, table, at, kind)
        event.access = access
        event.prefixes = (f"{table.location}/",)
        event.method, event.call = "GET", "load_credentials"
        event.access_key_id = f"{int(random() * 0xFFFF):04X}"
        event.expires_at = UTC.text(at + VEND_SECONDS)
        event.rule_id = f"{person.grantee}@namespace:{CATALOG}.{table.namespace}"
        session = session_name(person.name, event.event_id)
        requester = session_arn(VENDING_ROLE, session, ACCOUNT)
        rows = []
        key_id = f"ASIAV{event.event_id[-11:]}{event.access_key_id}"
        for _ in range(1 + int(random() * 12)):
            s3_op = "PutObject" if event.access == "write" and random() < 0.4 else READS[int(random() * len(READS))]
            key, path, parameters = self._object(table, s3_op)
            used = AuditEvent(
                event_id=event.event_id,
                kind=kind,
                principal=person.name,
                bucket=table.bucket.name,
                key=key,
                method=METHODS[s3_op],
                s3_op=s3_op,
                user_agent=event.user_agent,
                decision=_ALLOW,
                reason="",
                policy_rev="",
                http_status=200,
            )
            row = self._row(at + 0.1 + random() * 900, used, table.bucket, person.ip, path, parameters)
            rows.append(row._replace(requester=requester, access_key=key_id, class_="session"))
        rows.sort(key=lambda one: one.at)
        self._add(at, event, tuple(rows))

    def _loaded(self, person: Principal, table: Table, at: float, query: str) -> None:
        """A call of the catalog, which the catalog's own service reads a file for now and then."""
        event = self._plain(person, table, at, Kind.CATALOG)
        event.method, event.call, event.query_id = "GET", "load_table", query
        rows: tuple[Row, ...] = ()
        if self._random.random() < 0.05 and table.bucket.is_aws:
            key = f"{table.location}/metadata/00042-{table.uuid}.metadata.json"
            read = AuditEvent(
                event_id="",
                kind=Kind.CATALOG,
                key=key,
                method="GET",
                s3_op="GetObject",
                user_agent="catalog-service/3.2",
                decision=_ALLOW,
                reason="",
                policy_rev="",
                http_status=200,
            )
            row = self._row(at, read, table.bucket, "10.0.0.9", key, "")
            from_service = row._replace(
                requester=SERVER_ROLE.replace("signproxy-server/sidecar", "catalog-service/metadata"),
                access_key="ASIAQ3EGUHT7CATALOG1",
                class_="known_service",
            )
            rows = (from_service,)
        self._add(at, event, rows)

    def _denied(self, person: Principal, table: Table, at: float, query: str) -> None:
        """A refusal such as every day has some."""
        random = self._random.random
        event = self._plain(person, table, at, Kind.FORWARD if person.way == "forward" else Kind.SIGN)
        if random() < 0.1:
            event.decision, event.reason, event.http_status = _ERROR, "credentials_unavailable", 503
        else:
            event.decision, event.http_status = _DENY, 403
            event.reason = DENIALS[int(random() * len(DENIALS))]
        s3_op = "PutObject" if event.reason == "no_write_data" else "GetObject"
        event.key, event.method, event.s3_op = self._object(table, s3_op)[0], METHODS[s3_op], s3_op
        event.access, event.bucket, event.query_id = ACCESS.get(s3_op, "write"), table.bucket.name, query
        self._add(at, event, ())

    def _plain(self, person: Principal, table: Table, at: float, kind: Kind) -> AuditEvent:
        return AuditEvent(
            event_id=self._ids.at(at),
            kind=kind,
            request_id=f"{self._number:08x}{self._made:08x}",
            principal=person.name,
            issuer=ISSUER,
            roles=(person.role,),
            remote_ip=person.event_ip,
            user_agent=AGENTS[person.agent % len(AGENTS)],
            application=person.kind,
            catalog=CATALOG,
            namespace=table.namespace,
            table=table.name,
            table_uuid=table.uuid,
            decision=_ALLOW,
            reason="allowed",
            policy_rev="",
            http_status=200,
            total_us=900,
            authz_us=20,
        )

    def _add(self, at: float, event: AuditEvent, rows: tuple[Row, ...]) -> None:
        self._made += 1
        self._items.append((at, self._made, event, rows))


def _with_stamp(parameters: str, event: AuditEvent) -> str:
    """Return the query of a request that signproxy signed for an event."""
    return f"{parameters}&{stamp(event.event_id)}" if parameters else stamp(event.event_id)
