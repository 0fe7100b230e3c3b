"""Whatever signproxy signs, nothing outside the caller's table is read, listed, changed or deleted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.containment.draft import OPERATIONS
from tests.e2e.containment.oracle import smuggled_anywhere, snapshot
from tests.e2e.containment.run import MERGES, Tally, run
from tests.e2e.containment.world import LAKE, NAMESPACE, OPEN, STRICT, TABLES, VAULT, Access, lay_out
from tests.e2e.server import Grant, SignServer, policy_of, run_server
from tests.e2e.stores import RunningStore
from tests.e2e.stores.direct import Owner

pytestmark = pytest.mark.ci

REQUESTS = int(os.environ.get("SIGNPROXY_E2E_REQUESTS", "1500"))
"""Requests per store; `make e2e` asks for more."""

SEED = os.environ.get("SIGNPROXY_E2E_SEED", "1")
WORKERS = 4
ROUND = 5000
"""Requests between two readings of everything outside, so that a change can be told to its round."""

PRIVILEGES = {
    Access.NONE: (),
    Access.READ: ("TABLE_REMOTE_SIGN", "TABLE_READ_DATA"),
    Access.WRITE: ("TABLE_REMOTE_SIGN", "TABLE_WRITE_DATA"),
}

# What a run must have met, so that a generator that went blind is noticed.
FAMILIES = frozenset(
    """
    outside_table copy_source copy_source_outside key_dot_segment key_empty_segment key_character endpoint_unknown
    uri_malformed query_malformed query_repeated query_reserved operation_refused operation_unknown list_prefix
    header_refused header_credentials header_host header_value payload_mode delete_body metadata_protected
    table_unknown no_remote_sign location_unowned route_unknown method_unknown region_mismatch
    """.split()
)


def test_nothing_outside_the_table_is_touched(store: RunningStore, owner: Owner, tmp_path: Path) -> None:
    """This is the promise of the product: a signature never reaches beyond the caller's own table."""
    world = lay_out(store, owner)
    grants = [Grant(t.catalog, NAMESPACE, t.name, t.location, PRIVILEGES[t.access]) for t in TABLES]
    policy = policy_of(store, (LAKE, VAULT), {STRICT: {}, OPEN: {"binding": "by-location"}}, grants)
    before = snapshot(owner, world)
    total = Tally()
    with run_server(tmp_path / "signproxy", store, policy) as server:
        for start in range(0, REQUESTS, ROUND):
            share = min(ROUND, REQUESTS - start)
            total.add(run(world, server, seed=f"{SEED}.{start // ROUND}", requests=share, workers=WORKERS))
            changes = before.differences(snapshot(owner, world))
            _report(store, total, server)
            assert not total.failures, "\n\n".join(total.failures[:5])
            assert not changes, "\n".join(changes[:20])
        assert not smuggled_anywhere(owner)
        _check_coverage(total, server)


def _check_coverage(total: Tally, server: SignServer) -> None:
    """Hold the run to its purpose: much was signed and carried out, and every kind of refusal was met."""
    least = max(1, REQUESTS // 500)
    for operation in OPERATIONS:
        for client in MERGES:
            assert total.executed[(operation, client)] >= least, (operation, client, total.executed)
    assert total.signed >= total.asked * 0.4, total
    assert sum(total.hostile_signed.values()) >= total.asked * 0.02, total
    reasons = server.tally()
    assert sum(reasons.values()) == total.asked
    assert reasons["allowed"] == total.signed
    if REQUESTS >= 1500:
        missing = FAMILIES - reasons.keys()
        assert not missing, missing


def _report(store: RunningStore, total: Tally, server: SignServer) -> None:
    print(  # noqa: T201  # shown with a failure, and by `pytest -rP`
        f"{store.name}: asked {total.asked}, signed {total.signed}, sent {total.sent}, "
        f"hostile and signed {sum(total.hostile_signed.values())}\n"
        f"  carried out: {dict(total.executed)}\n  reasons: {dict(server.tally())}\n"
        f"  hostile and signed: {dict(total.hostile_signed)}\n"
        f"  errors of the store: {dict(total.store_errors)}"
    )
