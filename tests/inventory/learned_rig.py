"""Assemble a gate over learned tables, with an upstream and a clock that a test holds in its hands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from signproxy.errors import Reason, Refused
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.enquiries import Allowance
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.inventory.learned.learned_table import Freshness
from signproxy.inventory.learned.sighting import Dropped, Live, Loaded, Sighting, Staged, TableFacts
from signproxy.inventory.learned.vouchers import AsksAs, answered, recipient_of
from signproxy.model import BY_LOCATION, Allow, NamedTable, Principal, Subject, TableScope
from signproxy.policy.catalog import Authorizer
from signproxy.policy.state import PolicyState
from signproxy.policy.table import table_key
from signproxy.s3.request import WireRequest
from tests.gate.cases import judged, verdict_of
from tests.policies import MemoryPolicySource
from tests.rooms import Assembled

NOW = 1_000_000.0
PRINCIPALS = ("reader", "writer", "owner", "lender")
FAR = 4e9

_POLICY = """
remote_signing: true
default_catalog: lake
storages:
  aws: {{kind: aws, region: us-east-1, buckets: [lake, cold]}}
  away: {{kind: aws, region: us-east-1, buckets: [away]}}
catalogs:
  lake: {{storages: [aws], roots: ["s3://lake/wh", "s3://cold/data"], remote_signing: true, tables: upstream{options}}}
{catalogs}
catalog_roles: {{lake: [reader, writer, owner, lender]}}
principal_roles:
  readers: {{lake: [reader]}}
  writers: {{lake: [writer]}}
  owners: {{lake: [owner]}}
  lenders: {{lake: [lender]}}
principals:
  corp/reader: {{roles: [readers]}}
  corp/writer: {{roles: [writers]}}
  corp/owner: {{roles: [owners]}}
  corp/lender: {{roles: [lenders]}}
grants:
- {{role: reader, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}}
- {{role: writer, privileges: [TABLE_REMOTE_SIGN, TABLE_WRITE_DATA]}}
- {{role: owner, privileges: [CATALOG_MANAGE_CONTENT]}}
- {{role: lender, namespace: sales, table: lent, privileges: [TABLE_REMOTE_SIGN, TABLE_READ_DATA]}}
{more}
"""


def policy(options: str = "", more: str = "", catalogs: str = "") -> str:
    """Return a policy; `options` are more keys of the catalog, `more` follows the grants, `catalogs` the catalog."""
    return _POLICY.format(options=f", {options}" if options else "", more=more, catalogs=catalogs)


def facts(
    name: str = "orders",
    location: str | None = None,
    uuid: str | None = None,
    *,
    namespace: str = "sales",
    metadata_location: str = "",
    **properties: str,
) -> TableFacts:
    """Return what an upstream says of a table; by default it lies where its name says, and so does its UUID."""
    return TableFacts(
        namespace,
        name,
        f"uuid-{name}" if uuid is None else uuid,
        f"s3://lake/wh/{name}" if location is None else location,
        {key.replace("_", "."): value for key, value in properties.items()},
        metadata_location,
    )


class FakeUpstream:
    """An upstream that holds what a test puts into it, and remembers who asked."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str, str], TableFacts] = {}
        self.hidden: set[tuple[str, str]] = set()
        """Bearer and table that it denies to know."""
        self.restricted: set[tuple[str, str]] = set()
        """Bearer and table of which it keeps rows or columns back."""
        self.as_ = AsksAs.CALLER
        self.fault: Exception | None = None
        self.asked: list[tuple[str, str]] = []
        """Table and bearer."""
        self.held: asyncio.Event | None = None
        """While it is set to an event, answers wait for it."""

    def put(self, *tables: TableFacts, catalog: str = "lake") -> None:
        for table in tables:
            self.tables[catalog, table.namespace, table.name] = table

    def remove(self, name: str, namespace: str = "sales", catalog: str = "lake") -> None:
        del self.tables[catalog, namespace, name]

    def asks_as(self, catalog: str) -> AsksAs:
        return self.as_

    async def load(self, catalog: str, namespace: str, name: str, subject: Subject, bearer: str) -> Loaded | None:
        assert bearer.startswith(subject.caller.subject)
        self.asked.append((name, bearer))
        found = self.tables.get((catalog, namespace, name))
        await asyncio.sleep(0)
        if self.held is not None:
            await self.held.wait()
        if self.fault is not None:
            raise self.fault
        if found is None or (bearer, name) in self.hidden:
            return None
        return Loaded(found, (bearer, name) in self.restricted)


def principal(name: str, *, scope: TableScope | None = None, expires_at: float = FAR) -> Principal:
    return Principal(f"corp/{name}", "corp", name, expires_at, scope=scope)


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> float:
        self.now += seconds
        return self.now


