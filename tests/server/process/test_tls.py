"""TLS of listeners: certificates are checked before they are served, and replaced while connections are open."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from signproxy.config.fields import TlsSettings
from signproxy.errors import SettingsInvalid
from signproxy.server.process.tls import MAX_PEM_BYTES, CertificateHolder
from tests.authority import DAY, NOW, Authority, Pair, ec_key, pem_of, swap
from tests.server.api.rig import Client, Slow, serving

REFUSED = (ssl.SSLError, ConnectionResetError)
"""What a client sees of a handshake that fails; event loops differ in whether they send the reason."""


def settings_of(directory: Path) -> TlsSettings:
    return TlsSettings(cert_file=str(directory / "tls.crt"), key_file=str(directory / "tls.key"))


def rotate(holder: CertificateHolder, directory: Path) -> None:
    holder.commit(holder.prepare(settings_of(directory)))


def problem_of(directory: Path) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        CertificateHolder(settings_of(directory))
    (finding,) = caught.value.findings
    return str(finding).replace(str(directory), "DIR")


def test_requests_are_answered_through_tls(
    run: Callable[[Awaitable[None]], None], authority: Authority, tmp_path: Path
) -> None:
    """Tokens would travel in the clear, or no request would be answered."""
    pair = authority.issue()
    holder = CertificateHolder(settings_of(pair.write(tmp_path)))

    async def scenario() -> None:
        async with serving(certificate=holder) as listener:
            client = await Client.connect(listener.addresses[0], authority.trusting(alpn=["h2", "http/1.1"]))
            assert client.serial == pair.serial
            assert client.tls.selected_alpn_protocol() == "http/1.1"
            assert client.tls.version() == "TLSv1.3"
            # Both ways through the server: within the connection, and through aiohttp.
            assert await client.post("/at-once", b"a") == b"at once a"
            assert await client.post("/", b"b" * 100_000) == b"read " + b"b" * 100_000
            await client.close()

    run(scenario())


def test_a_rotation_leaves_open_connections_alone(
    run: Callable[[Awaitable[None]], None], authority: Authority, tmp_path: Path
) -> None:
    """Each rotation would break what is under way, or be seen after a restart only."""
    pairs = [authority.issue() for _ in range(4)]
    swap(tmp_path, pairs[0])
    holder = CertificateHolder(settings_of(tmp_path))

    async def scenario() -> None:
        async with serving(certificate=holder) as listener:
            tls = authority.trusting()
            clients = []
            for number, pair in enumerate(pairs):
                if number:
                    swap(tmp_path, pair)
                    rotate(holder, tmp_path)
                client = await Client.connect(listener.addresses[0], tls)
                clients.append(client)
                assert [each.serial for each in clients] == [each.serial for each in pairs[: number + 1]]
                assert [await each.post("/at-once") for each in clients] == [b"at once x"] * len(clients)
            for client in clients:
                await client.close()

    run(scenario())


def test_a_change_of_the_kind_of_key_leaves_nothing_of_the_old(
    run: Callable[[Awaitable[None]], None], authority: Authority, tmp_path: Path
) -> None:
    """OpenSSL keeps one certificate for each kind of key: clients that prefer the old one would see it expire."""
    old = authority.issue(key=rsa.generate_private_key(65537, 2048))
    new = authority.issue()
    holder = CertificateHolder(settings_of(old.write(tmp_path)))

    async def scenario() -> None:
        async with serving(certificate=holder) as listener:
            only_rsa = authority.trusting()
            only_rsa.maximum_version = ssl.TLSVersion.TLSv1_2
            only_rsa.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
            client = await Client.connect(listener.addresses[0], only_rsa)
            assert client.serial == old.serial
            await client.close()
            new.write(tmp_path)
            rotate(holder, tmp_path)
            with pytest.raises(REFUSED):
                await Client.connect(listener.addresses[0], only_rsa)
            client = await Client.connect(listener.addresses[0], authority.trusting())
            assert client.serial == new.serial
            await client.close()

    run(scenario())


def test_what_cannot_be_served_leaves_the_old_pair_served(
    run: Callable[[Awaitable[None]], None], authority: Authority, tmp_path: Path
) -> None:
    """One wrong file would end every new connection, although the old pair is good for months."""
    good, new = authority.issue(), authority.issue()
    holder = CertificateHolder(settings_of(good.write(tmp_path)))
    bad = {
        # Measured: loaded into a context that serves, it makes every later handshake fail.
        "new certificate, old key": Pair(new.chain, good.key),
        "old certificate, new key": Pair(good.chain, new.key),
        "garbage key": Pair(new.chain, b"garbage"),
        "half a key": Pair(new.chain, new.key[: len(new.key) // 2]),
        "half a certificate": Pair(new.chain[: len(new.chain) // 2], new.key),
        "empty": Pair(b"", b""),
        "encrypted": authority.issue(passphrase=b"secret"),
        "ended": authority.issue(begins=-2 * DAY, ends=-DAY),
    }

    async def scenario() -> None:
        async with serving(certificate=holder) as listener:
            for name, pair in bad.items():
                pair.write(tmp_path)
                with pytest.raises(SettingsInvalid):
                    holder.prepare(settings_of(tmp_path))
                client = await Client.connect(listener.addresses[0], authority.trusting())
                assert client.serial == good.serial, name
                assert await client.post("/at-once") == b"at once x"
                await client.close()
            new.write(tmp_path)
            rotate(holder, tmp_path)
            client = await Client.connect(listener.addresses[0], authority.trusting())
            assert client.serial == new.serial
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    ("chain", "key", "problem"),
    (
        ("good", "other", "listen.tls.key_file: 'DIR/tls.key' is not the private key of the first certificate in"),
        ("rsa", "good", "listen.tls.key_file: 'DIR/tls.key' is not the private key of the first certificate in"),
        ("good", "encrypted", "listen.tls.key_file: 'DIR/tls.key' is encrypted, and the server cannot ask for its"),
        ("good", "legacy", "listen.tls.key_file: 'DIR/tls.key' is encrypted, and the server cannot ask for its"),
        ("good", "garbage", "listen.tls.key_file: 'DIR/tls.key' holds no private key (PEM)"),
        ("good", "half", "listen.tls.key_file: 'DIR/tls.key' and 'DIR/tls.crt' cannot be used: "),
        ("good", "good chain", "listen.tls.key_file: 'DIR/tls.key' holds no private key (PEM)"),
        ("garbage", "good", "listen.tls.cert_file: 'DIR/tls.crt' holds no certificate, or one that is cut off"),
        ("half", "good", "listen.tls.cert_file: 'DIR/tls.crt' holds no certificate, or one that is cut off"),
        ("good", "missing", "listen.tls.key_file: 'DIR/tls.key' cannot be read: No such file or directory"),
        ("missing", "good", "listen.tls.cert_file: 'DIR/tls.crt' cannot be read: No such file or directory"),
        ("large", "good", "listen.tls.cert_file: 'DIR/tls.crt' cannot be read: it is larger than"),
        ("ended", "ended", "listen.tls.cert_file: 'DIR/tls.crt' ended at YESTERDAY"),
        ("weak", "weak", "listen.tls.key_file: 'DIR/tls.key' and 'DIR/tls.crt' cannot be used: EE_KEY_TOO_SMALL"),
    ),
)
def test_each_fault_is_told_in_words(chain: str, key: str, problem: str, authority: Authority, tmp_path: Path) -> None:
    """An operator would read an error code of OpenSSL."""
    good, encrypted = authority.issue(), authority.issue(passphrase=b"x")
    ended = authority.issue(begins=-2 * DAY, ends=-DAY)
    weak = authority.issue(key=rsa.generate_private_key(65537, 1024))  # noqa: S505 - it is to be refused
    chains = {
        "good": good.chain,
        "rsa": authority.issue(key=rsa.generate_private_key(65537, 2048)).chain,
        "garbage": b"garbage",
        "half": good.chain[:-100],
        "large": good.chain + b"#" * MAX_PEM_BYTES,
        "ended": ended.chain,
        "weak": weak.chain,
    }
    keys = {
        "good": good.key,
        "other": pem_of(ec_key()),
        "encrypted": encrypted.key,
        "legacy": b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n",
        "garbage": b"garbage",
        "half": good.key[:-60],
        "good chain": good.chain,
        "ended": ended.key,
        "weak": weak.key,
    }
    if chain in chains:
        (tmp_path / "tls.crt").write_bytes(chains[chain])
    if key in keys:
        (tmp_path / "tls.key").write_bytes(keys[key])
    told = problem_of(tmp_path)
    # Not in the parameter itself: test runners in parallel compare the names of tests, a second apart.
    assert told.startswith(problem.replace("YESTERDAY", (NOW - DAY).isoformat()))
    assert "BEGIN" not in told


def test_a_terminal_is_never_asked_for_a_passphrase(authority: Authority, tmp_path: Path) -> None:
    """A start from a shell would wait for ever, and a reload would hang."""
    # A key in which nothing says that it is encrypted but its own structure.
    encrypted = authority.issue(passphrase=b"x").write(tmp_path)
    key = (encrypted / "tls.key").read_bytes().replace(b"ENCRYPTED PRIVATE", b"PRIVATE")
    (tmp_path / "tls.key").write_bytes(key)
    assert problem_of(tmp_path).startswith("listen.tls.key_file: 'DIR/tls.key' and 'DIR/tls.crt' cannot be used")


def test_both_files_may_be_one(authority: Authority, tmp_path: Path) -> None:
    """Files as HAProxy and others have them would not be read."""
    pair = authority.issue()
    file = tmp_path / "both.pem"
    file.write_bytes(pair.chain + pair.key)
    holder = CertificateHolder(TlsSettings(cert_file=str(file), key_file=str(file)))
    assert holder.current.expires_at == (NOW + 90 * DAY).timestamp()


def test_the_key_that_is_named_counts(authority: Authority, tmp_path: Path) -> None:
    """An old key that was left in the certificate's file would be used instead."""
    pair = authority.issue()
    Pair(pair.chain + pem_of(ec_key()), pair.key).write(tmp_path)
    assert CertificateHolder(settings_of(tmp_path)).current.names == ("localhost", "127.0.0.1")


