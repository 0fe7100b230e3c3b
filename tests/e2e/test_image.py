"""The image that the Dockerfile describes runs in the pods that the manifests describe, without a container engine.

Its steps are carried out as they stand, in namespaces of the kernel, on this machine's system as the base. What a
container runtime and kubelet do is done likewise: the user, no capabilities, a read-only root, volumes whose content
is swapped, a network of its own with the pod's address, probes at that address.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.configuration import GATEWAY, POD_ADDRESS, pair, pod_named, settings_of, swap_in
from tests.e2e.image.build import Image, built
from tests.e2e.image.cluster import STOP_TIMEOUT, RunningPod, running
from tests.e2e.image.namespace import StepFailed

pytestmark = pytest.mark.ci

ROUTE = "/catalogs/lake/v1/aws/s3/sign"
OBJECT = "https://acme-lake.s3.eu-central-1.amazonaws.com/warehouse/sales/orders/data/f.parquet"

SWAP_TIMEOUT = 30.0
"""Seconds until a changed policy must be in force; it is looked at every two."""


_ASK_SOCKET = """
import socket
asked = socket.socket(socket.AF_UNIX)
asked.connect("/var/lib/signproxy/admin.sock")
asked.sendall(b"GET /status HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(b"".join(iter(lambda: asked.recv(65536), b"")).decode())
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with built(tmp_path_factory.mktemp("image")) as made:
        yield made


def sign(pod: RunningPod, *, account: str = "spark", uri: str = OBJECT) -> tuple[int, dict[str, str], str]:
    """Ask for a signature as an engine does."""
    settings = settings_of(pod.pod.variant)
    body = json.dumps({"method": "GET", "region": "eu-central-1", "uri": uri, "headers": {}})
    encrypted = settings.listen.tls.enabled
    answer = pod.ask(
        settings.listen.port,
        ROUTE,
        method="POST",
        body=body,
        headers={"Authorization": f"Bearer {pod.token(account)}", "Content-Type": "application/json"},
        server=GATEWAY if encrypted else "",
        authority=pair(GATEWAY).certificate.decode() if encrypted else "",
    )
    return answer["status"], answer["headers"], answer["body"]


def test_the_image_holds_what_runs_and_nothing_that_installs(image: Image) -> None:
    """An installer serves an intruder; a library without bytecode is compiled anew by every start."""
    assert image.run("signproxy", "version").startswith("signproxy ")
    for module in ("pip", "setuptools", "ensurepip", "wheel"):
        with pytest.raises(StepFailed, match="No module named"):
            image.run("python", "-c", f"import {module}")
    found = image.run(
        "python", "-c",
        "import importlib.util as u, pathlib, sysconfig, sys\n"
        "for name in ('purelib', 'stdlib'):\n"
        "    for source in pathlib.Path(sysconfig.get_path(name)).rglob('*.py'):\n"
        "        if {'idlelib', 'lib2to3', 'test', 'tests', 'tkinter', 'turtledemo'} & set(source.parts): continue\n"
        "        code = pathlib.Path(u.cache_from_source(str(source)))\n"
        "        flags = code.read_bytes()[4] if code.exists() else -1\n"
        "        print(name, flags, source)\n",
    ).splitlines()  # fmt: skip
    assert len(found) > 1000
    assert [line for line in found if line.split()[1] == "-1"] == []
    # Of the product's own, none is ever held against its source. (The library's may be this machine's.)
    assert {line.split()[1] for line in found if line.startswith("purelib")} == {"1"}


def test_the_image_runs_as_nobody_and_can_change_nothing(image: Image) -> None:
    """An intruder in the process could change what the next one runs."""
    assert image.run("sh", "-c", "id -u; id -g; grep CapEff /proc/self/status").split() == [
        "65532", "65532", "CapEff:", "0000000000000000",
    ]  # fmt: skip
    for path in ("/", "/opt/signproxy/bin", "/opt/signproxy/lib/python3.11/site-packages/signproxy", "/usr/local/bin"):
        with pytest.raises(StepFailed, match="Permission denied"):
            image.run("touch", f"{path}/x")
    # Docker's own health check, where nothing listens yet.
    with pytest.raises(StepFailed):
        image.run(*image.last.healthcheck)


def test_the_sidecar_serves_its_pod_and_no_other(image: Image, tmp_path: Path) -> None:
    """The example of the documentation is what operators begin with."""
    with running(image, pod_named("sidecar-driver"), tmp_path / "driver") as pod:
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            pod.wait_until(kind)
        pod.execute(*image.last.healthcheck)
        status, _, answer = sign(pod)
        assert status == 200, answer
        assert json.loads(answer)["headers"]["Authorization"][0].startswith("AWS4-HMAC-SHA256 ")
        assert sign(pod, uri=OBJECT.replace("orders", "others"))[0] == 403
        # The executors' account is unknown to the policy.
        assert sign(pod, account="spark-executor")[0] == 403
        # Other pods reach health and metrics, and no signatures.
        assert pod.ask(8181, ROUTE, host=POD_ADDRESS)["status"] == 0
        assert pod.ask(9181, "/metrics", host=POD_ADDRESS)["status"] == 200
        # The engine sits on the same loopback, and sees no more than they.
        assert pod.ask(9181, "/status")["status"] == 0
        assert pod.ask(9181, "/status", host=POD_ADDRESS)["status"] in (401, 403)
        assert "policy" in pod.execute("python", "-c", _ASK_SOCKET)
        for path in ("/x", "/etc/signproxy/policy/x", "/run/x"):
            with pytest.raises(StepFailed, match="Read-only file system"):
                pod.execute("touch", path)
        pod.terminate()
        assert pod.process.wait(STOP_TIMEOUT) == 0
        events = [line for line in pod.lines() if "event_id" in line and line.get("kind") == "sign"]
        assert [event["decision"] for event in events] == ["allow", "deny", "deny"]
        assert "Read-only file system" not in pod.log.read_text()
        assert "wJalrXUtnFEMI" not in pod.log.read_text()


def test_a_changed_policy_bites_without_a_restart(image: Image, tmp_path: Path) -> None:
    """A revoked grant would last as long as the job."""
    with running(image, pod_named("sidecar-executor"), tmp_path / "executor") as pod:
        pod.wait_until("readinessProbe")
        assert sign(pod)[0] == 200
        directory = pod.volume("signproxy-policy")
        files = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
        revoked = files["access.yaml"].replace(b"jobs: {lake: [reader, writer]}", b"jobs: {lake: []}")
        assert revoked != files["access.yaml"]
        # A policy with a fault changes nothing.
        swap_in(directory, files | {"access.yaml": b"grants: nonsense\n"})
        time.sleep(3 * settings_of("sidecar").reload.poll_seconds)
        assert sign(pod)[0] == 200
        swap_in(directory, files | {"access.yaml": revoked})
        deadline = time.monotonic() + SWAP_TIMEOUT
        while sign(pod)[0] != 403:
            assert time.monotonic() < deadline, pod.log.read_text()
        # And the grant that comes back.
        swap_in(directory, files)
        deadline = time.monotonic() + SWAP_TIMEOUT
        while sign(pod)[0] != 200:
            assert time.monotonic() < deadline, pod.log.read_text()
        assert pod.probe("livenessProbe") == 200


def test_the_gateway_is_encrypted_and_drains(image: Image, tmp_path: Path) -> None:
    """Java clients do not repeat a request whose connection was closed: a rollout would fail Spark tasks."""
    drain = settings_of("gateway").drain
    # The delay alone is what is looked at.
    with running(image, pod_named("gateway-signproxy"), tmp_path / "gateway") as pod:
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            pod.wait_until(kind)
        pod.execute(*image.last.healthcheck)
        status, headers, answer = sign(pod)
        assert status == 200, answer
        assert headers.get("Connection", "").lower() != "close"
        # In the clear, nothing is answered.
        assert pod.ask(8181, ROUTE)["status"] in (0, 400)
        pod.terminate()
        told = time.monotonic()
        while pod.probe("readinessProbe") != 503:
            assert time.monotonic() < told + drain.delay_seconds, pod.log.read_text()
        status, headers, answer = sign(pod)
        assert (status, headers["Connection"].lower()) == (200, "close"), answer
        assert pod.probe("livenessProbe") == 200
        assert pod.process.wait(STOP_TIMEOUT) == 0
        assert time.monotonic() - told >= drain.delay_seconds
        events = [line for line in pod.lines() if line.get("kind") == "sign"]
        assert [event["decision"] for event in events] == ["allow", "allow"]


def test_the_audit_trail_may_be_a_file_of_the_pod(image: Image, tmp_path: Path) -> None:
    """The one volume that may be written to would be of no use."""
    environ = {"SIGNPROXY__AUDIT__SINK": "file", "SIGNPROXY__AUDIT__PATH": "/var/lib/signproxy/audit.ndjson"}
    with running(image, pod_named("sidecar-driver"), tmp_path / "audited", environ) as pod:
        pod.wait_until("readinessProbe")
        assert sign(pod)[0] == 200
        pod.terminate()
        assert pod.process.wait(STOP_TIMEOUT) == 0
        (file,) = pod.volume("signproxy-audit").iterdir()
        assert '"decision":"allow"' in file.read_text()
        assert (file.stat().st_uid, file.stat().st_mode & 0o777) == (65532, 0o600)
