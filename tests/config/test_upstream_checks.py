"""What settings of an upstream catalog have to say, and may not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from signproxy.config.upstream import MAX_UPSTREAMS, UpstreamSettings
from signproxy.config.upstream_checks import upstream_faults

EXCHANGE = {"token_url": "https://idp.example/token", "client_id": "signproxy", "client_secret_file": "/secret"}


def faults(**settings: Any) -> list[str]:
    upstream = msgspec.convert({"uri": "https://catalog.example/api/catalog", **settings}, UpstreamSettings)
    return [f"{path}: {problem}" for path, problem in upstream_faults({"lake": upstream})]


@pytest.mark.parametrize(
    "settings",
    (
        {},
        {"uri": "https://catalog.example"},
        {"uri": "https://catalog.example:8443/"},
        {"uri": "http://127.0.0.1:19120/iceberg"},
        {"uri": "http://[::1]:80/iceberg/"},
        {"uri": "http://localhost"},
        {"uri": "http://catalog.svc/iceberg", "allow_http": True},
        # Nessie's, Glue's and S3 Tables' prefixes.
        {"prefix": "main%7Cwarehouse"},
        {"prefix": "catalogs/123456789012"},
        {"prefix": "arn%3Aaws%3As3tables%3Aus-east-1%3A123456789012%3Abucket%2Fb"},
        {"token_forwarding": "exchange", "exchange": EXCHANGE},
        {"token_forwarding": "none"},
        {"token_forwarding": "none", "token_file": "/token"},
        {"headers": ["Polaris-Realm", "X-Project-ID"]},
        {"ca_file": "/ca.pem"},
    ),
)
def test_what_is_meant_is_accepted(settings: dict[str, Any]) -> None:
    """An operator could not put signproxy in front of the catalog."""
    assert faults(**settings) == []


@pytest.mark.parametrize(
    "uri",
    (
        "catalog.example",
        "ftp://catalog.example",
        "https://",
        "https:///api",
        "https://user:pass@catalog.example",
        "https://catalog.example?warehouse=a",
        "https://catalog.example#v1",
        "https://catalog.example:0",
        "https://catalog.example:99999",
        "https://catalog.example/a/../b",
        "https://catalog.example/a/%2e%2E/b",
        "https://catalog.example/a//b",
        "https://catalog.example/a%",
        "https://catalog.example/a b",
        "https://catalog.example\\@evil.example",
        "https://k\u00e4se.example",
    ),
)
def test_what_two_readers_would_take_for_two_places_is_no_address(uri: str) -> None:
    """The check would see one host or path, and the token would be sent to another."""
    assert len(faults(uri=uri)) == 1


@pytest.mark.parametrize("uri", ("http://catalog.svc", "http://10.0.0.1:8181/api", "http://127.0.0.1.nip.io"))
def test_beyond_loopback_http_has_to_be_allowed(uri: str) -> None:
    """Callers' tokens would cross the network in the clear because an s was left out."""
    (fault,) = faults(uri=uri)
    assert fault.startswith("upstreams.lake.uri: ")
    assert fault.endswith("use https, or set allow_http")


def test_tokens_are_exchanged_over_https_as_well() -> None:
    """The client's secret would cross the network in the clear."""
    exchange = {**EXCHANGE, "token_url": "http://idp.example/token"}
    (fault,) = faults(token_forwarding="exchange", exchange=exchange)
    assert fault.startswith("upstreams.lake.exchange.token_url: ")


def test_an_exchange_names_where_and_as_whom() -> None:
    """Every call would fail, and the operator would look for the fault at the authorization server."""
    assert [fault.partition(":")[0] for fault in faults(token_forwarding="exchange")] == [
        "upstreams.lake.exchange.token_url",
        "upstreams.lake.exchange.client_id",
        "upstreams.lake.exchange.client_secret_file",
    ]


@pytest.mark.parametrize("forwarding", ("same", "none"))
def test_what_has_no_effect_is_told(forwarding: str) -> None:
    """An operator would believe that tokens are exchanged while callers' own are sent on."""
    (fault,) = faults(token_forwarding=forwarding, exchange=EXCHANGE)
    assert fault == f"upstreams.lake.exchange: has no effect with `token_forwarding: {forwarding}`"


@pytest.mark.parametrize("forwarding", ("same", "exchange"))
def test_a_token_of_the_servers_own_is_for_none_alone(forwarding: str) -> None:
    """An operator would believe that callers share the server's token while their own is sent on."""
    (fault,) = faults(token_forwarding=forwarding, token_file="/t", exchange=EXCHANGE if forwarding != "same" else {})
    assert fault == f"upstreams.lake.token_file: has no effect with `token_forwarding: {forwarding}`"


def test_certificates_of_plain_http_have_no_effect() -> None:
    """An operator would believe that the connection is encrypted."""
    assert faults(uri="http://127.0.0.1", ca_file="/ca.pem") == ["upstreams.lake.ca_file: has no effect with http"]


@pytest.mark.parametrize("prefix", ("a/../b", "/a", "a/", "%2e", "a b", "a?b", "a#b", "%zz", "k\u00e4se"))
def test_a_prefix_is_a_path_that_has_one_reading(prefix: str) -> None:
    """A prefix could lead calls out of the catalog that they were judged for."""
    assert len(faults(prefix=prefix)) == 1


@pytest.mark.parametrize(
    "header", ("Authorization", "cookie", "Host", "proxy-anything", "Transfer-Encoding", "a b", ":")
)
def test_headers_of_the_connection_cannot_be_let_through(header: str) -> None:
    """A caller could write the token that the upstream sees, or where its message ends."""
    assert faults(headers=["X-Fine", header]) == [f"upstreams.lake.headers[1]: {header!r} cannot be sent on"]


def test_there_are_so_many_upstreams_and_no_more() -> None:
    """Each has connections and metrics of its own; a generated file could use up both."""
    upstream = UpstreamSettings("https://catalog.example")
    assert [*upstream_faults({f"c{number}": upstream for number in range(MAX_UPSTREAMS)})] == []
    assert len([*upstream_faults({f"c{number}": upstream for number in range(MAX_UPSTREAMS + 1)})]) == 1


@pytest.mark.parametrize("forwarding", ("same", "exchange"))
def test_an_inventory_needs_a_token_of_no_caller(forwarding: str) -> None:
    """The server would wait for ever for an inventory that it has no right to take."""
    exchange = EXCHANGE if forwarding == "exchange" else {}
    (fault,) = faults(token_forwarding=forwarding, exchange=exchange, inventory={"required": True})
    assert fault.startswith("upstreams.lake.inventory.token_file: this key is missing")
    given = {"required": True, "token_file": "/t"}
    assert not faults(token_forwarding=forwarding, exchange=exchange, inventory=given)
    assert not faults(token_forwarding="none", inventory={"required": True})
