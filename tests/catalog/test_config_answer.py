"""`/v1/config` through the facade: the upstream's, as far as it leads nowhere else, and signproxy's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signproxy.catalog.call import CallKind
from signproxy.catalog.config_answer import (
    ADVERTISED,
    CREDENTIALS_ROUTE,
    DEFAULT_ROUTES,
    SIGN_ROUTES,
    VIEW_ROUTES,
    client_config,
    config_answer,
)
from signproxy.errors import Reason, Refused
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.s3.storage import S3Endpoint, Storage, StorageKind, Style

MINIO = Storage("m", StorageKind.S3_COMPATIBLE, "r1", ("b",), (S3Endpoint("http", "minio:9000", (Style.PATH,)),))
CATALOG = Catalog("my lake", storages={"m": MINIO})


def told(upstream: object, *, signing: bool = True, delegation: str = "remote-signing") -> dict[str, Any]:
    own = client_config(CATALOG, "https://sign.example", signing=signing, delegation=delegation)
    content = upstream if isinstance(upstream, bytes) else json.dumps(upstream).encode()
    answer = json.loads(config_answer(content, own))
    assert isinstance(answer, dict)
    return answer


NESSIE = {
    "defaults": {"prefix": "main%7Cwh", "warehouse": "wh", "io-impl": "org.X", "rest-page-size": "200"},
    "overrides": {
        "uri": "http://nessie/iceberg/",
        "s3.endpoint": "http://nessie-minio",
        "s3.path-style-access": "true",
        "client.region": "nowhere",
        "nessie.core-base-uri": "http://nessie/api/",
        "rest-metrics-reporting-enabled": "false",
    },
}
"""What Nessie 0.99 answers, shortened."""

FIXTURE = {
    "defaults": {},
    "overrides": {"namespace-separator": "%2E"},
    "endpoints": [
        "POST v1/oauth/tokens",
        "POST https://auth-server.com/token",
        "GET v1/config",
        "GET /v1/{prefix}/namespaces",
        "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
        "GET /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces/{namespace}/policies",
    ],
}
"""What Iceberg's own test server answers, shortened, and some lines besides."""


def test_what_leads_past_the_facade_goes() -> None:
    """Nessie sends its own address: each client would go there, and nothing would be judged or signed."""
    answer = told(NESSIE)
    assert answer["defaults"] == {
        "client.region": "r1",
        "rest-page-size": "200",
        "s3.endpoint": "http://minio:9000",
        "s3.path-style-access": "true",
        "s3.region": "r1",
    }
    assert answer["overrides"] == {
        "aws.remote-signing.enabled": "true",
        "prefix": "my%20lake",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "rest-metrics-reporting-enabled": "false",
        "s3.remote-signing-enabled": "true",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.endpoint": "v1/aws/s3/sign",
        "s3.signer.uri": "https://sign.example/catalogs/my%20lake/",
    }
    assert "nessie" not in str(answer)


def test_a_separator_of_levels_is_left_out() -> None:
    """Clients would write levels that are one name to the policy; without it they send what every server takes."""
    assert "namespace-separator" not in str(told(FIXTURE))


def test_only_routes_that_pass_are_told() -> None:
    """A client would rely on what is refused, or miss what is served."""
    assert told(FIXTURE)["endpoints"] == [
        "GET /v1/{prefix}/namespaces",
        "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
        *SIGN_ROUTES,
    ]
    assert "POST" not in told(FIXTURE, signing=False)["endpoints"][:2]
    assert not set(told(FIXTURE, signing=False)["endpoints"]) & set(SIGN_ROUTES)


@pytest.mark.parametrize("endpoints", ({}, {"endpoints": None}, {"endpoints": []}))
@pytest.mark.parametrize("where", ("defaults", "overrides"))
def test_a_server_that_does_not_say_has_the_usual_routes(endpoints: dict[str, object], where: str) -> None:
    """What is sent replaces the client's own list: with the sign route alone it would find a catalog without tables."""
    assert told(endpoints)["endpoints"] == [*DEFAULT_ROUTES, *SIGN_ROUTES]
    with_views = told({**endpoints, where: {"view-endpoints-supported": "TRUE"}})
    assert with_views["endpoints"] == [*DEFAULT_ROUTES, *VIEW_ROUTES, *SIGN_ROUTES]
    without = told({**endpoints, where: {"view-endpoints-supported": "false"}})
    assert without["endpoints"] == [*DEFAULT_ROUTES, *SIGN_ROUTES]


