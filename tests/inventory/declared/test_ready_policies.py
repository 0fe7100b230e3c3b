"""Prove that the policies that operators begin with say what their comments promise."""

# ruff: noqa: E501  (a decision is one row of a table, and reads as one)
from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import pytest

from signproxy.errors import Reason, Refused
from signproxy.gate.forwarded import Passed
from signproxy.gate.request import AskedFor
from signproxy.inventory.declared.source import FilePolicySource
from signproxy.inventory.learned.learned import LearnedTables
from signproxy.inventory.learned.learned_resolver import LearnedResolver, NoUpstream
from signproxy.inventory.learned.sighting import Live, TableFacts
from signproxy.model import NAMESPACE_SEPARATOR, Allow, Deny, NamedTable, Principal, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.decide import decide
from signproxy.policy.resolver import PolicyResolver
from signproxy.policy.state import PolicyState
from signproxy.policy.table import Table
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from signproxy.s3.storage import Stamp
from tests.coroutines import finished
from tests.gate.cases import judged
from tests.policy.world import request
from tests.rooms import gate_over

POLICIES = Path(__file__).resolve().parents[3] / "policies"
GET, PUT, LIST, DELETE = Operation.GET_OBJECT, Operation.PUT_OBJECT, Operation.LIST_OBJECTS_V2, Operation.DELETE_OBJECT

LOADER = "cluster/system:serviceaccount:ingest:loader"
COMPACTION = "cluster/system:serviceaccount:platform:compaction"
ORDERS = "s3://acme-lake/warehouse/sales/curated/orders"
FEATURES = "s3://acme-lake/warehouse/ml/features"
SCORES = "s3://acme-lake/warehouse/ml/scores"