def test_a_system_without_anonymous_files_gets_a_passing_one(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Mac could not serve TLS; or a copy of the key would stay on the disk."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    passing = tmp_path / "passing"
    passing.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(passing))
    CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    assert [*passing.iterdir()] == []


@pytest.mark.parametrize(("missing", "told"), (("cert_file", "cert_file"), ("key_file", "key_file")))
def test_both_files_are_needed(missing: str, told: str, authority: Authority, tmp_path: Path) -> None:
    """A reload that drops one would fail with a riddle."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    names = {"cert_file": str(tmp_path / "tls.crt"), "key_file": str(tmp_path / "tls.key"), missing: ""}
    with pytest.raises(SettingsInvalid, match=f"listen.tls.{told}: this key is missing"):
        holder.prepare(TlsSettings(**names))


def test_a_served_certificate_that_ends_does_not_stand_in_the_way(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant could not be revoked anymore from the hour in which the certificate ends."""
    import datetime as datetime_module

    from signproxy.server.process import tls as module

    class Later(datetime_module.datetime):
        @classmethod
        def now(cls, tz: datetime_module.tzinfo | None = None) -> Later:
            return cls.fromtimestamp(time() + (91 * DAY).total_seconds(), tz)

    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    monkeypatch.setattr(module, "datetime", Later)
    served = holder.current
    assert holder.prepare(settings_of(tmp_path)) is served
    # A new one that has ended is none: the old one may be better.
    authority.issue(ends=89 * DAY).write(tmp_path)
    with pytest.raises(SettingsInvalid, match="ended at"):
        holder.prepare(settings_of(tmp_path))


