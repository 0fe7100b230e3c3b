"""Draw the lake that the month is of: buckets, teams with their tables, and who may do what."""

from __future__ import annotations

from random import Random

import msgspec

from tools.sample_data.ids import drawn

CATALOG = "lake"
ACCOUNT = "123456789012"
REGION = "us-east-1"
ISSUER = "corp"
OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"

SERVER_ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/signproxy-server/sidecar"
"""Whom S3's logs name for what signproxy signs and forwards."""
SERVER_KEY = "ASIAQ3EGUHT7SIGN4XPL"
STORE_KEY = "SPROXYKEY7Q2M4ZD"
"""The access key that signproxy has at the stores that are not AWS."""
VENDING_ROLE = "signproxy-vend"
CATALOG_ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/catalog-service/metadata"
REPLICATION_ROLE = f"arn:aws:sts::{ACCOUNT}:assumed-role/lake-replication/s3-replication"
KNOWN_SERVICES = ("AmazonS3", f"arn:aws:sts::{ACCOUNT}:assumed-role/catalog-service/*", REPLICATION_ROLE)
STRANGER = f"arn:aws:iam::{ACCOUNT}:user/jenkins-legacy"
STRANGER_KEY = "AKIAQ3EGUHT7JENKINS4"


class Bucket(msgspec.Struct, frozen=True):
    """A bucket, and in which log its requests are."""

    name: str
    source: str
    stamped: bool = True
    """Whether the log shows the stamp."""
    has_sessions: bool = False
    """Whether the log names the session of vended keys."""

    @property
    def is_aws(self) -> bool:
        """Whether S3 itself serves it."""
        return self.source in ("aws", "cloudtrail")

    @property
    def requester(self) -> str:
        """Whom the log names for signproxy."""
        return SERVER_ROLE if self.is_aws else STORE_KEY

    @property
    def access_key(self) -> str:
        """The access key that signproxy signs with."""
        return SERVER_KEY if self.is_aws else STORE_KEY


AWS = Bucket("lake", "aws", has_sessions=True)
TRAIL = Bucket("lake-trail", "cloudtrail", stamped=False, has_sessions=True)
WEBHOOK = Bucket("lake-edge", "versitygw-webhook")
FILE = Bucket("lake-archive", "versitygw-file")
MINIO = Bucket("lake-onprem", "minio")
BUCKETS = (AWS, WEBHOOK, FILE, MINIO, TRAIL)
_OF_NAMESPACES = (*[AWS] * 11, *[WEBHOOK] * 3, *[FILE] * 2, *[MINIO] * 2, *[TRAIL] * 2)

_DOMAINS = (
    "finance sales orders clicks billing fraud risk logistics pricing catalog ads search growth supply hr".split()
)
_THINGS = "events facts daily snapshot lookup history ledger sessions items features".split()


class Table(msgspec.Struct, frozen=True):
    """A table."""

    number: int
    namespace: str
    name: str
    uuid: str
    bucket: Bucket
    location: str
    """Its keys begin with this and a slash."""

    @property
    def text(self) -> str:
        """Its full name."""
        return f"{CATALOG}.{self.namespace}.{self.name}"


class Grant(msgspec.Struct, frozen=True):
    """A right of a principal, as the policy export has it."""

    principal: str
    role: str
    privilege: str
    securable: str
    """As the rules of events name it: `namespace:lake.sales_02`."""
    granted_at: int
    """Unix time."""

    @property
    def via_role(self) -> str:
        """The catalog role that has it."""
        return grantee_of(self.principal)


class Principal(msgspec.Struct, frozen=True):
    """A principal that reads and writes tables."""

    name: str
    """With its issuer, as events have it."""
    kind: str
    """service, analyst or batch."""
    way: str
    """sign, forward or vend."""
    ip: str
    event_ip: str
    """What signproxy sees: loopback where it is a sidecar."""
    role: str
    agent: int
    caches: bool
    """Its client uses a signature again for half a minute."""
    writes: bool
    tables: tuple[int, ...]
    """What it uses, each as often as it is drawn."""
    namespaces: tuple[str, ...]

    @property
    def grantee(self) -> str:
        """The catalog role that its rights stand on."""
        return grantee_of(self.name)


