"""Run OpenStack Swift with its S3 interface: strict like versitygw, and keys are never paths."""

from __future__ import annotations

import getpass
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.e2e.stores import install
from tests.e2e.stores.process import Server, ServerFailed, free_ports, status_of
from tests.e2e.stores.seam import DOMAIN, RunningStore, StoreKind, Traits

REGION = "us-east-1"
_ACCESS_KEY = "test:tester"
_KINDS = ("account", "container", "object")

_COMMON = """\
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = {workers}
user = {user}
swift_dir = {etc}
devices = {data}
mount_check = false
disable_fallocate = true
log_level = WARNING
log_address = {etc}/no-syslog
"""

_BACKEND = """\
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
[{kind}-replicator]
[{kind}-updater]
[{kind}-auditor]
"""

_PROXY = """\
[pipeline:main]
pipeline = catch_errors gatekeeper proxy-logging cache listing_formats bulk s3api tempauth slo dlo versioned_writes symlink proxy-logging proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = {region}
s3_acl = false
storage_domain = {domain}
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
[filter:slo]
use = egg:swift#slo
rate_limit_after_segment = 1000
[filter:versioned_writes]
use = egg:swift#versioned_writes
allow_object_versioning = true
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcache}
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:dlo]
use = egg:swift#dlo
[filter:symlink]
use = egg:swift#symlink
"""  # noqa: E501  # the pipeline is one line of Swift's own format


@contextmanager
def run(directory: Path) -> Iterator[RunningStore]:
    """Run three storage servers of one replica each and the proxy before them."""
    commands = install.swift()
    etc, data, secret = directory / "etc", directory / "data", secrets.token_hex(16)
    etc.mkdir()
    (data / "sdb1").mkdir(parents=True)
    # Nothing listens on the last one: Swift runs without memcached, but not without its address.
    *ports, memcache = free_ports(len(_KINDS) + 2)
    backends, proxy = dict(zip(_KINDS, ports[:-1], strict=True)), ports[-1]
    (etc / "swift.conf").write_text(
        "[swift-hash]\nswift_hash_path_prefix = e2e\nswift_hash_path_suffix = e2e\n"
        "[storage-policy:0]\nname = default\ndefault = yes\n"
    )
    user = getpass.getuser()
    for kind, port in backends.items():
        common = _COMMON.format(port=port, workers=0, user=user, etc=etc, data=data)
        (etc / f"{kind}-server.conf").write_text(common + _BACKEND.format(kind=kind))
        _make_ring(commands, etc, kind, port)
    common = _COMMON.format(port=proxy, workers=0, user=user, etc=etc, data=data)
    (etc / "proxy-server.conf").write_text(
        common + _PROXY.format(region=REGION, domain=DOMAIN, secret=secret, memcache=memcache)
    )
    with ExitStack() as stack:
        servers = {}
        for kind in (*_KINDS, "proxy"):
            script, configuration = str(commands / f"swift-{kind}-server"), str(etc / f"{kind}-server.conf")
            servers[kind] = Server(f"swift-{kind}", (script, configuration), directory)
            stack.callback(servers[kind].stop)
        for kind, port in backends.items():
            servers[kind].wait_until(partial(_answers, port, "/recon/version"))
        servers["proxy"].wait_until(partial(_answers, proxy, "/"))
        yield RunningStore(
            "swift",
            install.SWIFT_VERSION,
            proxy,
            REGION,
            _ACCESS_KEY,
            secret,
            Traits(),
            lambda: "\n".join(f"{kind}:\n{server.tail()}" for kind, server in servers.items()),
        )


def _answers(port: int, path: str) -> bool:
    return status_of(port, path) > 0


def _make_ring(commands: Path, etc: Path, kind: str, port: int) -> None:
    builder = f"{kind}.builder"
    for arguments in (("create", "4", "1", "1"), ("add", f"r1z1-127.0.0.1:{port}/sdb1", "1"), ("rebalance",)):
        step = (str(commands / "swift-ring-builder"), builder, *arguments)
        done = subprocess.run(step, cwd=etc, capture_output=True, timeout=60, check=False)
        # 1 is a warning: one replica is no redundancy.
        if done.returncode > 1:
            raise ServerFailed(f"{' '.join(step)}: {done.stdout.decode()}{done.stderr.decode()}")


SWIFT = StoreKind("swift", install.SWIFT_VERSION, run)
