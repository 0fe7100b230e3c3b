"""Run signproxy's container as a manifest describes it: kubelet, API server and the pod's network in small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deploy.configuration import API_SERVER, POD_ADDRESS, environ_of, lay_out, pair, settings_of
from tests.deploy.manifests import Pod
from tests.e2e.image import api_server, ask
from tests.e2e.image.build import Image
from tests.e2e.image.namespace import DYING, Namespace, contained, namespace

SERVICE_ADDRESS = "10.96.0.1"
"""What the API server's name leads to."""

START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0

_NETWORK = f"""\
set -eu
ip link set lo up
ip address add {POD_ADDRESS}/32 dev lo
ip address add {SERVICE_ADDRESS}/32 dev lo
"""

_ROOT = """\
set -eu
image=$1 at=$2 hosts=$3
mkdir -p $at
mount --bind $image $at
! mountpoint -q $image/usr/local || mount --bind $image/usr/local $at/usr/local
mount -t proc proc $at/proc
mount --rbind /dev $at/dev
mount -t tmpfs -o ro tmpfs $at/tmp
mount --bind $hosts $at/etc/hosts
shift 3
while [ $# -gt 0 ]; do
    chroot $at mkdir -p $2
    target=$at$(chroot $at realpath $2)
    mount --bind $1 $target
    [ $3 = writable ] || mount -o remount,bind,ro $target
    shift 3
done
! mountpoint -q $at/usr/local || mount -o remount,bind,ro $at/usr/local
mount -o remount,bind,ro $at
"""


class Issuer:
    """The signer of the cluster's service-account tokens."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def keys(self) -> bytes:
        """Return the key set."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return json.dumps({"keys": [{**public, "kid": "cluster", "use": "sig", "alg": "RS256"}]}).encode()

    def token(self, namespace: str, account: str, audience: str, issuer: str) -> str:
        """Return what kubelet projects into a pod."""
        now = int(time.time())
        kubernetes = {"namespace": namespace, "serviceaccount": {"name": account}, "pod": {"name": "p", "uid": "u"}}
        claims = {
            "iss": issuer, "aud": [audience], "sub": f"system:serviceaccount:{namespace}:{account}",
            "iat": now, "nbf": now, "exp": now + 3600, "kubernetes.io": kubernetes,
        }  # fmt: skip
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return jwt.encode(claims, pem, "RS256", headers={"kid": "cluster"})


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod in which signproxy's container runs."""

    pod: Pod
    where: Namespace
    process: subprocess.Popen[bytes]
    root: Path
    volumes: Path
    log: Path
    issuer: Issuer
    environ: Mapping[str, str]
    user: str

    def ask(self, port: int, path: str, *, host: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
        """Send a request from within the pod's network."""
        request = json.dumps({"host": host, "port": port, "path": path, **more})
        answer: dict[str, Any] = json.loads(self.where.run(sys.executable, ask.__file__, stdin=request))
        return answer

    def probe(self, kind: str) -> int:
        """Ask what kubelet asks, where kubelet asks it; return the status."""
        container = self.pod.product
        assert container is not None
        found = container[kind]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        status: int = self.ask(ports[found["port"]], found["path"], host=POD_ADDRESS)["status"]
        return status

    def execute(self, *command: str) -> str:
        """Run a command in the container, as `kubectl exec` does."""
        return self.where.run(*contained(self.root, command, self.environ, user=self.user))

    def token(self, account: str = "spark") -> str:
        """Return the token of an account in the namespace of the jobs."""
        trusted = settings_of(self.pod.variant).identity.issuers["cluster"]
        return self.issuer.token("spark-jobs", account, trusted.audiences[0], trusted.issuer)

    def volume(self, name: str) -> Path:
        """Return where the content of a volume lies."""
        container = self.pod.product
        assert container is not None
        path = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == name)
        return self.volumes / str(path).lstrip("/")

    def wait_until(self, kind: str) -> None:
        """Wait until a probe passes."""
        deadline = time.monotonic() + START_TIMEOUT
        while self.probe(kind) != 200:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def terminate(self) -> None:
        """Send what kubelet sends first."""
        self.process.send_signal(signal.SIGTERM)

    def lines(self) -> list[dict[str, Any]]:
        """Return what the container printed: log lines and audit events."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]


@contextmanager
def running(image: Image, pod: Pod, directory: Path, environ: Mapping[str, str] | None = None) -> Iterator[RunningPod]:
    """Start signproxy's container of a pod, with the files that its volumes hold, until the block ends."""
    directory.mkdir()
    issuer = Issuer()
    volumes = directory / "volumes"
    lay_out(pod, volumes)
    container = pod.product
    assert container is not None
    # A runtime gives `/` to a user without a name.
    inside = {**image.last.environ, "HOME": "/", **environ_of(pod), **(environ or {})}
    user = "{runAsUser}:{runAsGroup}".format_map({**pod.spec["securityContext"], **container["securityContext"]})
    with namespace(inside=image.where, network=True) as where:
        where.run("sh", "-s", stdin=_NETWORK)
        root = image.last.root.parent / f"pod-{directory.name}"
        (directory / "hosts").write_text(f"127.0.0.1 localhost\n{SERVICE_ADDRESS} {API_SERVER}\n")
        arguments = [word for mount in container["volumeMounts"] for word in _mounted(pod, mount, volumes)]
        where.run("sh", "-s", image.last.root, root, directory / "hosts", *arguments, stdin=_ROOT)
        command = [*container.get("command", image.last.entrypoint), *container.get("args", image.last.command)]
        log = directory / "log"
        with _api_server(where, directory, volumes, issuer), log.open("wb") as output:
            process = subprocess.Popen(
                where.entering(contained(root, command, inside, user=user)),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
            try:
                yield RunningPod(pod, where, process, root, volumes, log, issuer, inside, user)
            finally:
                _end(process)


def _mounted(pod: Pod, mount: Mapping[str, Any], volumes: Path) -> tuple[str, str, str]:
    """Give a volume's files the modes and the group that kubelet gives them."""
    path = volumes / str(mount["mountPath"]).lstrip("/")
    volume = pod.volumes[mount["name"]]
    group = pod.spec["securityContext"].get("fsGroup", 0)
    mode = next((source["defaultMode"] for source in volume.values() if "defaultMode" in source), 0o644)
    for where, _, names in os.walk(path):
        Path(where).chmod(0o777 if "emptyDir" in volume else 0o755)
        for name in names:
            file = Path(where, name)
            os.chown(file, 0, group)
            file.resolve().chmod(mode)
    return str(path), str(mount["mountPath"]), "read-only" if mount.get("readOnly") else "writable"


@contextmanager
def _api_server(where: Namespace, directory: Path, volumes: Path, issuer: Issuer) -> Iterator[None]:
    certificate, keys = directory / "api-server.pem", directory / "keys.json"
    authority = pair(API_SERVER)
    certificate.write_bytes(authority.key + authority.certificate)
    keys.write_bytes(issuer.keys())
    token = volumes / "var/run/secrets/signproxy/api/token"
    command = ("setpriv", *DYING, "--", sys.executable, api_server.__file__, SERVICE_ADDRESS, certificate, keys, token)
    with (directory / "api-server.log").open("wb") as log:
        process = subprocess.Popen(
            where.entering([str(word) for word in command]),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        # The group outlives its leader as long as a child of it runs.
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