def test_what_is_prepared_is_not_served_before_it_is_committed(authority: Authority, tmp_path: Path) -> None:
    """One worker would serve what another one refused."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)), section="admin")
    served, report = holder.current, holder.report("admin")
    assert report.expires_at == (NOW + 90 * DAY).timestamp()
    prepared = holder.prepare(settings_of(authority.issue(ends=60 * DAY).write(tmp_path)))
    assert holder.current is served
    assert holder.report("admin") == report
    holder.commit(prepared)
    assert holder.current is prepared
    assert holder.report("admin").expires_at == (NOW + 60 * DAY).timestamp()
    assert holder.report("admin").loaded_at > report.loaded_at
    # Committed again, it is no news.
    again = holder.report("admin")
    holder.commit(prepared)
    assert holder.report("admin") == again


def test_files_may_be_others_after_a_reload(authority: Authority, tmp_path: Path) -> None:
    """A certificate could not be moved without a restart."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path / "a")))
    rotate(holder, authority.issue(ends=60 * DAY).write(tmp_path / "b"))
    assert holder.report("listen").expires_at == (NOW + 60 * DAY).timestamp()


@pytest.mark.parametrize(
    ("pair", "warnings"),
    (
        ({}, []),
        ({"ends": 15 * DAY}, []),
        ({"begins": -86 * DAY, "ends": 13 * DAY}, [f"'DIR/tls.crt' ends at {(NOW + 13 * DAY).isoformat()}"]),
        # A certificate of a day is renewed every few hours.
        ({"begins": -0.5 * DAY, "ends": 0.5 * DAY}, []),
        ({"begins": -0.9 * DAY, "ends": 0.1 * DAY}, [f"'DIR/tls.crt' ends at {(NOW + 0.1 * DAY).isoformat()}"]),
        (
            {"begins": DAY},
            [f"'DIR/tls.crt' is not good before {(NOW + DAY).isoformat()}; clients refuse it"],
        ),
        ({"hosts": ("",)}, ["'DIR/tls.crt' names no host (subjectAltName); clients refuse it"]),
    ),
)
def test_what_is_good_enough_to_serve_may_be_worth_a_word(
    pair: dict[str, object], warnings: list[str], authority: Authority, tmp_path: Path
) -> None:
    """The end of a certificate would come as a surprise."""
    hosts = pair.pop("hosts", ())
    assert isinstance(hosts, tuple)
    issued = authority.issue(*hosts, **pair)  # type: ignore[arg-type]  # a table of keyword arguments
    found = CertificateHolder(settings_of(issued.write(tmp_path))).current.warnings
    assert [finding.what.replace(str(tmp_path), "DIR") for finding in found] == warnings
    assert all(finding.where == ("", "listen.tls.cert_file") for finding in found)
    pair["hosts"] = hosts