# policy, principal, catalog, table, operation, object, what comes of it
DECISIONS = (
    ("minimal", "corp/alice", "lake.sales.orders", GET, "s3://acme-lake/warehouse/sales/orders/data/f", "allowed"),
    ("minimal", "corp/alice", "lake.sales.orders", LIST, "s3://acme-lake/warehouse/sales/orders/", "allowed"),
    ("minimal", "corp/alice", "lake.sales.orders", PUT, "s3://acme-lake/warehouse/sales/orders/data/f", "no_write_data"),
    ("minimal", "corp/alice", "lake.sales.orders", GET, "s3://acme-lake/warehouse/sales/x/data/f", "outside_table"),
    ("minimal", "corp/bob", "lake.sales.orders", GET, "s3://acme-lake/warehouse/sales/orders/f", "principal_unknown"),
    ("minimal", "other/alice", "lake.sales.orders", GET, "s3://acme-lake/warehouse/sales/orders/f", "principal_unknown"),
    ("minimal", "corp/alice", "lake.sales.gone", GET, "s3://acme-lake/warehouse/sales/orders/f", "table_unknown"),
    ("teams", "corp/alice", "lake.sales.curated.orders", GET, f"{ORDERS}/data/f", "allowed"),
    ("teams", "corp/alice", "lake.sales.curated.orders", PUT, f"{ORDERS}/data/f", "no_write_data"),
    ("teams", "corp/alice", "lake.sales.curated.orders", GET, f"{ORDERS}/metadata/m0.avro", "allowed"),
    ("teams", "corp/alice", "lake.sales.curated.orders", GET, f"{ORDERS}/metadata/1.metadata.json", "metadata_protected"),
    ("teams", "corp/alice", "lake.ml.scores", GET, f"{SCORES}/data/f", "allowed"),  # lent
    ("teams", "corp/alice", "lake.ml.features", GET, f"{FEATURES}/data/f", "no_remote_sign"),
    ("teams", "corp/mei", "lake.ml.features", PUT, f"{FEATURES}/data/f", "allowed"),
    ("teams", "corp/mei", "lake.ml.features", PUT, "s3://acme-lake/warehouse/ml-data/features/f", "allowed"),
    ("teams", "corp/mei", "lake.ml.features", PUT, "s3://acme-lake/warehouse/ml-data/f", "outside_table"),
    ("teams", "corp/mei", "lake.sales.curated.orders", GET, f"{ORDERS}/data/f", "allowed"),  # an analyst as well
    ("teams", "corp/mei", "lake.sales.curated.orders", PUT, f"{ORDERS}/data/f", "no_write_data"),
    ("teams", LOADER, "lake.sales.curated.orders", PUT, f"{ORDERS}/data/f", "allowed once"),
    ("teams", LOADER, "lake.sales.curated.orders", DELETE, f"{ORDERS}/data/f", "allowed"),
    ("teams", LOADER, "lake.sales.curated.orders", DELETE, f"{ORDERS}/metadata", "metadata_protected"),
    ("teams", LOADER, "lake.sales.curated.customers", PUT, ORDERS.replace("orders", "customers") + "/f", "allowed"),
    ("teams", LOADER, "lake.ml.scores", GET, f"{SCORES}/data/f", "no_remote_sign"),
    ("teams", COMPACTION, "lake.ml.scores", DELETE, f"{SCORES}/metadata/1.metadata.json", "allowed"),
    ("multi-storage", "corp/trino", "lake.web.clicks", PUT, "s3://acme-lake/warehouse/web/clicks/f", "allowed"),
    ("multi-storage", "corp/trino", "lake.web.clicks_dc", PUT, "s3://onprem-lake/web/clicks/f", "allowed"),
    # by-location: the key decides, the name in the path is a hint
    ("multi-storage", "corp/trino", "lake.web.clicks", PUT, "s3://onprem-lake/web/clicks/f", "allowed"),
    ("multi-storage", "corp/trino", "lake.web.clicks", PUT, "s3://onprem-lake/web/other/f", "location_unowned"),
    ("multi-storage", "corp/trino", "hr.pay.salaries", GET, "s3://onprem-hr/tables/pay/salaries/f", "no_remote_sign"),
    ("multi-storage", "corp/payroll", "hr.pay.salaries", GET, "s3://onprem-hr/tables/pay/salaries/f", "allowed"),
    ("multi-storage", "corp/payroll", "hr.pay.salaries", PUT, "s3://onprem-hr/tables/pay/salaries/f", "no_write_data"),
    ("multi-storage", "corp/payroll", "lake.web.clicks", GET, "s3://acme-lake/warehouse/web/clicks/f", "no_remote_sign"),
    ("facade", "corp/alice", "lake.sales.orders", GET, "s3://acme-lake/warehouse/sales/orders/f", "allowed"),
    ("facade", "corp/alice", "lake.sales.orders", PUT, "s3://acme-lake/warehouse/sales/orders/f", "no_write_data"),
    ("facade", "corp/alice", "lake.finance.ledger", GET, "s3://acme-lake/warehouse/finance/ledger/f", "no_remote_sign"),
    ("facade", LOADER, "lake.sales.orders", PUT, "s3://acme-lake/warehouse/sales/orders/f", "allowed"),
    ("facade", LOADER, "lake.sales.orders", PUT, "s3://acme-lake/warehouse/clicks-data/f", "outside_table"),
    ("facade", LOADER, "lake.sales.clicks", PUT, "s3://acme-lake/warehouse/clicks-data/f", "allowed once"),
    ("facade", LOADER, "lake.finance.ledger", GET, "s3://acme-lake/warehouse/finance/ledger/f", "allowed"),
    ("facade", LOADER, "lake.finance.ledger", PUT, "s3://acme-lake/warehouse/finance/ledger/f", "no_write_data"),
    # claims the ledger's place
    ("facade", "corp/admin", "lake.sales.thief", GET, "s3://acme-lake/warehouse/finance/ledger/f", "location_disputed"),
    ("facade", "corp/admin", "lake.sales.stray", GET, "s3://acme-lake/elsewhere/f", "location_outside_roots"),
    ("facade", "corp/admin", "lake.sales.gone", GET, "s3://acme-lake/warehouse/sales/gone/f", "upstream_unavailable"),
)  # fmt: skip

