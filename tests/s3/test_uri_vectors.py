"""URL spellings that other signers' tests hold (U: by style, P: by style flag), answered by configuration alone.

Others read bucket and style out of a host name; here every host is listed. A vector whose host is configured gives
the bucket and key that the vector expects; one that would have to be guessed is refused.
"""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signproxy.errors import Reason
from signproxy.s3.canonical import canonical_path
from signproxy.s3.key import check_key
from signproxy.s3.request import S3Request
from signproxy.s3.storage import EndpointIndex, S3Endpoint, Storage, StorageKind, Style, aws_endpoints
from signproxy.s3.uri import PLAIN, decode_once, is_canonical, split_uri
from tests.s3.world import outcome, wire

PATH = (Style.PATH,)
HOST = (Style.VIRTUAL_HOST,)
BOTH = (Style.PATH, Style.VIRTUAL_HOST)


def _compatible(origin: str, styles: tuple[Style, ...], *buckets: str) -> EndpointIndex:
    scheme, _, authority = origin.partition("://")
    endpoint = S3Endpoint(scheme, authority, styles)
    return EndpointIndex([Storage("s", StorageKind.S3_COMPATIBLE, "rgn", buckets or ("bkt",), (endpoint,))])


def _aws(region: str, *buckets: str) -> EndpointIndex:
    return EndpointIndex([Storage("s", StorageKind.AWS, region, buckets or ("bkt",), aws_endpoints(region))])


def _answer(endpoints: EndpointIndex, uri: str, region: str) -> tuple[str, str] | Reason:
    got = outcome(wire("GET", uri, region=region), endpoints)
    return (got.bucket, got.key) if isinstance(got, S3Request) else got


