"""Certificates are renewed, and broken, under load: new handshakes get the new one, and no connection ends."""

from __future__ import annotations

import socket
import ssl
import time

import pytest
from cryptography import x509

from tests.e2e.faults.authority import Authority, Pair
from tests.e2e.faults.conftest import POLL_SECONDS, Deploy
from tests.e2e.faults.deployment import Deployment, Served, replace
from tests.e2e.faults.load import SIGNED, Load, Reuse

pytestmark = pytest.mark.ci


class Presented:
    """The files of a TLS listener, and what it shows."""

    def __init__(self, deployment: Deployment) -> None:
        self.authority = Authority()
        self.context = self.authority.trusting()
        self._deployment = deployment
        self._certificate = deployment.directory / "tls.crt"
        self._key = deployment.directory / "tls.key"
        self.write(self.authority.issue())
        tls = {"cert_file": str(self._certificate), "key_file": str(self._key)}
        deployment.set("listen", {"tls": tls})

    def write(self, pair: Pair, *, pause: float = 0.0) -> None:
        """Replace certificate, then key, as a careful program does: each in one step, both not."""
        replace(self._certificate, pair.certificate.decode())
        time.sleep(pause)
        replace(self._key, pair.key.decode(), mode=0o600)

    def write_key(self, text: str) -> None:
        """Replace the key alone."""
        replace(self._key, text, mode=0o600)

    def serial(self) -> int:
        """Return the serial number of what a new client is shown; it trusts it, too."""
        with (
            socket.create_connection(("127.0.0.1", self._deployment.port), timeout=10) as raw,
            self.context.wrap_socket(raw, server_hostname="127.0.0.1") as client,
        ):
            shown = client.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number

    def load(self, reuse: Reuse) -> Load:
        """Return clients that speak TLS."""
        made = self._deployment
        return Load(made.port, lambda: made.token, made.keys, clients=3, reuse=reuse, tls=self.context)


def test_a_renewed_certificate_is_shown_and_no_connection_ends(deploy: Deploy, workers: int) -> None:
    """Certificates live for weeks, connections for days: a renewal that needs a restart is an outage by appointment."""
    deployment = deploy(workers)
    shown = Presented(deployment)
    with deployment.serve() as served, shown.load(Reuse.KEEP) as lasting, shown.load(Reuse.CLOSE) as fresh:
        held = {each.connection for each in lasting.exchanges}
        for days, kind in ((3, "ec"), (5, "rsa"), (7, "ec")):
            pair = shown.authority.issue(days=days, kind=kind)
            shown.write(pair)
            _wait_for(served, shown, pair)
            expiry = served.metric('signproxy_cert_expiry_timestamp_seconds{listener="listen"}')
            assert abs(expiry - time.time() - days * 86_400) < 3_600
        load_end = time.monotonic()
        lasting.wait_for(SIGNED, 20, since=load_end)
        fresh.wait_for(SIGNED, 20, since=load_end)
        assert set(lasting.outcomes()) == set(fresh.outcomes()) == {SIGNED}
        assert {each.connection for each in lasting.exchanges} == held


def test_half_a_renewal_is_waited_out(deploy: Deploy, workers: int) -> None:
    """A new certificate meets the old key for a moment; taken over as it is, it breaks every handshake from then on."""
    deployment = deploy(workers)
    shown = Presented(deployment)
    with deployment.serve() as served, shown.load(Reuse.CLOSE) as fresh:
        before = shown.serial()
        pair = shown.authority.issue()
        # Longer than looks take to call it settled: it is read, refused, and told.
        shown.write(pair, pause=5 * POLL_SECONDS)
        assert served.reloads("not accepted") > 0
        _wait_for(served, shown, pair)
        assert set(fresh.outcomes()) == {SIGNED}
        assert before != pair.serial


def test_a_broken_key_leaves_the_old_pair_in_use(deploy: Deploy, workers: int) -> None:
    """A renewal that goes wrong at night must be found by the operator in the morning, not by the jobs at once."""
    deployment = deploy(workers)
    shown = Presented(deployment)
    with deployment.serve() as served, shown.load(Reuse.CLOSE) as fresh:
        before = shown.serial()
        for number, damage in enumerate(("garbage", "", shown.authority.issue().key.decode()), 1):
            shown.write_key(damage)
            served.wait_until("it is refused", lambda number=number: served.reloads("not accepted") >= number)  # type: ignore[misc]
            assert "listen.tls" in served.logged("reload not accepted")[-1]["finding"]
            assert shown.serial() == before
        refused = time.monotonic()
        fresh.wait_for(SIGNED, 20, since=refused)
        pair = shown.authority.issue()
        shown.write(pair)
        _wait_for(served, shown, pair)
        assert set(fresh.outcomes()) == {SIGNED}
        assert "PRIVATE KEY" not in served.tail()


def test_plain_http_on_a_tls_port_is_no_problem_for_others(deploy: Deploy) -> None:
    """Scanners and wrongly set clients come along all day."""
    deployment = deploy()
    shown = Presented(deployment)
    with deployment.serve(), shown.load(Reuse.KEEP) as load:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", deployment.port), timeout=10) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert not plain.recv(1024).startswith(b"HTTP")
        with pytest.raises(ssl.SSLError):
            _old_client(deployment.port)
        load.wait_for(SIGNED, 20, since=time.monotonic())
        assert set(load.outcomes()) == {SIGNED}


def _wait_for(served: Served, shown: Presented, pair: Pair) -> None:
    served.wait_until("the new certificate is shown", lambda: all(shown.serial() == pair.serial for _ in range(8)))


def _old_client(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("RSA+AESGCM")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw, context.wrap_socket(raw):
        pass