def test_a_chain_ends_with_its_first_certificate(authority: Authority, tmp_path: Path) -> None:
    """The metric would say months while clients refuse the chain."""
    holder = CertificateHolder(settings_of(authority.through(20 * DAY).write(tmp_path)))
    assert holder.current.expires_at == (NOW + 20 * DAY).timestamp()
    assert holder.current.warnings == ()
    ended = CertificateHolder(settings_of(authority.through(-DAY).write(tmp_path))).current
    assert ended.expires_at == (NOW - DAY).timestamp()
    (warning,) = ended.warnings
    expected = f"the chain holds 'CN=test intermediate', which ended at {(NOW - DAY).isoformat()}"
    assert warning.what == expected


@pytest.mark.parametrize(
    ("hosts", "asked", "covered"),
    (
        (("sign.example",), "sign.example", True),
        (("sign.example",), "SIGN.example.", True),
        (("sign.example",), "other.example", False),
        (("*.example",), "sign.example", True),
        (("*.example",), "a.sign.example", False),
        (("*.example",), "example", False),
        (("127.0.0.1", "::1"), "::1", True),
        (("127.0.0.1",), "127.0.0.2", False),
    ),
)
def test_a_certificate_covers_what_clients_would_accept(
    hosts: tuple[str, ...], asked: str, covered: bool, authority: Authority, tmp_path: Path
) -> None:
    """A warning about the wrong host would be wrong."""
    holder = CertificateHolder(settings_of(authority.issue(*hosts).write(tmp_path)))
    assert holder.current.covers(asked) is covered