_U: list[tuple[str, EndpointIndex, str, str, tuple[str, str] | Reason]] = [
    # A path-style host whose first label looks like a bucket: the configured style decides.
    (
        "U1",
        _compatible("https://nobucket.s3.rgn.corp", PATH),
        "https://nobucket.s3.rgn.corp/bkt/k",
        "rgn",
        ("bkt", "k"),
    ),
    ("U2", _aws("eu-west-1"), "https://bkt.s3.eu-west-1.amazonaws.com/k", "eu-west-1", ("bkt", "k")),
    ("U3", _compatible("https://s3-service", HOST), "https://bkt.s3-service/k", "rgn", ("bkt", "k")),
    ("U4", _compatible("https://s3.endpoint.com", BOTH), "https://bkt.s3.endpoint.com/p/a/k", "rgn", ("bkt", "p/a/k")),
    ("U5", _compatible("https://s3-endpoint", BOTH), "https://s3-endpoint/bkt/a/k", "rgn", ("bkt", "a/k")),
    (
        "U6 localhost",
        _compatible("http://localhost:9000", PATH),
        "http://localhost:9000/bkt/a/k",
        "rgn",
        ("bkt", "a/k"),
    ),
    ("U6 loopback", _compatible("http://127.0.0.1:9000", PATH), "http://127.0.0.1:9000/bkt/f", "rgn", ("bkt", "f")),
    ("U6 address", _compatible("http://192.168.1.1", PATH), "http://192.168.1.1/bkt/a/k", "rgn", ("bkt", "a/k")),
    ("U7", _aws("eu-central-1"), "https://bkt.s3-eu-central-1.amazonaws.com/f", "eu-central-1", ("bkt", "f")),
    ("U8 host", _aws("eu-west-1"), "https://bkt.s3.amazonaws.com/f", "eu-west-1", ("bkt", "f")),
    ("U8 path", _aws("eu-west-1"), "https://s3.amazonaws.com/bkt/f", "eu-west-1", ("bkt", "f")),
    ("U9", _aws("us-east-1"), "https://s3.us-east-1.amazonaws.com/bkt/f", "us-east-1", ("bkt", "f")),
    (
        "U10 region",
        _compatible("https://s3.rgn.private.com:9000", BOTH),
        "https://bkt.s3.rgn.private.com:9000/f",
        "rgn",
        ("bkt", "f"),
    ),
    ("U10", _compatible("https://s3.private.com:9000", BOTH), "https://bkt.s3.private.com:9000/f", "rgn", ("bkt", "f")),
    (
        "U11",
        _compatible("https://s3.rgn.private.amazonaws.com:9000", BOTH),
        "https://s3.rgn.private.amazonaws.com:9000/bkt/f",
        "rgn",
        ("bkt", "f"),
    ),
    (
        "U11 no region",
        _compatible("https://s3.private.amazonaws.com:9000", BOTH),
        "https://s3.private.amazonaws.com:9000/bkt/f",
        "rgn",
        ("bkt", "f"),
    ),
    (
        "U12 userinfo",
        _compatible("https://s3.rgn.private.com:9000", BOTH),
        "https://user@bkt.s3.rgn.private.com:9000/f",
        "rgn",
        Reason.URI_USERINFO,
    ),
    (
        "U12 userinfo, dash",
        _compatible("https://s3-rgn.localdomain.com:9000", BOTH),
        "https://user@bkt.s3-rgn.localdomain.com:9000/f",
        "rgn",
        Reason.URI_USERINFO,
    ),
    ("U13", _compatible("http://s3.foo:9000", PATH), "http://s3.foo:9000/bkt/f", "rgn", ("bkt", "f")),
    (
        "U13 localhost",
        _compatible("http://s3.localhost:9000", PATH),
        "http://s3.localhost:9000/bkt/f",
        "rgn",
        ("bkt", "f"),
    ),
    (
        "U13 localdomain",
        _compatible("http://s3.localhost.localdomain:9000", PATH),
        "http://s3.localhost.localdomain:9000/bkt/f",
        "rgn",
        ("bkt", "f"),
    ),
    ("U14", _aws("us-east-2"), "https://bkt.s3-fips.dualstack.us-east-2.amazonaws.com/f", "us-east-2", ("bkt", "f")),
    # An access point does not name its bucket: nothing says which table its keys belong to.
    (
        "U15 path",
        _aws("us-gov-west-1"),
        "https://s3-accesspoint.dualstack.us-gov-west-1.amazonaws.com/bkt/f",
        "us-gov-west-1",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "U15 host",
        _aws("us-gov-west-1"),
        "https://bkt.s3-accesspoint.dualstack.us-gov-west-1.amazonaws.com/f",
        "us-gov-west-1",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "U16",
        _compatible("https://acct1.r2.cloudflarestorage.com", BOTH),
        "https://bkt.acct1.r2.cloudflarestorage.com/f",
        "rgn",
        ("bkt", "f"),
    ),
    (
        "U16 eu",
        _compatible("https://acct1.eu.r2.cloudflarestorage.com", BOTH),
        "https://bkt.acct1.eu.r2.cloudflarestorage.com/f",
        "rgn",
        ("bkt", "f"),
    ),
    # The account of a path-style R2 address is no bucket.
    (
        "U16 path",
        _compatible("https://acct1.r2.cloudflarestorage.com", BOTH),
        "https://acct1.r2.cloudflarestorage.com/bkt/f",
        "rgn",
        ("bkt", "f"),
    ),
    ("U17", _aws("eu-west-1"), "https://s3.eu-west-1.amazonaws.com/k", "eu-west-1", Reason.ENDPOINT_UNKNOWN),
]


@pytest.mark.parametrize(("_name", "endpoints", "uri", "region", "expected"), _U, ids=[row[0] for row in _U])
def test_a_host_means_what_is_configured(
    _name: str, endpoints: EndpointIndex, uri: str, region: str, expected: tuple[str, str] | Reason
) -> None:
    """A bucket that is guessed from a host name is sooner or later another owner's bucket."""
    assert _answer(endpoints, uri, region) == expected


_P_PREFIXES = ("s3-fips", "s3-accelerate", "s3.dualstack", "s3-fips.dualstack", "s3-accelerate.dualstack")


