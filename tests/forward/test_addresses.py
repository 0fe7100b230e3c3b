"""Where stores are called, and whose certificates are believed there."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
import pytest

from signproxy.errors import SettingsInvalid
from signproxy.forward.addresses import Address, StorageAddresses
from signproxy.forward.store_request import Resigner, StoreRequest
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style, aws_endpoints
from tests.authority import Authority
from tests.forward.rig import CREDENTIALS, Rig, connected, request, serving_rig, storage
from tests.forward.test_bodies import LARGE
from tests.forward.upstream import Upstream, serving


def at(scheme: str, authority: str, style: Style = Style.PATH) -> Storage:
    endpoint = S3Endpoint(scheme, authority, (style,))
    return Storage("store", StorageKind.S3_COMPATIBLE, "r", ("data",), (endpoint,))


@pytest.mark.parametrize(
    ("store", "host", "port", "shown"),
    (
        (at("http", "minio.local"), "minio.local", 80, "http://minio.local:80"),
        (at("http", "minio.local:9000"), "minio.local", 9000, "http://minio.local:9000"),
        (at("http", "[::1]:9000"), "::1", 9000, "http://[::1]:9000"),
        (at("http", "[::1]"), "::1", 80, "http://[::1]:80"),
        (at("https", "minio.local"), "minio.local", 443, "https://minio.local:443"),
        (at("http", "minio.local", Style.VIRTUAL_HOST), "data.minio.local", 80, "http://data.minio.local:80"),
        (
            Storage("aws", StorageKind.AWS, "eu-west-1", ("data",), aws_endpoints("eu-west-1")),
            "data.s3.eu-west-1.amazonaws.com",
            443,
            "https://data.s3.eu-west-1.amazonaws.com:443",
        ),
    ),
)
def test_each_bucket_has_its_address(store: Storage, host: str, port: int, shown: str) -> None:
    """Requests would go to another host, or to a port where nothing listens."""
    address = StorageAddresses().find(store, "data").address
    assert (address.host, address.port, str(address)) == (host, port, shown)


def test_an_address_is_kept_until_its_storage_changes() -> None:
    """Connections would not be found again; or a reload not bite."""
    addresses = StorageAddresses()
    first = at("https", "a.local")
    assert addresses.find(first, "data") is addresses.find(first, "data")
    assert addresses.find(first, "data").address == addresses.find(first, "other").address
    moved = msgspec.structs.replace(first, endpoints=at("https", "b.local").endpoints)
    assert addresses.find(moved, "data").address.host == "b.local"


def test_a_sidecar_before_plain_stores_reads_no_certificates() -> None:
    """Each start would cost the time and memory of the system's authorities."""
    addresses = StorageAddresses()
    addresses.find(at("http", "a.local"), "data")
    assert addresses._context is None


def test_certificates_are_always_verified() -> None:
    """Any host on the way could be the store."""
    context = StorageAddresses().find(at("https", "a.local"), "data").address.context
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("content", (None, b"", b"no certificate"))
def test_a_file_without_authorities_is_a_finding(tmp_path: Path, content: bytes | None) -> None:
    """Every store would be refused, or the system's authorities be believed instead."""
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsInvalid, match=r"s3\.upstream\.ca_file: .*ca\.pem"):
        StorageAddresses(str(file))


def served_by(authority: Authority, directory: Path, *names: str) -> ssl.SSLContext:
    authority.issue(*names).write(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    return context


async def test_a_store_with_a_certificate_of_ones_own_authority_is_served(tmp_path: Path) -> None:
    """No store inside a company could be used with TLS."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    tls = served_by(authority, tmp_path, "127.0.0.1")
    async with Upstream(serving(LARGE), tls=tls) as store:
        rig = Rig(storage(store.port, "https"))
        rig.ca_file = str(tmp_path / "ca.pem")
        rig.forwarder = rig.forwarder_now()
        async with serving_rig(rig), connected(rig) as client:
            for data in (request(), request("PUT", body=LARGE), request()):
                await client.send(data)
                _, body = await client.answer()
                assert body == LARGE
        assert store.connections == 1
        assert store.requests[1].body == LARGE


@pytest.mark.parametrize("fault", ("name", "authority", "plain"))
async def test_a_store_that_is_not_the_one_is_never_spoken_to(tmp_path: Path, fault: str) -> None:
    """A signed request, and the object in it, would go to the server that is there."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text((Authority() if fault == "authority" else authority).pem)
    tls = served_by(authority, tmp_path, "127.0.0.2" if fault == "name" else "127.0.0.1")
    async with Upstream(serving(b""), tls=None if fault == "plain" else tls) as store:
        rig = Rig(storage(store.port, "https"))
        rig.ca_file = str(tmp_path / "ca.pem")
        rig.forwarder = rig.forwarder_now()
        async with serving_rig(rig), connected(rig) as client:
            await client.send(request())
            assert (await client.answer())[1] == b"store_unavailable"
            assert rig.pool.open == 0
        assert not store.requests
        store.failures.clear()


def test_two_ways_of_trust_share_no_connection() -> None:
    """After the authorities were exchanged, a connection that the old ones vouched for would still be used."""
    first, second = (StorageAddresses().find(at("https", "a.local"), "data").address for _ in range(2))
    assert first != second
    assert first == Address(first.host, first.port, first.context)


def test_buckets_that_clients_name_do_not_pile_up() -> None:
    """A caller that may make buckets could fill the memory with names of them."""
    addresses = StorageAddresses()
    resigner = Resigner(addresses)
    store = at("http", "a.local")
    asked = StoreRequest(
        method="GET", target="/", path="/", query="", headers=(), signed=(), payload="UNSIGNED-PAYLOAD"
    )
    for number in range(3000):
        destination = addresses.find(store, f"b{number}")
        assert destination.address.host == "a.local"
        assert b"Host: a.local\r\n" in resigner.find(store, f"b{number}", CREDENTIALS).head(asked, 0)
    assert len(addresses._destinations) <= 1024
    assert len(resigner._signers) <= 1024
