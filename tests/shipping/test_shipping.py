"""A segment is deleted here only once it is proved to be there, whatever store, network and process do meanwhile."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from signproxy.audit.segment import ROOT
from signproxy.audit.segments import sealed_below
from signproxy.credentials.credentials import Credentials
from signproxy.errors import Reason, Refused, SettingsInvalid
from signproxy.shipping import shipper as shipper_module
from signproxy.shipping.shipper import Shipper
from signproxy.shipping.store import SegmentStore, ShippingFailed, Target, sums_of
from tests.audit.segment_rig import Life, faults
from tests.audit.sinks import segment_files
from tests.authority import Authority
from tests.shipping.strict_store import BUCKET, Fault, StrictStore, answers, hangs_up, strict_store, works
from tests.waiting import turns, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon; how long the pauses are is no part of the promise."""
    for name, seconds in (("POLL_SECONDS", 0.05), ("FIRST_PAUSE", 0.01), ("LAST_PAUSE", 0.05), ("END_PAUSE", 0.01)):
        monkeypatch.setattr(shipper_module, name, seconds)


@pytest.fixture
async def store() -> AsyncIterator[StrictStore]:
    async with strict_store() as made:
        yield made


def client(store: StrictStore, prefix: str = "prod/eu=1/") -> SegmentStore:
    return SegmentStore(Target("lake", BUCKET, prefix), lambda: [store.storage], store.credentials)


def ship(directory: Path, store: StrictStore) -> Shipper:
    shipper = Shipper(directory, client(store))
    shipper.start()
    return shipper


async def test_what_is_sealed_is_shipped_and_deleted(tmp_path: Path, store: StrictStore) -> None:
    """The volume of a pod would fill up, or go with it."""
    life = Life(tmp_path)
    paths = [life.rotate(), life.rotate()]
    wanted = {f"prod/eu=1/{ROOT}/{path.parent.name}/{path.name}": path.read_bytes() for path in paths}
    life.write(1)
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 2)
    assert store.objects == wanted
    assert sealed_below(tmp_path) == []
    # What is being written stays.
    assert [path.name[0] for path in segment_files(tmp_path)] == ["."]
    assert (shipper.state.waiting, shipper.state.waiting_bytes, shipper.state.problem) == (0, 0, "")
    life.sink.close()
    assert await shipper.finish(5) == 0
    assert len(store.objects) == 3


