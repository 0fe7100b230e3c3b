"""Prove on strict stores that a signature ends when the setting says."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.e2e.client import Merge, Sent, client_of
from tests.e2e.conftest import Shelf
from tests.e2e.server import Grant, policy_of, run_server
from tests.e2e.stores import SWIFT, VERSITYGW, RunningStore
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer

pytestmark = pytest.mark.ci

TTL = 60
"""The shortest life that can be set."""
BUCKET = "ttl"
ROUTE = "/s3-sign/v1/main/namespaces/db/tables/t"

# The date in a signature has whole seconds, the store rounds too, and the machine may be busy.
BEFORE = 5
AFTER = 3


def test_a_signature_is_taken_until_its_end_and_no_longer(shelf: Shelf, tmp_path: Path) -> None:
    """A revoke is complete when the last signature has ended: the operator must be able to say when that is."""
    # One wait for all stores.
    stores = [shelf.get(kind) for kind in (VERSITYGW, SWIFT)]
    outcomes: dict[str, list[Answer] | BaseException] = {}

    def prove(store: RunningStore) -> None:
        try:
            outcomes[store.name] = _before_and_after(store, tmp_path / store.name)
        except BaseException as error:  # noqa: BLE001  # raised again by the test's own thread
            outcomes[store.name] = error

    threads = [threading.Thread(target=prove, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        outcome = outcomes[store.name]
        if isinstance(outcome, BaseException):
            raise outcome
        at_once, just_before, just_after = outcome
        assert at_once.body == just_before.body == b"content", store
        assert (just_after.status, code_of(just_after)) == (403, "RequestTimeTooSkewed"), store


def _before_and_after(store: RunningStore, directory: Path) -> list[Answer]:
    """Use one signature at once, just before its end and just after."""
    owner = Owner(store)
    owner.must("PUT", BUCKET)
    owner.must("PUT", f"{BUCKET}/wh/t/file", body=b"content")
    owner.close()
    policy = policy_of(store, [BUCKET], {"main": {}}, [Grant("main", "db", "t", f"s3://{BUCKET}/wh/t")])
    with (
        run_server(directory, store, policy, signature_ttl=TTL) as server,
        client_of(server, store, ROUTE, Merge.JAVA, BUCKET) as client,
    ):
        signed_at = time.time()
        sent: Sent = client.prepare("GET", "wh/t/file")
        answers = []
        for moment in (0, TTL - BEFORE, TTL + AFTER):
            time.sleep(max(0.0, signed_at + moment - time.time()))
            answers.append(client.transmit(sent.wire))
        return answers
