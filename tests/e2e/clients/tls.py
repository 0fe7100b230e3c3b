"""Put TLS before a store: over https, SDKs send other uploads than over http. Run as a module, it is the front."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.stores.process import Server, free_ports, listens

_READ = 64 * 1024


@dataclass(frozen=True, slots=True)
class TlsFront:
    """A port that speaks TLS and passes on what it hears, byte for byte."""

    port: int
    certificate: Path
    """What a client has to trust."""

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"https://{self.authority}"


@contextmanager
def run_tls_front(directory: Path, target: int) -> Iterator[TlsFront]:
    """Run a front for a port on loopback until the block ends."""
    certificate = directory / "tls.pem"
    certificate.write_bytes(_self_signed())
    (port,) = free_ports(1)
    server = Server.of_module("tls-front", __name__, (str(certificate), str(port), str(target)), directory)
    try:
        server.wait_until(lambda: listens(port))
        yield TlsFront(port, certificate)
    finally:
        server.stop()


def _self_signed() -> bytes:
    """Return key and certificate of an authority that vouches for itself alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "store under test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private + certificate.public_bytes(encoding)


async def _relay(certificate: str, port: int, target: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await source.read(_READ):
                sink.write(content)
                await sink.drain()
        sink.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(pump(reader, behind_writer), pump(behind_reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_relay(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