@pytest.mark.parametrize("prefix", _P_PREFIXES)
def test_p_the_aliases_of_a_region_are_known(prefix: str) -> None:
    """A client with dual-stack, FIPS or acceleration switched on would be locked out."""
    regional = "" if prefix.startswith("s3-accelerate") else ".us-west-2"
    uri = f"https://my-bucket.{prefix}{regional}.amazonaws.com/path/to/file"
    assert _answer(_aws("us-west-2", "my-bucket"), uri, "us-west-2") == ("my-bucket", "path/to/file")


@pytest.mark.parametrize("prefix", ("s3", "s3-fips", "s3.dualstack"))
def test_p_the_aliases_of_a_region_take_path_style(prefix: str) -> None:
    """SDKs fall back to path style for dotted buckets."""
    uri = f"https://{prefix}.us-west-2.amazonaws.com/my.app.bucket/key"
    assert _answer(_aws("us-west-2", "my.app.bucket"), uri, "us-west-2") == ("my.app.bucket", "key")


def test_p_acceleration_has_no_path_style() -> None:
    """S3 does not serve it, so a signature for it would only ever be a riddle."""
    uri = "https://s3-accelerate.amazonaws.com/my-bucket/key"
    assert _answer(_aws("us-west-2", "my-bucket"), uri, "us-west-2") is Reason.ENDPOINT_UNKNOWN


_P: list[tuple[str, EndpointIndex, str, str, tuple[str, str] | Reason]] = [
    (
        "china",
        _aws("cn-north-1", "my-bucket"),
        "https://my-bucket.s3.cn-north-1.amazonaws.com.cn/k",
        "cn-north-1",
        ("my-bucket", "k"),
    ),
    # China has no global host, and its keys are of no use at the world's.
    (
        "china global",
        _aws("cn-north-1", "my-bucket"),
        "https://my-bucket.s3.amazonaws.com/k",
        "cn-north-1",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "plain http",
        _aws("us-west-2", "my-bucket"),
        "http://my-bucket.s3.us-west-2.amazonaws.com/k",
        "us-west-2",
        Reason.ENDPOINT_UNKNOWN,
    ),
    # Java sends the host as spelled, Python in lower case: no signature fits both.
    (
        "host in upper case",
        _aws("us-west-2", "my-bucket"),
        "https://MY-BUCKET.S3.us-west-2.amazonaws.com/k",
        "us-west-2",
        Reason.URI_MALFORMED,
    ),
    (
        "scheme in upper case",
        _aws("us-west-2", "my-bucket"),
        "HTTPS://my-bucket.s3.us-west-2.amazonaws.com/k",
        "us-west-2",
        Reason.URI_MALFORMED,
    ),
    (
        "access point",
        _aws("us-west-2", "my-access-point"),
        "https://my-access-point.s3-accesspoint.us-west-2.amazonaws.com/path",
        "us-west-2",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "minio host",
        _compatible("http://minio.local", HOST, "my-bucket"),
        "http://my-bucket.minio.local/path",
        "rgn",
        ("my-bucket", "path"),
    ),
    (
        "path with key",
        _compatible("http://localhost:9000", PATH, "my-bucket"),
        "http://localhost:9000/my-bucket/key",
        "rgn",
        ("my-bucket", "key"),
    ),
    (
        "dotted bucket",
        _aws("us-west-2", "my.app.bucket"),
        "https://my.app.bucket.s3.us-west-2.amazonaws.com/data/year=2024/month=01/f",
        "us-west-2",
        ("my.app.bucket", "data/year=2024/month=01/f"),
    ),
    # Stores decode once: the raw form is no valid URI, the escaped one is the key.
    (
        "non-ASCII raw",
        _aws("us-west-2", "my-bucket"),
        "https://my-bucket.s3.us-west-2.amazonaws.com/caf\u00e9",
        "us-west-2",
        Reason.URI_MALFORMED,
    ),
    (
        "non-ASCII escaped",
        _aws("us-west-2", "my-bucket"),
        "https://my-bucket.s3.us-west-2.amazonaws.com/caf%C3%A9",
        "us-west-2",
        ("my-bucket", "caf\u00e9"),
    ),
    ("no scheme", _aws("us-west-2"), "/some/path", "us-west-2", Reason.URI_MALFORMED),
    ("arn", _aws("us-west-2"), "arn:aws:s3:::my-bucket/key", "us-west-2", Reason.URI_MALFORMED),
    ("no host", _aws("us-west-2"), "https:///some/path", "us-west-2", Reason.URI_MALFORMED),
    ("s3 scheme", _aws("us-west-2"), "s3://bkt/key", "us-west-2", Reason.URI_MALFORMED),
    ("ftp", _aws("us-west-2"), "ftp://bkt.s3.us-west-2.amazonaws.com/key", "us-west-2", Reason.URI_MALFORMED),
    ("service", _aws("us-west-2"), "https://s3.us-west-2.amazonaws.com", "us-west-2", Reason.OPERATION_REFUSED),
    ("service slash", _aws("us-west-2"), "https://s3.us-west-2.amazonaws.com/", "us-west-2", Reason.OPERATION_REFUSED),
    ("no bucket", _aws("us-west-2"), "https://s3.us-west-2.amazonaws.com//path", "us-west-2", Reason.ENDPOINT_UNKNOWN),
    (
        "empty first label",
        _compatible("http://minio.local", HOST),
        "http://.minio.local/k",
        "rgn",
        Reason.ENDPOINT_UNKNOWN,
    ),
    (
        "bare virtual host",
        _compatible("http://minio.local", HOST),
        "http://minio.local/bkt/k",
        "rgn",
        Reason.ENDPOINT_UNKNOWN,
    ),
    # A path-style endpoint addressed by virtual host: the store would take the first segment as the bucket.
    (
        "host at a path endpoint",
        _compatible("http://minio.local:9000", PATH, "lake"),
        "http://lake.minio.local:9000/warehouse/f",
        "rgn",
        Reason.ENDPOINT_UNKNOWN,
    ),
]


