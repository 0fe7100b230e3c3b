"""Draw requests, have them signed, send what was signed, and judge each answer."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.e2e.containment.draft import Desk, Draft, OwnUpload
from tests.e2e.containment.hostile import change
from tests.e2e.containment.oracle import allowed_tables, is_signature_error, leaks, smuggled
from tests.e2e.containment.world import READABLE, WRITABLE, World
from tests.e2e.server import Signer, SignServer
from tests.e2e.stores import RunningStore
from tests.e2e.stores.contents import parse
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer, Wire
from tests.verifier import VerificationError, WireHttp, as_java, as_pyiceberg

HOSTILE_SHARE = 0.5
"""Half of the requests are honest, so that a signer which refuses everything cannot pass."""

MAX_UPLOADS = 6
"""Unfinished uploads that a worker keeps per table; older ones are ended by the owner."""

MAX_FAILURES = 5
"""Failures that are shown; a broken rule breaks everywhere."""

MERGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], WireHttp]] = {"java": as_java, "pyiceberg": as_pyiceberg}


@dataclass(slots=True)
class Tally:
    """What a run did, so that it can be told from one that did nothing."""

    asked: int = 0
    signed: int = 0
    sent: int = 0
    executed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(operation, client) -> honest requests that the store carried out."""
    hostile_signed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    store_errors: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another worker's numbers in."""
        self.asked += other.asked
        self.signed += other.signed
        self.sent += other.sent
        self.executed += other.executed
        self.hostile_signed += other.hostile_signed
        self.refused += other.refused
        self.store_errors += other.store_errors
        self.failures += other.failures


class Worker:
    """One client: a seed, a connection to signproxy, one to the store, one as the owner who looks after it."""

    def __init__(self, name: str, seed: str, world: World, server: SignServer) -> None:
        self.tally = Tally()
        self._name = f"seed {seed!r}, worker {name}"
        self._chance = Random(f"{seed} {name}")
        self._world = world
        self._desk = Desk(self._chance, world.store)
        self._desk.use_tables(READABLE, WRITABLE)
        self._signer = Signer(server)
        self._wire = Wire(world.store.port)
        self._owner = Owner(world.store)

    def close(self) -> None:
        """Close the connections."""
        self._signer.close()
        self._wire.close()
        self._owner.close()

    def step(self) -> None:
        """Ask for one signature and use it."""
        draft = self._desk.honest()
        if self._chance.random() < HOSTILE_SHARE:
            change(self._desk, self._world, draft)
        message = draft.message()
        self.tally.asked += 1
        answer = self._signer.ask(draft.route, message, token=draft.token)
        if answer.ok:
            self.tally.signed += 1
            if draft.family != "honest":
                self.tally.hostile_signed[draft.family] += 1
            self._use(draft, message, json.loads(answer.body))
        else:
            self._refused(draft, message, answer)

    def _refused(self, draft: Draft, message: dict[str, Any], answer: Answer) -> None:
        self.tally.refused[f"{answer.status} {draft.operation if draft.family == 'honest' else draft.family}"] += 1
        if answer.status not in (400, 401, 403, 404, 405, 413):
            self._fail(draft, message, f"signproxy answered {answer.status} {answer.body[:300]!r}")
        elif draft.family == "honest":
            self._fail(draft, message, f"an honest request was refused: {answer.status} {answer.body[:300]!r}")

    def _use(self, draft: Draft, message: dict[str, Any], signed: dict[str, Any]) -> None:
        # Each client's way goes first in half of the cases: what changes the store succeeds only once.
        for client in self._chance.sample(list(MERGES), 2):
            try:
                wire = MERGES[client](message, signed)
            except VerificationError as error:
                self._fail(draft, message, f"{client}: {error}")
                continue
            wire = replace(wire, body=draft.content, headers=_framed(wire.headers, draft))
            answer = self._wire.send(wire)
            self.tally.sent += 1
            if answer.ok and draft.family == "honest":
                self.tally.executed[(draft.operation, client)] += 1
            if not answer.ok and answer.status >= 400:
                self.tally.store_errors[f"{answer.status} {code_of(answer)} {draft.operation}"] += 1
            if is_signature_error(answer) and not _asks_for_refusal(draft, self._world.store):
                self._fail(draft, message, f"{client}: the store answered {answer.status} {answer.body[:600]!r}", wire)
            for leak in leaks(answer, allowed_tables(draft.route)):
                self._fail(draft, message, f"{client}: the answer shows {leak}", wire)
            if answer.ok:
                self._look_after(draft, message, signed, answer)

    def _look_after(self, draft: Draft, message: dict[str, Any], signed: dict[str, Any], answer: Answer) -> None:
        """Check what a copy wrote, and keep book of uploads."""
        path = unquote(urlsplit(signed["uri"]).path)
        bucket, _, key = (
            path[1:].partition("/")
            if f"/{draft.bucket}" in path[: len(draft.bucket) + 1]
            else (draft.bucket, "", path[1:])
        )
        copies = any(name.lower() == "x-amz-copy-source" for name in draft.headers)
        if copies or draft.operation == "CompleteMultipartUpload":
            for finding in smuggled(self._owner, bucket, key):
                self._fail(draft, message, finding)
        if b"<InitiateMultipartUploadResult" in answer.body[:300]:
            begun = OwnUpload(parse(answer.body).findtext("Key") or "", parse(answer.body).findtext("UploadId") or "")
            self._remember(draft, bucket, begun)
        elif draft.upload is not None:
            self._note_part(draft, signed["uri"], answer)

    def _note_part(self, draft: Draft, uri: str, answer: Answer) -> None:
        """Keep book of an upload's parts and of its end, whatever the draft was turned into."""
        asked = parse_qs(urlsplit(uri).query)
        uploads = self._desk.uploads.get(draft.table.name, [])
        for upload in uploads:
            if asked.get("uploadId") != [upload.upload_id]:
                continue
            if draft.method == "PUT" and "partNumber" in asked:
                etag = answer.headers.get("etag") or (parse(answer.body).findtext("ETag") if answer.body else "") or ""
                upload.parts[int(asked["partNumber"][0])] = etag.strip('"')
            elif draft.method in ("POST", "DELETE"):
                uploads.remove(upload)
                break

    def _remember(self, draft: Draft, bucket: str, begun: OwnUpload) -> None:
        """Keep an upload for later requests, or end it: a run must not fill the store."""
        uploads = self._desk.uploads.setdefault(draft.table.name, [])
        ended = begun
        if draft.family == "honest":
            uploads.append(begun)
            if len(uploads) <= MAX_UPLOADS:
                return
            ended = uploads.pop(0)
        self._owner.ask("DELETE", f"{bucket}/{ended.key}", f"uploadId={quote(ended.upload_id, safe='~')}")

    def _fail(self, draft: Draft, message: dict[str, Any], what: str, wire: WireHttp | None = None) -> None:
        self.tally.failures.append(
            f"{what}\n  {self._name}, request {self.tally.asked}, {draft.operation}, {draft.family}\n"
            f"  POST {draft.route}\n  {json.dumps(message)}\n  sent: {wire}"
        )