async def test_a_storage_that_moves_to_https_is_shipped_to_without_a_restart(
    tmp_path: Path, store: StrictStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change of the policy no segment would arrive any more: the old connections believe no authority."""
    authority = Authority()
    authority.issue().write(tmp_path)
    (tmp_path / "ca.pem").write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    # What a serving process imports: a context that trusts no authority.
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    life = Life(tmp_path / "spool")
    path = life.rotate()
    async with strict_store(tls) as secure:
        stores = [store]
        shipped = SegmentStore(Target("lake", BUCKET), lambda: [stores[-1].storage], store.credentials)
        await shipped.put("plain", path, sums_of(path))
        stores.append(secure)
        await shipped.put("secure", path, sums_of(path))
        await shipped.aclose()
        assert (list(store.objects), list(secure.objects)) == (["plain"], ["secure"])
    life.sink.close()


async def test_what_was_shipped_can_be_verified_where_it_is(tmp_path: Path, store: StrictStore) -> None:
    """A copy that differs by one byte proves nothing any more."""
    life = Life(tmp_path / "spool")
    life.rotate()
    life.rotate()
    life.sink.close()
    shipper = ship(tmp_path / "spool", store)
    assert await shipper.finish(5) == 0
    for key, content in store.objects.items():
        path = tmp_path / "copy" / key.removeprefix("prod/eu=1/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert faults(tmp_path / "copy") == set()
    assert len(sealed_below(tmp_path / "copy")) == 2


@pytest.mark.parametrize(
    "faults",
    (
        [answers(500)],
        [answers(503, "SlowDown"), answers(503, "SlowDown")],
        [answers(403, "AccessDenied")],
        [answers(404, "NoSuchBucket")],
        [answers(301, "PermanentRedirect")],
        [answers(409, "ConditionalRequestConflict"), answers(404)],
        [hangs_up],
        [hangs_up, answers(500), hangs_up],
        # It has the object, and no answer said so.
        [works, answers(500)],
    ),
)
async def test_a_store_that_fails_is_tried_again(tmp_path: Path, store: StrictStore, faults: list[Fault]) -> None:
    """An outage of minutes would leave a hole in the archive for ever."""
    store.faults = list(faults)
    life = Life(tmp_path)
    path = life.rotate()
    content = path.read_bytes()
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 1)
    assert list(store.objects.values()) == [content]
    assert not path.exists()
    assert shipper.state.problem == ""
    await shipper.finish(1)


async def test_nothing_is_deleted_while_nothing_is_proved(tmp_path: Path, store: StrictStore) -> None:
    """An answer of 200 from whatever stands between would be the end of the segment."""
    store.etag = store.checksums = False
    life = Life(tmp_path)
    path = life.rotate()

    def swallow() -> None:
        store.objects.clear()

    store.after_put = swallow
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.failures > 2)
    assert path.exists()
    assert shipper.state.waiting == 1
    assert shipper.state.waiting_since == pytest.approx(time.time(), abs=60)
    assert shipper.state.problem == "the store answered 404 to HEAD"
    store.after_put = lambda: None
    await until(lambda: shipper.state.shipped == 1)
    assert not path.exists()
    await shipper.finish(1)


@pytest.mark.parametrize(("etag", "checksums", "asked"), ((True, False, 1), (False, True, 1), (False, False, 3)))
async def test_a_store_may_say_what_it_has_in_its_own_way(
    tmp_path: Path, store: StrictStore, etag: bool, checksums: bool, asked: int
) -> None:
    """With encryption by KMS an ETag is no digest; other stores know no checksums: their segments would pile up."""
    store.etag, store.checksums = etag, checksums
    Life(tmp_path).rotate()
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 1)
    assert len(store.asked) == asked
    await shipper.finish(1)


@pytest.mark.parametrize("proof", (True, False))
async def test_a_segment_that_is_there_already_is_compared(tmp_path: Path, store: StrictStore, proof: bool) -> None:
    """A process that ended between upload and deletion would leave its segment here for ever."""
    store.etag = store.checksums = proof
    path = Life(tmp_path).rotate()
    key = f"prod/eu=1/{ROOT}/{path.parent.name}/{path.name}"
    store.objects[key] = path.read_bytes()
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 1)
    assert [method for method, _ in store.asked] == ["PUT", "HEAD", *([] if proof else ["GET"])]
    assert not path.exists()
    await shipper.finish(1)


@pytest.mark.parametrize("other", (b"shorter", None))
async def test_another_object_is_never_replaced_and_holds_up_nothing(
    tmp_path: Path, store: StrictStore, other: bytes | None
) -> None:
    """Who can write to the bucket would have evidence deleted by putting something else in its place."""
    life = Life(tmp_path)
    first, second = life.rotate(), life.rotate()
    key = f"prod/eu=1/{ROOT}/{first.parent.name}/{first.name}"
    store.objects[key] = held = b"x" * first.stat().st_size if other is None else other
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 1 and shipper.state.failures)
    assert first.exists()
    assert not second.exists()
    assert store.objects[key] == held
    assert shipper.state.problem == f"another object is there under the name {key!r}"
    assert await shipper.finish(1) == 1


async def test_a_store_without_conditions_is_asked_without(tmp_path: Path, store: StrictStore) -> None:
    """Nothing could be shipped to it at all."""
    store.faults = [answers(501, "NotImplemented")]
    life = Life(tmp_path)
    life.rotate()
    life.rotate()
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 2)
    assert [method for method, _ in store.asked] == ["PUT"] * 3
    await shipper.finish(1)


async def test_two_processes_ship_each_segment_once(tmp_path: Path, store: StrictStore) -> None:
    """Workers share a directory: they would upload everything as often as there are workers."""
    lives = [Life(tmp_path) for _ in range(4)]
    for life in lives:
        life.rotate()
    shippers = [ship(tmp_path, store) for _ in range(3)]
    await until(lambda: not sealed_below(tmp_path))
    for shipper in shippers:
        assert await shipper.finish(5) == 0
    assert len(store.objects) == 4
    assert len([method for method, _ in store.asked if method == "PUT"]) == 4
    assert sum(shipper.state.shipped for shipper in shippers) == 4


async def test_what_another_process_sealed_last_is_shipped_by_the_one_that_ends_later(
    tmp_path: Path, store: StrictStore
) -> None:
    """The pod ends: what the lock's holder left would go with the volume."""
    first, second = ship(tmp_path, store), ship(tmp_path, store)
    life = Life(tmp_path)
    assert await first.finish(5) == 0
    life.rotate()
    assert await second.finish(5) == 0
    assert len(store.objects) == 1


async def test_a_store_that_is_down_does_not_hold_up_the_end(tmp_path: Path, store: StrictStore) -> None:
    """Kubelet would kill the server before it has closed anything else."""
    store.faults = [answers(500)] * 10_000
    path = Life(tmp_path).rotate()
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.failures)
    began = time.monotonic()
    assert await shipper.finish(0.3) == 1
    assert time.monotonic() - began < 5
    assert path.exists()
    # The next start goes on with it.
    store.faults.clear()
    again = ship(tmp_path, store)
    assert await again.finish(5) == 0