TRINO = "cluster/system:serviceaccount:legacy:trino"
DRIVER = "cluster/system:serviceaccount:spark:driver"

# principal, method, what the S3 listener is asked, what comes of it
FORWARDED = (
    ("corp/alice", "GET", "s3://acme-lake/warehouse/sales/orders/data/f", "allowed"),
    ("corp/alice", "PUT", "s3://acme-lake/warehouse/sales/orders/data/f", "no_write_data"),
    ("corp/alice", "GET", "s3://acme-lake/landing/day=1/f.json", "allowed"),
    ("corp/alice", "PUT", "s3://acme-lake/landing/day=1/f.json", "no_write_data"),
    ("corp/alice", "GET", "s3://acme-lake/?list-type=2&prefix=landing/", "allowed"),
    ("corp/alice", "GET", "s3://acme-lake/?list-type=2&prefix=", "list_prefix"),
    ("corp/alice", "GET", "s3://acme-lab/f", "no_read_data"),
    ("corp/alice", "GET", "s3://acme-elsewhere/f", "endpoint_unknown"),
    (LOADER, "PUT", "s3://acme-lake/landing/day=1/f.json", "allowed once"),
    (LOADER, "PUT", "s3://acme-lake/landing/day=1/", "key_empty_segment"),
    (LOADER, "GET", "s3://acme-lake/warehouse/sales/orders/data/f", "no_remote_sign"),
    (DRIVER, "PUT", "s3://acme-lake/spark/staging/", "allowed"),
    (DRIVER, "HEAD", "s3://acme-lake/spark/staging", "allowed"),
    (DRIVER, "PUT", "s3://acme-lake/spark/staging/job/_temporary/", "allowed"),
    (DRIVER, "DELETE", "s3://acme-lake/spark/staging-2/f", "location_unowned"),
    ("corp/mei", "GET", "s3://acme-lab/?list-type=2", "allowed"),
    ("corp/mei", "PUT", "s3://acme-lab/f?tagging", "allowed"),
    ("corp/mei", "PUT", "s3://acme-lab/?versioning", "no_manage"),
    ("corp/kim", "PUT", "s3://acme-lab/?versioning", "allowed"),
    ("corp/kim", "PUT", "s3://acme-scratch-7", "allowed"),
    ("corp/mei", "PUT", "s3://acme-scratch-7/f", "no_write_data"),
    (TRINO, "GET", "s3://acme-lake/landing/f", "allowed"),
    (TRINO, "PUT", "s3://acme-lake/warehouse/sales/orders/data/f", "observed no_write_data"),
    (TRINO, "GET", "s3://acme-lake/elsewhere/f", "observed location_unowned"),
    (TRINO, "GET", "s3://acme-elsewhere/f", "endpoint_unknown"),
)

# What the upstream of `facade` says.
LEARNED = {
    "orders": "s3://acme-lake/warehouse/sales/orders",
    "clicks": "s3://acme-lake/warehouse/sales/clicks",
    "thief": "s3://acme-lake/warehouse/finance",
    "stray": "s3://acme-lake/elsewhere",
}


def _state(name: str) -> PolicyState:
    return FilePolicySource(POLICIES / f"{name}.yaml").load(1)


async def _owners(
    state: PolicyState, catalog: Catalog, target: NamedTable, asked: S3Request, subject: Subject
) -> tuple[Table, ...] | Deny:
    if catalog.learning is None:
        return PolicyResolver().resolve(catalog, target, asked)
    tables = LearnedTables(lambda: state)
    for name, location in LEARNED.items():
        tables.take(Live("lake", TableFacts("sales", name, name, location, {})), 0.0)
    resolver = LearnedResolver(tables, NoUpstream(), lambda: 0.0)
    found = resolver.resolve(catalog, catalog.learning, subject, target, asked, "", None)
    if isinstance(found, Awaitable):
        await found
        pytest.fail("an upstream was asked")
    return found if isinstance(found, Deny) else found.owners


