"""Hold that the peers of the transparent mode do what they are compared for, with nothing in their way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import forward_envoy, forward_nginx
from bench.forward_nginx import Upstream
from bench.forward_scene import received
from bench.policy_files import REGION

_UPSTREAMS = (Upstream("lake", 1001), Upstream("vault", 1002, "https"), Upstream("drain", 1003))
_AUTHORITY = Path("/objects/ca.crt")


@pytest.fixture
def bootstrap() -> dict[str, Any]:
    return forward_envoy.configuration(
        port=1, admin_port=2, upstreams=_UPSTREAMS, ca_file=_AUTHORITY, region=REGION, keys=("id", "secret")
    )


def test_nginx_hands_on_each_bucket_to_its_store() -> None:
    """Uploads that end at the wrong store would be refused, or cost what another costs."""
    text = forward_nginx.proxy_servers(1, _UPSTREAMS, _AUTHORITY)
    for to in _UPSTREAMS:
        assert f"upstream {to.bucket} {{ server 127.0.0.1:{to.port};" in text
        assert f"location /{to.bucket}/ {{ proxy_pass {to.scheme}://{to.bucket}; }}" in text


@pytest.mark.parametrize(
    "line",
    (
        "proxy_request_buffering off;",
        "proxy_max_temp_file_size 0;",
        "proxy_http_version 1.1;",
        "client_max_body_size 0;",
        "proxy_ssl_verify on;",
    ),
)
def test_nginx_is_no_straw_man(line: str) -> None:
    """A floor that writes bodies to disk, or connects anew for each request, would flatter every peer."""
    assert line in forward_nginx.proxy_servers(1, _UPSTREAMS, _AUTHORITY)
    assert "access_log off;" in forward_nginx.configuration(Path("/scratch"), "")


def test_nginx_has_one_worker_and_its_files_to_itself() -> None:
    """Two workers on one core are no floor; files in the system's places would need an administrator."""
    text = forward_nginx.configuration(Path("/scratch"), "")
    assert "worker_processes 1;" in text
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        assert f"{name}_temp_path /scratch/{name};" in text


def test_every_name_is_an_object_of_the_store() -> None:
    """A load of new names would be answered with 404 after the first."""
    text = forward_nginx.store_servers(Path("/objects"), plain=1, tls=2)
    for end, file in (("parquet", "small"), ("large", "large"), ("huge", "huge")):
        assert f'location ~ "\\.{end}$" {{ alias /objects/{file};' in text


def test_envoy_signs_for_s3_and_does_not_hash(bootstrap: dict[str, Any]) -> None:
    """Without its filter it is one more plain proxy; hashing bodies, it would be easy to beat."""
    (chain,) = bootstrap["static_resources"]["listeners"][0]["filter_chains"]
    signing = chain["filters"][0]["typed_config"]["http_filters"][0]["typed_config"]
    assert (signing["service_name"], signing["region"]) == ("s3", REGION)
    assert signing["use_unsigned_payload"]
    json.dumps(bootstrap)


def test_envoy_verifies_the_store_over_tls_only(bootstrap: dict[str, Any]) -> None:
    """TLS without verification would be less work than signproxy's."""
    clusters = {cluster["name"]: cluster for cluster in bootstrap["static_resources"]["clusters"]}
    assert [name for name, cluster in clusters.items() if "transport_socket" in cluster] == ["vault"]
    context = clusters["vault"]["transport_socket"]["typed_config"]["common_tls_context"]
    assert context["validation_context"]["trusted_ca"]["filename"] == str(_AUTHORITY)


def test_envoy_does_not_end_long_transfers(bootstrap: dict[str, Any]) -> None:
    """Its own limit of 15 seconds would break large objects on a slow machine."""
    (chain,) = bootstrap["static_resources"]["listeners"][0]["filter_chains"]
    (host,) = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    assert {route["route"]["timeout"] for route in host["routes"] if "route" in route} == {"0s"}


def test_a_head_is_read_as_the_store_received_it() -> None:
    """A signature over `a:b` is none over `a: b` cut at the wrong colon."""
    head = b"PUT /drain/k%20k?partNumber=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nx-amz-date:20261119T001845Z\r\n\r\n"
    wire = received(head)
    assert (wire.method, wire.target) == ("PUT", "/drain/k%20k?partNumber=1")
    assert wire.headers == (("Host", "127.0.0.1:1"), ("x-amz-date", "20261119T001845Z"))