async def test_a_link_in_the_spool_is_not_followed(tmp_path: Path, store: StrictStore) -> None:
    """Who may write there would have the server's own keys uploaded."""
    life = Life(tmp_path / "spool")
    path = life.rotate()
    other = path.with_name(path.name.replace("pod-0", "pod-1"))
    (tmp_path / "secret").write_text("key")
    other.symlink_to(tmp_path / "secret")
    os.mkfifo(path.with_name(path.name.replace("pod-0", "pod-2")))
    shipper = ship(tmp_path / "spool", store)
    await until(lambda: shipper.state.shipped == 1 and shipper.state.failures >= 2)
    assert len(store.objects) == 1
    await shipper.finish(0.1)
    assert (tmp_path / "secret").exists()


async def test_a_day_that_is_over_leaves_no_empty_directory(tmp_path: Path, store: StrictStore) -> None:
    """A year later each look at the spool would walk through hundreds of them."""
    path = Life(tmp_path).rotate()
    old = path.parent.with_name("dt=2020-01-01")
    path.parent.rename(old)
    shipper = ship(tmp_path, store)
    await until(lambda: shipper.state.shipped == 1)
    assert not old.exists()
    await shipper.finish(1)


async def test_a_seal_is_heard_of_at_once(tmp_path: Path, store: StrictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that ends hard a second later takes the segment along."""
    monkeypatch.setattr(shipper_module, "POLL_SECONDS", 1000.0)
    shipper = ship(tmp_path, store)
    await turns()
    path = Life(tmp_path).rotate()
    await asyncio.to_thread(shipper.sealed, path)
    await until(lambda: shipper.state.shipped == 1)
    await shipper.finish(1)


async def test_a_storage_that_the_policy_lost_is_told(tmp_path: Path) -> None:
    """Segments pile up, without a reason in sight."""
    path = Life(tmp_path).rotate()
    nowhere = SegmentStore(Target("lake", BUCKET), list, _no_credentials)
    with pytest.raises(ShippingFailed, match="no catalog of the policy has the storage 'lake'"):
        await nowhere.put("name", path, sums_of(path))
    await nowhere.aclose()


async def test_credentials_that_are_missing_are_told(tmp_path: Path, store: StrictStore) -> None:
    """A provider that is down is the usual reason, and is to be seen as such."""
    path = Life(tmp_path).rotate()
    unsigned = SegmentStore(Target("lake", BUCKET), lambda: [store.storage], _no_credentials)
    with pytest.raises(ShippingFailed, match="storage 'lake': expired"):
        await unsigned.put("name", path, sums_of(path))
    await unsigned.aclose()
    assert store.asked == []


def test_certificates_that_are_none_are_an_error_of_the_start(tmp_path: Path) -> None:
    """It would be one of the first segment, at night."""
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(SettingsInvalid, match=r"audit\.ship\.ca_file"):
        SegmentStore(Target("lake", BUCKET, ca_file=str(tmp_path / "ca.pem")), list, _no_credentials)


def _no_credentials(*_: object) -> Credentials:
    raise Refused(Reason.CREDENTIALS_UNAVAILABLE, "storage 'lake': expired")