class World(msgspec.Struct, frozen=True):
    """All of it."""

    tables: tuple[Table, ...]
    namespaces: tuple[str, ...]
    principals: tuple[Principal, ...]
    grants: tuple[Grant, ...]
    first: int
    """Unix time of the first midnight."""
    days: int

    @property
    def end(self) -> int:
        """Unix time of the midnight after the last day."""
        return self.first + 86_400 * self.days

    def tables_of(self, namespace: int) -> range:
        """Return the numbers of the tables of a namespace."""
        each = len(self.tables) // len(self.namespaces)
        return range(namespace * each, (namespace + 1) * each)


READ, WRITE, SIGN = "TABLE_READ_DATA", "TABLE_WRITE_DATA", "TABLE_REMOTE_SIGN"
_PER_NAMESPACE = 100
_DRAWN = 128
_OLD = 200 * 86_400


def draw_world(seed: int, *, tables: int, principals: int, first: int, days: int) -> World:
    """Return the world of a seed."""
    random = drawn(seed, "world")
    count = max(20, tables // _PER_NAMESPACE)
    each = max(1, tables // count)
    namespaces = tuple(f"{_DOMAINS[number % len(_DOMAINS)]}_{number:02d}" for number in range(count))
    # Which bucket is which team's does not follow from the team's popularity.
    shuffled = [_OF_NAMESPACES[number % len(_OF_NAMESPACES)] for number in range(count)]
    random.shuffle(shuffled)
    all_tables = []
    for number in range(count * each):
        namespace = namespaces[number // each]
        name = f"{_THINGS[number % len(_THINGS)]}_{number % each:03d}"
        location = f"warehouse/{namespace}/{name}"
        uuid = f"{random.getrandbits(128):032x}"
        uuid = f"{uuid[:8]}-{uuid[8:12]}-4{uuid[13:16]}-a{uuid[17:20]}-{uuid[20:]}"
        all_tables.append(Table(number, namespace, name, uuid, shuffled[number // each], location))
    people = []
    grants: list[Grant] = []
    for number in range(principals):
        principal = _draw_principal(random, number, principals, namespaces, shuffled, each)
        people.append(principal)
        grants += _grants_of(principal, first - _OLD - random.randrange(_OLD))
    return World(tuple(all_tables), namespaces, tuple(people), tuple(grants), first, days)


def _draw_principal(
    random: Random, number: int, of: int, namespaces: tuple[str, ...], buckets: list[Bucket], each: int
) -> Principal:
    share = number / of
    kind = "service" if share < 0.45 else "analyst" if share < 0.75 else "batch"
    way = "sign" if number % 10 < 6 else "forward" if number % 10 < 8 else "vend"
    candidates = [at for at in range(len(namespaces)) if way != "vend" or buckets[at].has_sessions]
    # Zipf over teams, and over the tables of each.
    own = sorted({candidates[_zipf(random, len(candidates))] for _ in range(random.randint(1, 3))})
    used = random.randint(4, min(40, each)) if each >= 4 else each
    mine = [[place * each + at for at in random.sample(range(each), used)] for place in own]
    drawn = tuple(mine[random.randrange(len(own))][_zipf(random, used)] for _ in range(_DRAWN))
    name = {"service": f"svc-{namespaces[own[0]]}-{number:03d}", "analyst": f"analyst{number:03d}"}.get(
        kind, f"batch-{namespaces[own[0]]}-{number:03d}"
    )
    ip = f"10.{20 + number // 200}.{number % 200}.{random.randint(2, 250)}"
    return Principal(
        name=f"{ISSUER}/{name}",
        kind=kind,
        way=way,
        ip=ip,
        event_ip="127.0.0.1" if number % 4 == 0 else ip,
        role=f"{name}-role",
        agent=random.randrange(1000),
        caches=way == "sign" and number % 3 == 0,
        writes=kind == "batch" or (kind == "service" and number % 3 == 1),
        tables=drawn,
        namespaces=tuple(namespaces[place] for place in own),
    )


def _grants_of(principal: Principal, granted_at: int) -> list[Grant]:
    privileges = [READ, SIGN]
    if principal.writes:
        privileges.append(WRITE)
    return [
        Grant(principal.name, principal.role, privilege, f"namespace:{CATALOG}.{namespace}", granted_at)
        for namespace in principal.namespaces
        for privilege in privileges
    ]


def grantee_of(principal: str) -> str:
    """Return the catalog role of a principal."""
    return f"{principal.partition('/')[2]}-tables"


def _zipf(random: Random, count: int) -> int:
    """Draw a rank: the density falls as one over the rank."""
    return min(count - 1, int((count + 1) ** random.random()) - 1)