def test_the_usual_routes_are_the_specifications() -> None:
    """A client would miss a call, or make one that is not there."""
    assert len(DEFAULT_ROUTES) == 14
    assert len(VIEW_ROUTES) == 6
    assert set(DEFAULT_ROUTES) | set(VIEW_ROUTES) <= ADVERTISED
    assert {kind.value for kind in CallKind} - ADVERTISED == {
        "GET /v1/config",
        "POST /v1/oauth/tokens",
        CREDENTIALS_ROUTE,
    }


def test_the_route_of_keys_is_told_to_those_who_are_offered_some() -> None:
    """A client would refresh where every refresh is refused, or never find out that it may."""
    own = client_config(CATALOG, "https://sign.example", signing=True, delegation="", offered=tuple(Delegation))
    routes = json.loads(config_answer(json.dumps(FIXTURE).encode(), own))["endpoints"]
    assert (CREDENTIALS_ROUTE in routes, set(SIGN_ROUTES) <= set(routes)) == (True, True)
    only = (Delegation.VENDED_CREDENTIALS,)
    keys = client_config(CATALOG, "u", signing=True, delegation="vended-credentials", offered=only)
    assert keys.endpoints == [CREDENTIALS_ROUTE]
    assert not {"aws.remote-signing.enabled", "s3.signer.uri", "s3.signer"} & keys.overrides.keys()
    assert client_config(CATALOG, "u", signing=False, delegation="", offered=only).endpoints == []


@pytest.mark.parametrize(("first", "signs"), (("remote-signing", True), ("vended-credentials", False)))
def test_a_client_is_set_up_for_what_it_prefers(first: str, signs: bool) -> None:
    """PyIceberg signs remotely once its catalog says so, whatever keys a table comes with."""
    other = {"remote-signing": "vended-credentials"}.get(first, "remote-signing")
    own = client_config(CATALOG, "u", signing=True, delegation=f"{first},{other}", offered=tuple(Delegation))
    assert ("s3.signer" in own.overrides) is signs


def test_a_client_that_did_not_ask_is_told_nothing_that_breaks_it() -> None:
    """iceberg-go and PyIceberg, each by another key."""
    overrides = told(NESSIE, delegation="vended-credentials")["overrides"]
    assert not {"s3.remote-signing-enabled", "s3.signer", "py-io-impl"} & overrides.keys()


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    (("PT30M", "PT30M"), ("P1DT2H3M4.5S", "P1DT2H3M4.5S"), ("30", None), ("P" * 99, None), (None, None)),
)
def test_how_long_a_key_may_be_used_again_passes(lifetime: str | None, expected: str | None) -> None:
    """Java repeats no change of a catalog that does not say so."""
    assert told({"idempotency-key-lifetime": lifetime}).get("idempotency-key-lifetime") == expected


def test_signproxys_own_wins() -> None:
    """A catalog that lies would lead clients away."""
    evil = {
        "prefix": "evil",
        "s3.signer.uri": "evil",
        "s3.signer.endpoint": "evil",
        "s3.remote-signing-enabled": "false",
    }
    assert "evil" not in str(told({"overrides": evil, "defaults": evil}))
    assert told({"overrides": evil})["overrides"]["s3.remote-signing-enabled"] == "true"


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"null",
        b"[]",
        b"<html>",
        b'{"overrides":[]}',
        b'{"defaults":"text"}',
        b'{"endpoints":{}}',
        b'{"endpoints":[{"method":"GET","path":"/v1/x"}]}',
        b'{"endpoints":[1]}',
        b'{"idempotency-key-lifetime":1}',
        b'{"overrides":{},"overrides":{}}',
        b'{"overrides":{"rest-page-size":"1","rest-page-size":"2"}}',
        b"\xef\xbb\xbf{}",
        b'{"overrides":{"rest-page-size":NaN}}',
        b'{"x":"\xff"}',
        b'{"x":' + b"[" * 100_000,
    ),
    ids=lambda content: str(content)[:30],
)
def test_a_configuration_that_is_none_is_refused(content: bytes) -> None:
    """The client would begin with half of one."""
    with pytest.raises(Refused) as refused:
        told(content)
    assert refused.value.reason is Reason.UPSTREAM_INVALID


def test_values_that_are_no_text_are_left_out() -> None:
    """Catalogs send null and numbers; one of them must not cost the whole configuration."""
    assert (
        told({"overrides": {"rest-page-size": 5, "uri": None, "snapshot-loading-mode": "refs"}})["overrides"][
            "snapshot-loading-mode"
        ]
        == "refs"
    )
