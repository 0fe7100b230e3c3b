"""Which of an upstream's properties reach a client: none that leads it elsewhere, none that could hold a key."""

from __future__ import annotations

import pytest
from msgspec import Raw
from msgspec.json import encode

from signproxy.catalog.client_properties import PASSED, passed


def told(**properties: object) -> dict[str, str]:
    return told_of(properties)


def told_of(properties: dict[str, object]) -> dict[str, str]:
    return passed({name: Raw(encode(value)) for name, value in properties.items()})


_GOOD = {
    "rest-metrics-reporting-enabled": "false",
    "rest-page-size": "200",
    "rest-table-cache.expire-after-write-ms": "1000",
    "rest-table-cache.max-entries": "0",
    "scan-planning-mode": "SERVER",
    "snapshot-loading-mode": "refs",
    "token-exchange-enabled": "false",
    "token-refresh-enabled": "true",
    "view-endpoints-supported": "true",
    "s3.checksum-enabled": "true",
    "s3.delete-enabled": "false",
    "s3.delete.batch-size": "100",
    "s3.multipart.part-size-bytes": "8388608",
    "s3.multipart.size": "33554432",
    "s3.multipart.num-threads": "4",
    "s3.sse.key": "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    "s3.sse.type": "kms",
}


def test_what_tunes_a_client_passes() -> None:
    """A catalog could no longer say how it wants its objects written."""
    assert _GOOD.keys() == PASSED.keys()
    assert told_of(dict(_GOOD)) == _GOOD


_DROPPED = """
uri warehouse prefix namespace-separator io-impl py-io-impl py-catalog-impl token credential scope audience
oauth2-server-uri rest.auth.type rest.sigv4-enabled rest.signing-name rest.access-key-id rest.secret-access-key
rest.client.proxy.hostname rest.client.tls.configurer-impl rest.http-client.class metrics-reporter-impl
header.Authorization header.X-Iceberg-Access-Delegation signer signer.uri signer.endpoint
client.factory client.region client.credentials-provider client.credentials-provider.glue.x client.assume-role.arn
client.refresh-credentials-endpoint client.refresh-credentials-enabled
s3.endpoint s3.region s3.path-style-access s3.force-virtual-addressing s3.proxy-uri s3.access-points.bucket
s3.access-key-id s3.secret-access-key s3.session-token s3.session-token-expires-at-ms s3.role-arn
s3.remote-signing-enabled s3.signer s3.signer.uri s3.signer.endpoint s3.client-factory-impl s3.connect-timeout
s3.request-timeout s3.crt.enabled s3.analytics-accelerator.enabled s3.cross-region-access-enabled
s3.acceleration-enabled s3.dualstack-enabled s3.use-arn-region-enabled s3.acl s3.write.tags.owner s3.sse.md5
s3.encryption.key gcs.oauth2.token adls.sas-token.account adls.connection-string.account
glue.id glue.endpoint dynamodb.endpoint lock-impl nessie.core-base-uri nessie.is-nessie-catalog
table-default.write.data.path table-override.write.data.path aws.remote-signing.enabled unknown-to-anybody
""".split()


@pytest.mark.parametrize("name", _DROPPED)
def test_what_leads_elsewhere_or_holds_keys_is_dropped(name: str) -> None:
    """A catalog that lies, or was taken over, would have the client send its token, or its data, to another host."""
    for value in ("true", "1", "https://evil.example", "AKIAIOSFODNN7EXAMPLE"):
        assert told_of({name: value}) == {}


@pytest.mark.parametrize("name", sorted(PASSED))
@pytest.mark.parametrize(
    "value",
    (
        "",
        " ",
        "https://evil.example",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOi.J9.x",
        "true\n",
        "1\n",
        "-1",
        "1e9",
        "9" * 40,
    ),
)
def test_a_value_has_no_room_for_a_secret(name: str, value: str) -> None:
    """A key in an innocent property is a key."""
    assert told_of({name: value}) == {}


@pytest.mark.parametrize("value", (None, True, 1, ["true"], {"a": "true"}))
def test_a_value_that_is_no_text_is_dropped(value: object) -> None:
    """The client would fail to read its configuration."""
    assert told_of({"s3.delete-enabled": value}) == {}


@pytest.mark.parametrize("kind", ("custom", "CUSTOM", "kms2", ""))
def test_no_encryption_with_a_key_of_the_catalogs(kind: str) -> None:
    """The key itself would be in the property."""
    assert told_of({"s3.sse.type": kind, "s3.sse.key": "c2VjcmV0LWtleS1vZi0zMi1ieXRlcy1sb25nISEhISE="}) == {}


@pytest.mark.parametrize(
    "key",
    (
        "arn:aws:kms:us-east-1:123456789012:key/",
        "arn:aws:iam::123456789012:role/admin",
        "arn:aws:kms:us-east-1:12345:key/x",
        "arn:evil:kms:us-east-1:123456789012:key/x",
        "1234abcd-12ab-34cd-56ef-1234567890ab",
    ),
)
def test_only_the_name_of_a_key_passes(key: str) -> None:
    """What looks like the name of a key, and is none, may be anything."""
    assert told_of({"s3.sse.key": key}) == {}


def test_the_order_is_always_the_same() -> None:
    """Two answers of one table would differ, and so would their ETags."""
    assert list(told(**{"s3.sse.type": "s3", "rest-page-size": "5"})) == ["rest-page-size", "s3.sse.type"]
