"""`GET /v1/config`: what a stock client is told, and what it is told only if it asks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
import pytest

from signproxy.catalog.config_answer import SIGN_ROUTES, TABLELESS_ENDPOINT, ClientConfig, client_config
from signproxy.catalog.signer_grant import DELEGATION_HEADER
from signproxy.policy.catalog import Catalog
from signproxy.server.api.routes import Endpoint, find_route
from tests.product import HOST, Product, token_of

PUBLIC = "https://sign.example/base"


def config(name: str = "lake", *, url: str = PUBLIC, signing: bool = True, delegation: str = "") -> ClientConfig:
    return client_config(Catalog(name, storages={}), url, signing=signing, delegation=delegation)


def test_routes_are_texts_that_every_client_can_parse() -> None:
    """Released clients split `METHOD path` at the space; anything else ends the session that loads a table."""
    endpoints = config().endpoints
    assert len(endpoints) == 2
    for text in endpoints:
        assert re.fullmatch(r"POST /[A-Za-z0-9/{}\-]+", text)


@pytest.mark.parametrize("route", SIGN_ROUTES)
def test_the_advertised_routes_are_served(route: str) -> None:
    """A client follows what it was told; a route that is not there is a 404 for each file."""
    path = route.partition(" ")[2].format(prefix="lake", namespace="a%1Fb", table="t")
    for mount in ("", "/catalogs/lake"):
        found = find_route(mount + path)
        assert (found.endpoint, found.address.prefix) == (Endpoint.SIGN, "lake")


def test_where_signing_is_off_nothing_of_it_is_told() -> None:
    """A client that is told to sign would fail on its first read instead of using its own credentials."""
    assert config(signing=False, delegation="remote-signing") == ClientConfig({}, {"prefix": "lake"}, [])


def test_where_signing_is_on_the_client_finds_the_signer() -> None:
    """Without these properties a stock client never calls the signer."""
    assert config() == ClientConfig(
        {},
        {
            "prefix": "lake",
            "aws.remote-signing.enabled": "true",
            "s3.signer.uri": "https://sign.example/base/catalogs/lake/",
            "s3.signer.endpoint": "v1/aws/s3/sign",
        },
        list(SIGN_ROUTES),
    )


def test_the_signers_url_is_resolved_to_a_served_route() -> None:
    """Clients join the two: Java resolves the endpoint against the uri, PyIceberg puts a slash between them."""
    overrides = config("my lake/ü").overrides
    uri, endpoint = overrides["s3.signer.uri"], overrides["s3.signer.endpoint"]
    assert endpoint == TABLELESS_ENDPOINT
    # A leading slash would throw the catalog's path away.
    assert not endpoint.startswith("/")
    assert uri.endswith("/")
    path = urlsplit(f"{uri}{endpoint}").path.removeprefix("/base")
    found = find_route(path)
    assert (found.endpoint, found.address.name, found.address.prefix) == (Endpoint.SIGN, "my lake/ü", None)


_ASKING: tuple[tuple[str, bool], ...] = (
    ("remote-signing", True),
    ("vended-credentials,remote-signing", True),
    ("remote-signing,vended-credentials", True),
    (" remote-signing ", True),
    ("vended-credentials , remote-signing", True),
    ("", False),
    ("vended-credentials", False),
    # The header is a list of names, not text to search in.
    ("no-remote-signing", False),
    ("remote-signing2", False),
    ("remote signing", False),
    ("Remote-Signing", False),
)


@pytest.mark.parametrize(("delegation", "asked"), _ASKING)
def test_what_breaks_other_clients_is_told_only_on_request(delegation: str, *, asked: bool) -> None:
    """iceberg-go refuses a table with the first of these keys, PyIceberg changes its FileIO for the last."""
    keys = {"s3.remote-signing-enabled", "s3.signer", "py-io-impl"}
    overrides = config(delegation=delegation).overrides
    assert (keys <= overrides.keys()) is asked
    assert bool(keys & overrides.keys()) is asked
    if asked:
        assert {key: overrides[key] for key in keys} == {
            "s3.remote-signing-enabled": "true",
            "s3.signer": "S3V4RestSigner",
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        }


@pytest.mark.parametrize("name", ("lake", "my lake", "a/b", "a%2Fb", "d+e", "ü", "..", "x?y#z", "a&b=c", "~._-"))
def test_an_odd_name_survives_the_way_through_a_url(name: str) -> None:
    """A name that changes in a URL is another catalog, or none."""
    overrides = config(name).overrides
    assert unquote_to_bytes(overrides["prefix"]).decode() == name
    assert "/" not in overrides["prefix"]
    assert overrides["s3.signer.uri"] == f"{PUBLIC}/catalogs/{overrides['prefix']}/"


@pytest.mark.parametrize("url", ("https://sign.example", "https://sign.example/", "https://sign.example//"))
def test_the_public_url_may_end_with_a_slash(url: str) -> None:
    """A doubled slash is another route."""
    assert config(url=url).overrides["s3.signer.uri"] == "https://sign.example/catalogs/lake/"


async def _served(product: Product, query: str = "", headers: Mapping[str, str] | None = None) -> tuple[int, object]:
    status, _, answer = await product.call("GET", f"/v1/config{query}", headers=headers)
    return status, answer


async def test_the_route_answers_for_the_warehouse_that_is_asked_for() -> None:
    """A client names its catalog as `warehouse`, or means the default one."""
    async with Product().running() as product:
        for query, prefix, signing in (
            ("", "lake", True),
            ("?warehouse=lake", "lake", True),
            ("?warehouse=opaque-1", "lake", True),
            ("?warehouse=located&other=x", "located", True),
            ("?warehouse=dark", "dark", False),
            ("?warehouse=foreign", "foreign", False),
        ):
            status, answer = await _served(product, query)
            assert status == 200
            parsed = msgspec.convert(answer, ClientConfig)
            assert (parsed.overrides["prefix"], bool(parsed.endpoints)) == (prefix, signing), query
        assert (await _served(product, "?warehouse=hidden"))[0] == 403
        assert (await _served(product, "?warehouse=nosuch"))[0] == 403
        assert (await _served(product, "?warehouse=a&warehouse=b"))[0] == 400


async def test_no_host_header_changes_what_is_advertised() -> None:
    """A caller that can set a Host could lead every client of a cache to another signer."""
    async with Product().running() as product:
        _, plain = await _served(product)
        spoofed = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
        _, answer = await _served(product, headers=spoofed)
    assert answer == plain
    assert "evil" not in str(answer)


async def test_the_delegation_header_reaches_the_answer() -> None:
    """PyIceberg and Java both send it with their first call."""
    async with Product().running() as product:
        _, answer = await _served(product, headers={DELEGATION_HEADER: "vended-credentials,remote-signing"})
    assert "py-io-impl" in str(answer)


async def test_every_configuration_call_is_recorded_once() -> None:
    """Exactly one event per request, of the kind that it was."""
    async with Product().running() as product:
        await _served(product)
        await _served(product, "?warehouse=hidden")
        await product.call("GET", "/v1/config", who=None)
        events = product.events()
    assert [(event.kind.value, event.decision.value, event.reason) for event in events] == [
        ("config", "allow", "allowed"),
        ("config", "deny", "principal_unknown"),
        ("config", "deny", "token_missing"),
    ]
    assert events[0].catalog == "lake"
    assert HOST not in str(events)
    assert token_of("reader") not in str(events)