@dataclass
class Site:
    """A gate, what it learned, and the upstream that tells it."""

    text: str = field(default_factory=policy)
    freshness: Freshness = field(default_factory=Freshness)
    allowance: Allowance = field(default_factory=Allowance)
    at_most: int = 1_000

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.upstream = FakeUpstream()
        self.tables = LearnedTables(lambda: self.state, self.freshness, self.at_most)
        self.resolver = LearnedResolver(self.tables, self.upstream, self.clock, self.allowance)
        state = MemoryPolicySource(self.text).load(1)
        self.rooms = Assembled(state, learned=self.tables, learned_resolver=self.resolver)
        self.said: list[Judgement] = []
        """What the gate said of the last request: so far, for each of its questions, and in the end."""

    @property
    def gate(self) -> Gate:
        """The gate that judges."""
        return self.rooms.gate

    @property
    def judgement(self) -> Judgement:
        """What is said of the last request."""
        return self.said[-1]

    @property
    def state(self) -> PolicyState:
        """The policy in force."""
        return self.rooms.state

    @state.setter
    def state(self, state: PolicyState) -> None:
        self.rooms.state = state

    def reload(self, text: str) -> None:
        """Put another policy in force."""
        self.state = MemoryPolicySource(text).load(self.state.epoch + 1)

    def take(self, sighting: Sighting, sent: float | None = None) -> SightingRefusal | None:
        return self.tables.take(sighting, self.clock.now, sent)

    def live(self, *tables: TableFacts, catalog: str = "lake") -> list[SightingRefusal | None]:
        """Let the upstream have these tables, and let every principal have loaded them."""
        self.upstream.put(*tables, catalog=catalog)
        refusals = [self.take(Live(catalog, table)) for table in tables]
        if self.state.catalogs[catalog].authorizer is Authorizer.POLICY:
            for table in tables:
                for name in PRINCIPALS:
                    self.answered(table, name, catalog=catalog)
        return refusals

    def answered(
        self,
        table: TableFacts,
        who: str | Principal = "reader",
        bearer: str | None = None,
        *,
        catalog: str = "lake",
        restricted: bool = False,
        sent: float | None = None,
    ) -> bool:
        """Let the upstream have answered a principal's load of a table."""
        asks = principal(who) if isinstance(who, str) else who
        recipient = recipient_of(asks, f"{asks.subject}-token" if bearer is None else bearer)
        now = self.clock.now
        return self.tables.answered(
            answered(catalog, Loaded(table, restricted), recipient), now, now if sent is None else sent
        )

    def drop(self, name: str, who: str = "owner", namespace: str = "sales") -> SightingRefusal | None:
        """Let a table be dropped through the facade."""
        self.upstream.remove(name, namespace)
        return self.take(Dropped("lake", namespace, name, f"corp/{who}", self.clock.now, self.uuid_of(name, namespace)))

    def uuid_of(self, name: str, namespace: str = "sales") -> str | None:
        """Return the UUID of the table that is known by this name."""
        known = self.tables.ground.of("lake").by_name.get(table_key(namespace, name))
        return None if known is None else known.facts.uuid

    def stage(self, table: TableFacts, who: str = "owner", seconds: float = 3600.0) -> Staged:
        """Return what the upstream hands out for a staged create."""
        return Staged("lake", table, f"corp/{who}", self.clock.now + seconds)

    async def judge(self, subject: Subject, asked: AskedFor) -> Judgement:
        """Return all that the gate says."""
        self.said = []
        return await judged(self.gate, subject, asked, self.said)

    async def sign(
        self,
        key: str,
        table: str | None = "orders",
        who: str = "reader",
        *,
        method: str = "GET",
        bucket: str = "lake",
        query: str = "",
        source: str = "",
        catalog: str = "lake",
        namespace: str = "sales",
        bearer: str | None = None,
        carried: Staged | None = None,
        caller: Principal | None = None,
        body: str | None = None,
    ) -> Allow | Refused:
        """Return what the gate says; a refusal is returned, not raised."""
        path = f"/{key}" if key else ""
        wire = WireRequest(
            method=method,
            uri=f"https://{bucket}.s3.us-east-1.amazonaws.com{path}{query}",
            headers={"x-amz-copy-source": [source]} if source else {},
            region="us-east-1",
            body=body,
        )
        asks = caller or principal(who)
        asked = AskedFor(
            CatalogAddress(catalog),
            BY_LOCATION if table is None else NamedTable(namespace, table),
            wire,
            bearer=f"{asks.subject}-token" if bearer is None else bearer,
            carried=None if carried is None else lambda: carried,
        )
        return verdict_of(await self.judge(Subject.of(asks), asked))

    async def reason(self, key: str, table: str | None = "orders", who: str = "reader", **asked: object) -> Reason:
        """Return the reason of a refusal, ALLOWED otherwise."""
        said = await self.sign(key, table, who, **asked)  # type: ignore[arg-type]  # as given
        return said.reason if isinstance(said, Refused) else Reason.ALLOWED

    async def settle(self) -> None:
        """Let what is asked beside the requests be answered."""
        for _ in range(10):
            await asyncio.sleep(0)
