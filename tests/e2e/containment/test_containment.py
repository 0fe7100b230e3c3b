"""Whatever signproxy signs, nothing outside the caller's table is read, listed, changed or deleted."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.containment.draft import OPERATIONS
from tests.e2e.containment.oracle import smuggled_anywhere, snapshot
from tests.e2e.containment.run import MAX_FAILURES, MERGES, Tally, run
from tests.e2e.containment.world import LAKE, NAMESPACE, OPEN, STRICT, TABLES, VAULT, Access, lay_out
from tests.e2e.server import Grant, SignServer, policy_of, run_server
from tests.e2e.stores import SEAWEEDFS, STORES, SWIFT, VERSITYGW, RunningStore, StoreKind
from tests.e2e.stores.direct import Owner

SHORT = 1500
"""Requests per store on every change."""

FULL = {VERSITYGW: 45_000, SEAWEEDFS: 45_000, SWIFT: 10_000}
"""A hundred thousand requests before a release; Swift takes ten times as long for one."""

SEED = os.environ.get("SIGNPROXY_E2E_SEED", "1")
"""The same seed draws the same requests; only what the store names itself (upload ids) differs."""

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


@pytest.mark.ci
@pytest.mark.parametrize("kind", STORES, ids=str)
def test_nothing_outside_the_table_is_touched(kind: StoreKind, tmp_path: Path) -> None:
    """This is the promise of the product: a signature never reaches beyond the caller's own table."""
    _prove(kind, tmp_path, SHORT)


@pytest.mark.timeout(2 * 3600)
@pytest.mark.parametrize("kind", FULL, ids=str)
def test_nothing_outside_the_table_is_touched_in_a_hundred_thousand_requests(kind: StoreKind, tmp_path: Path) -> None:
    """The holes that remain are rare combinations: a short run would meet one by luck."""
    _prove(kind, tmp_path, FULL[kind])


def _prove(kind: StoreKind, directory: Path, requests: int) -> None:
    """Lay out a world, let a number of requests loose on it, and look."""
    grants = [Grant(t.catalog, NAMESPACE, t.name, t.location, PRIVILEGES[t.access]) for t in TABLES]
    catalogs = {STRICT: {}, OPEN: {"binding": "by-location"}}
    (directory / "store").mkdir()
    with ExitStack() as stack:
        store = stack.enter_context(kind.run(directory / "store"))
        owner = Owner(store)
        stack.callback(owner.close)
        world = lay_out(store, owner)
        before = snapshot(owner, world)
        total = Tally()
        with run_server(directory / "signproxy", store, policy_of(store, (LAKE, VAULT), catalogs, grants)) as server:
            for start in range(0, requests, ROUND):
                share = min(ROUND, requests - start)
                total.add(run(world, server, seed=f"{SEED}.{start // ROUND}", requests=share, workers=WORKERS))
                changes = before.differences(snapshot(owner, world))
                assert not total.failures, "\n\n".join(total.failures[:MAX_FAILURES])
                assert not changes, "\n".join(changes[:MAX_FAILURES])
        assert not smuggled_anywhere(owner)
    # Only now: what refusals of unknown callers are summed up in is written with the end of their minute.
    _report(store, total, server)
    _check_coverage(total, server)


def _check_coverage(total: Tally, server: SignServer) -> None:
    """Hold the run to its purpose: much was signed and carried out, and every kind of refusal was met."""
    for operation in OPERATIONS:
        for client in MERGES:
            assert total.executed[(operation, client)] >= total.asked // 500, (operation, client, total.executed)
    assert total.signed >= total.asked * 0.4, total
    assert sum(total.hostile_signed.values()) >= total.asked * 0.02, total
    reasons = server.tally()
    # One event for each request, no more and no less.
    assert sum(reasons.values()) == total.asked
    assert reasons["allowed"] == total.signed
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