@pytest.mark.parametrize(
    ("version", "ciphers", "accepted"),
    (
        (ssl.TLSVersion.TLSv1_3, "", True),
        (ssl.TLSVersion.TLSv1_2, "", True),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
        # No authenticated encryption.
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256", False),
        (ssl.TLSVersion.TLSv1_1, "DEFAULT@SECLEVEL=0", False),
    ),
)
async def test_old_tls_is_not_spoken(
    version: ssl.TLSVersion, ciphers: str, accepted: bool, authority: Authority, tmp_path: Path
) -> None:
    """A scan of the operator's would find what is broken since years."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    tls = authority.trusting()
    with pytest.warns(DeprecationWarning, match="TLSv1_1") if version < ssl.TLSVersion.TLSv1_2 else nullcontext():
        tls.minimum_version = tls.maximum_version = version
    if ciphers:
        tls.set_ciphers(ciphers)
    async with serving(certificate=holder) as listener:
        if accepted:
            client = await Client.connect(listener.addresses[0], tls)
            assert await client.post() == b"read x"
            await client.close()
        else:
            with pytest.raises(REFUSED):
                await Client.connect(listener.addresses[0], tls)


async def test_sessions_are_resumed_across_a_rotation(authority: Authority, tmp_path: Path) -> None:
    """Each connection of an engine would cost a full handshake."""
    first, second = authority.issue(), authority.issue()
    holder = CertificateHolder(settings_of(first.write(tmp_path)))

    def visit(address: str, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
        import socket

        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            tls.wrap_socket(plain, server_hostname=host, session=session) as client,
        ):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            while client.recv(4096):
                pass
            return client.session, client.session_reused

    tls = authority.trusting()
    async with serving(certificate=holder) as listener:
        session, reused = await asyncio.to_thread(visit, listener.addresses[0], None)
        assert not reused
        session, reused = await asyncio.to_thread(visit, listener.addresses[0], session)
        assert reused
        second.write(tmp_path)
        rotate(holder, tmp_path)
        _, reused = await asyncio.to_thread(visit, listener.addresses[0], session)
        assert reused
        client = await Client.connect(listener.addresses[0], tls)
        assert client.serial == second.serial
        await client.close()


async def test_plain_http_on_a_tls_port_harms_no_other(authority: Authority, tmp_path: Path) -> None:
    """A scanner would fill the log or end the server."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    async with serving(certificate=holder) as listener:
        stranger = await Client.connect(listener.addresses[0])
        await stranger.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b"HTTP/" not in await stranger.ended()
        await stranger.close()
        client = await Client.connect(listener.addresses[0], authority.trusting())
        assert await client.post() == b"read x"
        await client.close()


async def test_a_request_in_flight_is_answered_through_tls_at_the_end(authority: Authority, tmp_path: Path) -> None:
    """The last answers of a server that ends would be lost behind TLS alone."""
    holder = CertificateHolder(settings_of(authority.issue().write(tmp_path)))
    handler = Slow()
    handler.released.clear()
    async with serving(handler, holder) as listener:
        client = await Client.connect(listener.addresses[0], authority.trusting())
        request = asyncio.create_task(client.post())
        await handler.begun.wait()
        ending = asyncio.create_task(listener.finish(20))
        await asyncio.sleep(0)
        handler.released.set()
        assert await request == b"read x"
        assert await client.ended() == b""
        await ending
        await client.close()


SERVE = """
import asyncio, os, ssl, sys
from signproxy.server.process.lean import lean_imports
with lean_imports():
    from signproxy.config.fields import TlsSettings
    from signproxy.server.process.process_setup import harden
    from signproxy.server.process.tls import CertificateHolder
    from tests.server.api.rig import Client, serving
async def main():
    holder = CertificateHolder(TlsSettings(cert_file="{cert}", key_file="{key}"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_verify_locations("{ca}")
    async with serving(certificate=holder) as listener:
        client = await Client.connect(listener.addresses[0], tls)
        print((await client.post("/at-once")).decode())
        await client.close()
if os.getuid() == 0:
    # Once before, for whatever is imported lazily: the interpreter may lie where only root can read.
    harden()
    asyncio.run(main())
    os.setuid(65534)
harden()
asyncio.run(main())
"""


def test_a_lean_and_hardened_process_speaks_tls(authority: Authority) -> None:
    """What a start saves, or what hides the process from others, would cost every handshake."""
    with TemporaryDirectory() as name:
        directory = authority.issue().write(Path(name))
        (directory / "ca.crt").write_text(authority.pem)
        for each in (directory, *directory.iterdir()):
            each.chmod(0o755)
        code = SERVE.format(cert=directory / "tls.crt", key=directory / "tls.key", ca=directory / "ca.crt")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.endswith("at once x\n"), done.stderr
    assert "not hardened" not in done.stderr
