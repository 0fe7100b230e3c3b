"""Use signatures until they end, beside all other tests: nothing is done for a minute but to wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.e2e.client import Merge, Sent, client_of
from tests.e2e.server import Grant, policy_of, run_server
from tests.e2e.stores import RunningStore
from tests.e2e.stores.direct import Owner
from tests.e2e.wire import Answer

TTL = 60
"""The shortest life that can be set."""
BUCKET = "ttl"
ROUTE = "/s3-sign/v1/main/namespaces/db/tables/t"

# The date in a signature has whole seconds, the store rounds too, and the machine may be busy.
BEFORE = 5
AFTER = 3


class EndingSignatures:
    """One signature for each store, which is used at once, just before its end and just after."""

    def __init__(self, stores: list[RunningStore], directory: Path) -> None:
        self._found: dict[str, list[Answer] | BaseException] = {}
        self._threads = [threading.Thread(target=self._prove, args=(store, directory / store.name)) for store in stores]
        for thread in self._threads:
            thread.start()

    def outcomes(self) -> dict[str, list[Answer]]:
        """Wait for the end of all of them; return the answers of each store."""
        self.join()
        answers: dict[str, list[Answer]] = {}
        for name, found in self._found.items():
            if isinstance(found, BaseException):
                raise found
            answers[name] = found
        return answers

    def join(self) -> None:
        """Wait for the end of all of them."""
        for thread in self._threads:
            thread.join()

    def _prove(self, store: RunningStore, directory: Path) -> None:
        try:
            self._found[store.name] = _before_and_after(store, directory)
        except BaseException as error:  # noqa: BLE001  # raised again by the test's own thread
            self._found[store.name] = error


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