@pytest.mark.parametrize(("_name", "endpoints", "uri", "region", "expected"), _P, ids=[row[0] for row in _P])
def test_p_the_style_is_the_endpoints(
    _name: str, endpoints: EndpointIndex, uri: str, region: str, expected: tuple[str, str] | Reason
) -> None:
    """A style that the client chooses makes it choose the object that is signed for."""
    assert _answer(endpoints, uri, region) == expected


_SPELLINGS = [
    ("https://s3.us-west-2.amazonaws.com:443/bkt/k", ("bkt", "k")),
    ("https://bkt.s3.us-west-2.amazonaws.com:443/k", ("bkt", "k")),
    ("https://s3.us-west-2.amazonaws.com:0443/bkt/k", Reason.ENDPOINT_UNKNOWN),
    ("https://s3.us-west-2.amazonaws.com:80/bkt/k", Reason.ENDPOINT_UNKNOWN),
    ("https://s3.us-west-2.amazonaws.com:/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com:123456/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com./bkt/k", Reason.ENDPOINT_UNKNOWN),
    ("https://s3%2eus-west-2.amazonaws.com/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com%3a443/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com\\@evil.example/bkt/k", Reason.URI_USERINFO),
    ("https://s3.us-west-2.amazonaws.com\\.evil.example/bkt/k", Reason.URI_MALFORMED),
    ("https://evil.example/bkt/k", Reason.ENDPOINT_UNKNOWN),
    ("https://evil.example#@s3.us-west-2.amazonaws.com/bkt/k", Reason.URI_FRAGMENT),
    ("https://s3.us-west-2.amazonaws.com.evil.example/bkt/k", Reason.ENDPOINT_UNKNOWN),
    ("https://bkt.s3.evil.us-west-2.amazonaws.com/k", Reason.ENDPOINT_UNKNOWN),
    ("https://bkt@s3.us-west-2.amazonaws.com/k", Reason.URI_USERINFO),
    ("https://s3.us-west-2.amazonaws.com/bkt/k#f", Reason.URI_FRAGMENT),
    ("https://[::1]/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/b%6bt/k", Reason.ENDPOINT_UNKNOWN),
    (" https://s3.us-west-2.amazonaws.com/bkt/k", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k\n", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k\t0", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k v", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k\ud800", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k%zz", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k%", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k%4", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/[k]", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k?a=[1]", Reason.URI_MALFORMED),
    ("https://s3.us-west-2.amazonaws.com/bkt/k?", ("bkt", "k")),
    ("https://s3.us-west-2.amazonaws.com/bkt/k??", Reason.OPERATION_UNKNOWN),
    ("https://s3.us-west-2.amazonaws.com/bkt/k?&", Reason.QUERY_MALFORMED),
    ("", Reason.URI_MALFORMED),
    ("https://", Reason.URI_MALFORMED),
]


@pytest.mark.parametrize(("uri", "expected"), _SPELLINGS)
def test_an_origin_has_one_spelling(uri: str, expected: tuple[str, str] | Reason) -> None:
    """Parsers disagree on all of these; a signer that asks one of them signs for what another one sees."""
    assert _answer(_aws("us-west-2"), uri, "us-west-2") == expected


def test_the_longest_uri_is_read_and_one_past_it_is_not() -> None:
    """Without a limit a single request could occupy the loop."""
    base = "https://s3.us-west-2.amazonaws.com/bkt/k?x-id="
    at_limit = base + "a" * (8192 - len(base))
    assert _answer(_aws("us-west-2"), at_limit, "us-west-2") == ("bkt", "k")
    assert _answer(_aws("us-west-2"), at_limit + "a", "us-west-2") is Reason.URI_MALFORMED


_PIECES = st.lists(
    st.sampled_from(
        [
            "/",
            "a",
            "wh",
            ".",
            "..",
            "-",
            "_",
            "~",
            "%",
            "%2F",
            "%3D",
            "=",
            "+",
            "?",
            "#",
            "@",
            "\\",
            " ",
            "\u00e9",
            "t1.x",
        ]
    ),
    max_size=12,
).map("".join)


@given(_PIECES)
def test_what_is_plain_needs_none_of_the_other_looks(path: str) -> None:
    """One match stands for grammar, decoding, key rules and canonical form; so it must imply each of them."""
    uri = f"https://s3.us-west-2.amazonaws.com{path}"
    plain = PLAIN.fullmatch(uri)
    if plain is None:
        return
    origin, key = plain.groups()
    assert split_uri(uri) == (origin, key, None)
    assert decode_once(key) == key
    assert is_canonical(key)
    assert canonical_path(key) == key
    check_key(key[1:])


_PLAIN_PATHS = [
    ("/bkt/wh/t1/00000-1-abc_d~e.parquet", True),
    ("/bkt", True),
    ("/a.b", True),
    ("/a..", True),
    ("", False),
    ("/", False),
    ("/a/", False),
    ("//a", False),
    ("/a//b", False),
    ("/.a", False),
    ("/a/../b", False),
    ("/a%3Db", False),
    ("/a=b", False),
    ("/a?x", False),
    ("/a\n", False),
]


@pytest.mark.parametrize(("path", "plain"), _PLAIN_PATHS)
def test_plain_is_what_engines_write(path: str, plain: bool) -> None:
    """If nothing were plain, the quick way would be dead code; if too much, it would be a hole."""
    assert (PLAIN.fullmatch(f"https://s3.us-west-2.amazonaws.com{path}") is not None) is plain


@given(st.text(alphabet="aZ09-._~/%=+ \u00e9", max_size=30))
def test_the_canonical_form_is_recognised_exactly(text: str) -> None:
    """A path that is signed as it came must be what S3 makes of it."""
    raw = "/" + quote(text, safe="/=+")
    assert is_canonical(raw) == (canonical_path(decode_once(raw)) == raw)