@pytest.mark.parametrize(("policy", "principal", "table", "operation", "where", "expected"), DECISIONS)
async def test_who_may_do_what(
    policy: str, principal: str, table: str, operation: Operation, where: str, expected: str
) -> None:
    """Operators copy these files: what they say about them must be true."""
    state = _state(policy)
    name, *levels, leaf = table.split(".")
    catalog = state.catalogs[name]
    bucket, _, key = where.removeprefix("s3://").partition("/")
    store = catalog.storage_of(bucket)
    assert store is not None
    asked = request(operation, "" if operation is LIST else key, bucket=bucket, store=store, prefix=key)
    issuer, _, claim = principal.partition("/")
    try:
        subject = Subject.of(Principal(principal, issuer, claim, 4e9))
        target = NamedTable(NAMESPACE_SEPARATOR.join(levels), leaf)
        owners = await _owners(state, catalog, target, asked, subject)
        decision = owners if isinstance(owners, Deny) else decide(state, catalog, subject, owners, asked)
    except Refused as refused:
        decision = Deny(refused.reason)
    if isinstance(decision, Allow):
        assert expected == ("allowed once" if decision.write_once else "allowed")
    else:
        assert decision.reason.code == expected


@pytest.mark.parametrize(("principal", "method", "where", "expected"), FORWARDED)
async def test_who_may_do_what_in_volumes(principal: str, method: str, where: str, expected: str) -> None:
    """The S3 listener judges them; nothing of a volume is ever signed."""
    state = _state("volumes")
    gate = gate_over(state)
    issuer, _, claim = principal.partition("/")
    subject = Subject.of(Principal(principal, issuer, claim, 4e9))
    path, mark, query = where.removeprefix("s3://").partition("?")
    bucket, _, key = path.partition("/")
    asked = ForwardWire(
        method=method, bucket=bucket, raw_key=key, raw_query=query if mark else None, headers=(), names=()
    )
    judgement = finished(judged(gate, subject, AskedFor(forward=asked)))
    passed = judgement.passed
    if judgement.refused is not None:
        assert passed is None
        told = judgement.refused.reason.code
    else:
        assert isinstance(passed, Passed)
        told = "allowed once" if passed.allow.write_once else "allowed"
        if passed.observed is not None:
            told = f"observed {passed.observed.reason.code}"
    assert told == expected


def test_every_ready_policy_is_judged_above() -> None:
    """A policy without a table of decisions would be a guess."""
    assert {path.stem for path in POLICIES.glob("*.yaml")} == {row[0] for row in DECISIONS} | {"volumes"}


@pytest.mark.parametrize("name", sorted({row[0] for row in DECISIONS} | {"volumes"}))
def test_a_ready_policy_signs_in_each_of_its_catalogs(name: str) -> None:
    """A first-time operator must not fail at a switch."""
    state = _state(name)
    assert state.remote_signing
    assert all(catalog.remote_signing for catalog in state.catalogs.values())


def test_the_switch_tells_the_reason() -> None:
    """The reason codes of this file exist."""
    codes = {reason.code for reason in Reason}
    assert {row[-1].partition(" ")[0] for row in DECISIONS} <= codes
    assert {row[-1].removeprefix("observed ").partition(" ")[0] for row in FORWARDED} <= codes


def test_two_stores_keep_their_own_settings() -> None:
    """Each storage is what its comments say."""
    state = _state("multi-storage")
    aws, store = (state.catalogs["lake"].storages[name] for name in ("aws-eu", "dc-store"))
    assert (aws.checks_unsigned_headers, aws.stamp, aws.opt_ins.multipart_cleanup) == (True, Stamp.QUERY, True)
    assert (store.checks_unsigned_headers, store.stamp, store.opt_ins.multipart_cleanup) == (True, Stamp.OFF, False)
    assert state.default_catalog == "lake"
    assert state.catalog_of_prefix("main") is state.catalogs["lake"]
    assert state.catalogs["lake"].endpoints.find("http://s3.storage.svc:9000") is not None
    assert state.catalogs["hr"].endpoints.find("https://acme-lake.s3.eu-central-1.amazonaws.com") is None
