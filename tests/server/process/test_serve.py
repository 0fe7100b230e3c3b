"""The served process: start, reload, health, end; as an operator sees it from outside."""

from __future__ import annotations

import json
import signal
import socket
import time

from tests.product import ACCESS_KEY, SECRET, sign_message
from tests.server.process.served import POLICY, WAIT, Start, serve
from tests.waiting import blocked_until

__all__ = ["serve"]


def test_a_term_signal_ends_with_zero_and_every_event_written(serve: Start) -> None:
    """Spark takes a sidecar that exits otherwise for a failed executor; and the last events are the newest."""
    served = serve()
    statuses = [served.sign() for _ in range(5)]
    assert statuses == [200] * 5
    assert served.stop() == 0
    assert [event["seq"] for event in served.events()] == [1, 2, 3, 4, 5]
    assert served.wait_for("stopped")


def test_a_hang_up_signal_loads_the_policy_anew(serve: Start) -> None:
    """Without it a revoke needs a restart, and a restart fails the running jobs."""
    served = serve()
    assert served.sign() == 200
    served.policy.write_text(POLICY.replace("reader: {roles: [readers]}", "reader: {roles: []}"))
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    assert served.sign() == 403
    assert served.stop() == 0
    events = served.events()
    assert [(event["kind"], event["policy_epoch"]) for event in events] == [("sign", 1), ("reload", 2), ("sign", 2)]
    assert len({event["policy_rev"] for event in events}) == 2


def test_a_broken_policy_changes_nothing_and_says_where(serve: Start) -> None:
    """A typo in a file must not lock out every engine, nor let a stranger in."""
    served = serve()
    assert served.sign() == 200
    served.policy.write_text(POLICY.replace("remote_signing: true\ndefault", "remote_sining: true\ndefault"))
    served.process.send_signal(signal.SIGHUP)
    line = served.wait_for("reload not accepted")
    assert "remote_sining" in line["finding"]
    assert "remote_signing" in line["finding"]
    assert served.sign() == 200
    served.policy.write_text(POLICY)
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    assert served.stop() == 0


def test_a_policy_cannot_send_signatures_to_a_new_host(serve: Start) -> None:
    """An author of the policy alone must not be able to collect valid signatures at another host."""
    served = serve()
    served.wait_for("serving")
    served.policy.write_text(POLICY.replace("http://127.0.0.1:9", "http://evil.example"))
    served.process.send_signal(signal.SIGHUP)
    assert "evil.example" in served.wait_for("reload not accepted")["finding"]
    assert served.sign() == 200
    assert served.stop() == 0


def test_a_rotated_audit_file_is_begun_anew(serve: Start) -> None:
    """Logrotate moves the file away; events that go on into the moved one are lost to readers of the new."""
    served = serve()
    assert served.sign() == 200
    blocked_until(lambda: served.audit.exists() and served.audit.read_text())
    served.audit.rename(served.audit.with_suffix(".1"))
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    assert served.sign() == 200
    assert served.stop() == 0
    assert [(event["kind"], event["seq"]) for event in served.events()] == [("reload", 2), ("sign", 3)]


def test_probes_and_metrics_are_answered_on_their_own_listener(serve: Start) -> None:
    """Kubelet and Prometheus must not need a token, nor see anything that needs one."""
    served = serve()
    assert served.sign() == 200
    admin = served.wait_for("serving")["admin"]
    for path in ("/livez", "/startupz", "/readyz"):
        assert served.request(admin, "GET", path) == (200, "ok\n")
    status, text = served.request(admin, "GET", "/readyz?verbose")
    assert (status, text.splitlines()[-1]) == (200, "audit: ok")
    status, text = served.request(admin, "GET", "/metrics")
    assert 'signproxy_requests_total{decision="allow",op="GetObject",reason="allowed"} 1.0' in text
    assert "signproxy_policy_epoch 1" in text
    assert ACCESS_KEY not in text
    assert served.request(admin, "HEAD", "/livez") == (200, "")
    assert served.request(admin, "POST", "/livez")[0] == 405
    assert served.request(admin, "GET", "/v1/config")[0] == 404
    assert served.stop() == 0


def test_readiness_goes_before_the_listener_does(serve: Start) -> None:
    """A balancer that still sends while the door closes gets connection errors, which Java does not repeat."""
    served = serve("--set", "drain.delay_seconds=2")
    admin = served.wait_for("serving")["admin"]
    served.process.terminate()
    served.wait_for("stopping")
    assert served.request(admin, "GET", "/readyz") == (503, "draining: yes\n")
    assert served.sign() == 200
    assert served.process.wait(WAIT) == 0


def test_a_second_signal_ends_at_once(serve: Start) -> None:
    """An orchestrator that asks twice is about to kill."""
    served = serve("--set", "drain.delay_seconds=600")
    served.wait_for("serving")
    served.process.terminate()
    served.wait_for("stopping")
    time.sleep(0.1)
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(WAIT) == 0


def test_a_port_in_use_is_told_without_a_trace(serve: Start) -> None:
    """The commonest fault of a start deserves a sentence."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        served = serve("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert served.process.wait(WAIT) == 1
    text = served.log.read_text()
    assert "cannot listen on 127.0.0.1:" in text
    assert "Traceback" not in text


def test_two_processes_share_a_port_where_asked(serve: Start) -> None:
    """One process uses one core."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    more = ("--listen", f"127.0.0.1:{port}", "--set", "listen.reuse_port=true")
    one, two = serve(*more, name="first"), serve(*more, name="second")
    one.wait_for("serving")
    two.wait_for("serving")
    for _ in range(40):
        assert one.sign() == 200
    assert (one.stop(), two.stop()) == (0, 0)
    seqs = [[event["seq"] for event in served.events()] if served.audit.exists() else [] for served in (one, two)]
    assert sum(map(len, seqs)) == 40
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seqs)


def test_a_missing_secret_starts_and_is_not_ready(serve: Start) -> None:
    """A provider that has no answer yet must not stop the others; and must be seen."""
    served = serve("--set", "credentials.providers.keys.properties.access_key_id_env=NOT_SET_ANYWHERE")
    admin = served.wait_for("serving")["admin"]
    assert served.sign() == 503
    status, text = served.request(admin, "GET", "/readyz")
    assert status == 503
    assert text.startswith("credentials: s: ")
    assert SECRET not in served.log.read_text()
    assert served.stop() == 0


def test_a_storage_that_a_reload_adds_has_credentials(serve: Start) -> None:
    """A new bucket that answers 503 until the next restart is no reload."""
    served = serve()
    assert served.sign() == 200
    served.policy.write_text(
        POLICY.replace("buckets: [lake]", "buckets: [lake, second]").replace(
            'tables: [{name: t, namespace: n, location: "s3://lake/t"}',
            'tables: [{name: t, namespace: n, location: "s3://lake/t"}, '
            '{name: u, namespace: n, location: "s3://second/u"}',
        )
    )
    served.process.send_signal(signal.SIGHUP)
    served.wait_for("reload accepted")
    message = sign_message("GET", "http://127.0.0.1:9/second/u/f", region="us-east-1")
    address = served.wait_for("serving")["address"]
    assert served.request(address, "POST", "/v1/aws/s3/sign", json.dumps(message).encode())[0] == 200
    assert served.stop() == 0