def run(world: World, server: SignServer, *, seed: str, requests: int, workers: int) -> Tally:
    """Let workers share a number of requests; stop early once enough has failed."""
    total = Tally()
    crashes: list[BaseException] = []
    lock = threading.Lock()

    def work(name: int) -> None:
        worker = Worker(str(name), seed, world, server)
        try:
            for _ in range(requests // workers):
                worker.step()
                if len(worker.tally.failures) >= MAX_FAILURES or crashes:
                    break
        except BaseException as crash:  # noqa: BLE001  # handed to the test's own thread below
            crashes.append(crash)
        finally:
            worker.close()
            with lock:
                total.add(worker.tally)

    threads = [threading.Thread(target=work, args=(name,), name=f"worker-{name}") for name in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if crashes:
        raise crashes[0]
    return total


def _framed(headers: tuple[tuple[str, str], ...], draft: Draft) -> tuple[tuple[str, str], ...]:
    """Let the length fit the body, as every HTTP client does: a draft may have been given another one."""
    kept = tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in ("content-length", "transfer-encoding", "expect")
    )
    return (*kept, ("Content-Length", str(len(draft.content)))) if draft.method in ("PUT", "POST") else kept


def _asks_for_refusal(draft: Draft, store: RunningStore) -> bool:
    """Say whether a store has to refuse the request although its signature is right."""
    names = {name.lower() for name in draft.headers}
    if store.traits.verifies_as_forwarded and "x-forwarded-host" in names:
        return True
    # The hash of another body was announced, or the bucket should belong to another account.
    return (
        "swapped" in draft.family
        or "payload mode" in draft.family
        or any(name.endswith("expected-bucket-owner") for name in names)
        or (
            any(re.fullmatch("[0-9a-fA-F]{64}", value) for value in draft.headers.get("x-amz-content-sha256", ()))
            and draft.family != "honest"
        )
    )
