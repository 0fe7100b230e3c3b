"""Signatures are AWS': the published examples, botocore on thousands of requests, and a verifier of our own."""

from __future__ import annotations

import copy
import pickle
import random
import string
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from botocore.auth import SIGNED_HEADERS_BLACKLIST, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.sigv4 import SigningKey, amz_date
from tests.verifier import WireHttp, verify

ACCESS_KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
NOW = 1_800_000_000
SET_BY_THE_SIGNER = {"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"}

Headers = tuple[tuple[str, str], ...]


@pytest.fixture
def key() -> SigningKey:
    return SigningKey(ACCESS_KEY_ID, SECRET, "us-east-1")


def folded(value: str) -> str:
    return " ".join(value.split())


def signature_of(authorization: str) -> str:
    return authorization.rpartition("Signature=")[2]


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A request that is to be signed, decoded."""

    method: str = "GET"
    scheme: str = "https"
    host: str = "lake.s3.us-east-1.amazonaws.com"
    path: str = "/k"
    query: tuple[tuple[str, str], ...] = ()
    headers: Headers = ()
    payload: str = "UNSIGNED-PAYLOAD"
    moment: str = "20260101T000000Z"
    token: str = ""

    def signed_by(self, key: SigningKey) -> str:
        """Return our Authorization."""
        return key.authorization(
            self.method,
            self.host,
            canonical_path(self.path),
            canonical_query(self.query),
            self.headers,
            self.payload,
            self.moment,
            self.token,
        )

    def signed_by_botocore(self, region: str = "us-east-1") -> str:
        """Return the Authorization of the AWS SDK for the same request, encoded as S3 encodes it."""
        # botocore signs the path as it stands; urllib's encoder keeps the oracle apart from the code under test.
        request = AWSRequest(
            method=self.method,
            url=f"{self.scheme}://{self.host}{quote(self.path, safe='/~')}",
            headers=dict(self.headers),
            params=list(self.query),
        )
        credentials = Credentials(ACCESS_KEY_ID, SECRET, self.token or None)
        Oracle(credentials, region, self.moment, self.payload).add_auth(request)
        authorization: str = request.headers["Authorization"]
        return authorization


class Oracle(S3SigV4Auth):  # type: ignore[misc]  # botocore is published without types
    """botocore's S3 signer at a fixed moment and for a given payload hash, which it would overwrite."""

    def __init__(self, credentials: Credentials, region: str, moment: str, payload: str) -> None:
        super().__init__(credentials, "s3", region)
        self._moment = moment
        self._payload = payload

    def _modify_request_before_signing(self, request: Any) -> None:
        request.context["timestamp"] = self._moment
        super()._modify_request_before_signing(request)

    def payload(self, request: Any) -> str:
        """Return the hash that was given, whatever the body."""
        del request
        return self._payload


@pytest.mark.parametrize(
    ("request_", "signed_headers", "signature"),
    (
        # The examples of "Authenticating Requests: Using the Authorization Header" in the S3 API reference.
        pytest.param(
            Unsigned(path="/test.txt", headers=(("range", "bytes=0-9"),), payload=EMPTY_SHA256),
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            id="GET Object",
        ),
        pytest.param(
            Unsigned(
                method="PUT",
                path="/test$file.text",
                headers=(("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")),
                payload="44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            ),
            "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            id="PUT Object",
        ),
        pytest.param(
            Unsigned(path="/", query=(("lifecycle", ""),), payload=EMPTY_SHA256),
            "host;x-amz-content-sha256;x-amz-date",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            id="GET Bucket Lifecycle",
        ),
        pytest.param(
            Unsigned(path="/", query=(("prefix", "J"), ("max-keys", "2")), payload=EMPTY_SHA256),
            "host;x-amz-content-sha256;x-amz-date",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            id="GET Bucket (List Objects)",
        ),
    ),
)
def test_aws_published_examples_come_out(
    key: SigningKey, request_: Unsigned, signed_headers: str, signature: str
) -> None:
    """AWS' own examples are the one oracle that was not copied through another reader."""
    dated = replace(request_, host="examplebucket.s3.amazonaws.com", moment="20130524T000000Z")
    assert dated.signed_by(key) == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders={signed_headers}, Signature={signature}"
    )


key_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from(" /+%=&?#;:@!*'()~._-é日😀aZ0"), max_size=40
)
parameters = st.lists(
    st.tuples(
        st.sampled_from(["a", "a-b", "a.b", "A", "acl", "prefix", "uploadId", "partNumber", "list-type"]) | key_text,
        st.just("") | key_text,
    ),
    max_size=5,
).map(tuple)
# A header's name is lower-case already; those that S3 never sees signed are botocore's to leave out, not ours.
header_names = (
    st.sampled_from(
        [
            "content-type",
            "content-md5",
            "content-encoding",
            "x-amz-te",
            "x-amz-acl",
            "x-amz-copy-source",
            "x-amz-checksum-crc32",
            "x-amz-trailer",
            "if-none-match",
            "gzz",
            "hosts",
            "x-amz-content-sha255",
            "x-amz-datf",
            "x-amz-security-tokens",
            "z",
        ]
    )
    | st.text(string.ascii_lowercase + string.digits + "-_", min_size=1, max_size=12).map("x-amz-meta-".__add__)
).filter(lambda name: name not in SET_BY_THE_SIGNER and name not in SIGNED_HEADERS_BLACKLIST)
header_values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30).map(folded)
header_sets = st.dictionaries(header_names, header_values, max_size=5).map(lambda d: tuple(sorted(d.items())))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2099, 12, 31)).map("{:%Y%m%dT%H%M%SZ}".format)  # noqa: DTZ001
hosts = st.sampled_from(
    [
        "lake.s3.eu-west-1.amazonaws.com",
        "s3.amazonaws.com",
        "127.0.0.1:9000",
        "minio.local:9000",
        "xn--bcher-kva.example",
    ]
)
payloads = st.sampled_from(["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", EMPTY_SHA256])
tokens = st.just("") | st.text(string.ascii_letters + string.digits + "+/=", min_size=1, max_size=400)


requests = st.builds(
    Unsigned,
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    scheme=st.sampled_from(["http", "https"]),
    host=hosts,
    path=key_text.map("/".__add__),
    query=parameters,
    headers=header_sets,
    payload=payloads,
    moment=moments,
    token=tokens,
)


@settings(max_examples=4 * settings().max_examples)
@given(requests, st.sampled_from(["us-east-1", "eu-central-1", "auto"]))
@example(Unsigned(path="/lake/t/data/dt=1/a.parquet"), "us-east-1")
@example(Unsigned(path="/", query=(("acl", ""),), headers=(("x-amz-te", "append-md5"),), token="t"), "us-east-1")
@example(Unsigned(query=(("a-b", "1"), ("a", "1")), headers=(("a", "1"), ("z", "2"))), "us-east-1")
def test_every_request_is_signed_as_botocore_signs_its_canonical_form(unsigned: Unsigned, region: str) -> None:
    """A store that accepts the AWS SDKs accepts us."""
    assert unsigned.signed_by(SigningKey(ACCESS_KEY_ID, SECRET, region)) == unsigned.signed_by_botocore(region)


def test_thousands_of_table_requests_are_signed_as_botocore_signs_them() -> None:
    """The long run with one long-lived key, as a process has it: shapes that engines send, days that change."""
    draw = random.Random(20_130_524)
    key = SigningKey(ACCESS_KEY_ID, SECRET, "eu-central-1")
    signatures = set()
    for number in range(3000):
        day = draw.randrange(20_270_101, 20_270_104)
        moment = f"{day}T{draw.randrange(24):02}{draw.randrange(60):02}{draw.randrange(60):02}Z"
        partition = "".join(draw.choices("aZ09-._~ /+%=&?#:@!$'()*,;é日😀", k=draw.randrange(12)))
        path = f"/lake/sales/orders/data/region={partition}/{number:05}-0-{draw.getrandbits(128):032x}.parquet"
        query: tuple[tuple[str, str], ...] = draw.choice(
            [
                (),
                (("uploads", ""),),
                (("uploadId", f"{draw.getrandbits(64):x}+/="), ("partNumber", str(number))),
                (("x-id", "GetObject"), ("x-signproxy-id", f"{draw.getrandbits(128):032x}")),
                (("list-type", "2"), ("prefix", f"sales/orders/{partition}"), ("delimiter", "/"), ("max-keys", "1")),
            ]
        )
        headers = tuple(
            sorted(
                draw.sample(
                    [
                        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
                        ("content-type", "application/octet-stream"),
                        ("if-none-match", "*"),
                        ("x-amz-copy-source", f"/lake/{quote(partition)}"),
                        ("x-amz-te", "append-md5"),
                        ("x-amz-trailer", "x-amz-checksum-crc32"),
                    ],
                    draw.randrange(4),
                )
            )
        )
        token = draw.choice(["", f"IQoJb3JpZ2luX2Vj{draw.getrandbits(2000):x}"])
        method = draw.choice(["GET", "HEAD", "PUT", "POST", "DELETE"])
        payload = draw.choice(["UNSIGNED-PAYLOAD", f"{draw.getrandbits(256):064x}"])
        unsigned = Unsigned(
            method=method, path=path, query=query, headers=headers, payload=payload, moment=moment, token=token
        )
        signature = unsigned.signed_by(key)
        assert signature == unsigned.signed_by_botocore("eu-central-1")
        signatures.add(signature)
    assert len(signatures) == 3000


@settings(max_examples=2 * settings().max_examples)
@given(requests.filter(lambda unsigned: all(name for name, _ in unsigned.query)))
def test_what_is_signed_verifies_as_it_comes_off_the_wire(unsigned: Unsigned) -> None:
    """The store sees the client's spelling, not our canonical form: one decoding must lead to the same request."""
    unsigned = replace(unsigned, moment=amz_date(NOW))
    authorization = unsigned.signed_by(SigningKey(ACCESS_KEY_ID, SECRET, "eu-west-1"))
    # As lazily as a client may: slash, equals sign and plus raw in the path, the slash raw in the query, a space as
    # plus there, a marker without its equals sign.
    raw_path = quote(unsigned.path, safe="/=+:@!$'()*,~")
    raw_query = "&".join(
        quote(name, safe="/ ").replace(" ", "+") + (f"={quote(value, safe='/ ').replace(' ', '+')}" if value else "")
        for name, value in unsigned.query
    )
    sent = [
        ("Host", unsigned.host),
        ("Authorization", authorization),
        ("X-Amz-Date", unsigned.moment),
        ("x-amz-content-sha256", unsigned.payload),
        *((name.title(), f"  {value.replace(' ', '   ')} ") for name, value in unsigned.headers),
    ]
    tokens = {}
    if unsigned.token:
        sent.append(("X-Amz-Security-Token", unsigned.token))
        tokens[ACCESS_KEY_ID] = unsigned.token
    wire = WireHttp(unsigned.method, f"{raw_path}?{raw_query}" if raw_query else raw_path, tuple(sent))
    verify(wire, {ACCESS_KEY_ID: SECRET}, now=NOW, tokens=tokens, region="eu-west-1")


@pytest.mark.parametrize(
    ("headers", "token", "signed"),
    (
        # Each gap between the signer's own names, with and without the token that opens one more.
        ((), "", "host;x-amz-content-sha256;x-amz-date"),
        ((), "t", "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"),
        ((("a", "1"),), "", "a;host;x-amz-content-sha256;x-amz-date"),
        ((("i", "1"),), "t", "host;i;x-amz-content-sha256;x-amz-date;x-amz-security-token"),
        ((("x-amz-copy-source", "/b/k"),), "", "host;x-amz-content-sha256;x-amz-copy-source;x-amz-date"),
        ((("x-amz-meta-a", "1"),), "t", "host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-security-token"),
        ((("x-amz-te", "1"),), "t", "host;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-amz-te"),
        ((("a", "1"), ("z", "2")), "", "a;host;x-amz-content-sha256;x-amz-date;z"),
    ),
)
def test_signed_headers_are_named_in_order(key: SigningKey, headers: Headers, token: str, signed: str) -> None:
    """A store reads the names in the order given and refuses a list that is not sorted."""
    assert f", SignedHeaders={signed}, " in Unsigned(headers=headers, token=token).signed_by(key)


@pytest.mark.parametrize(
    "changed",
    (
        {"method": "PUT"},
        {"host": "other"},
        {"path": "/l"},
        {"query": (("acl", ""),)},
        {"headers": (("x-amz-te", "other"),)},
        {"headers": (("x-amz-tf", "append-md5"),)},
        {"headers": ()},
        {"payload": EMPTY_SHA256},
        {"moment": "20260101T000001Z"},
        {"moment": "20260102T000000Z"},
        {"token": "other"},
        {"token": ""},
    ),
)
def test_a_signature_binds_every_part(key: SigningKey, changed: dict[str, Any]) -> None:
    """A part that is not bound could be exchanged after the decision."""
    unsigned = Unsigned(headers=(("x-amz-te", "append-md5"),), token="t")
    assert signature_of(unsigned.signed_by(key)) != signature_of(replace(unsigned, **changed).signed_by(key))


@pytest.mark.parametrize(
    "other",
    (
        SigningKey(ACCESS_KEY_ID, "another secret", "us-east-1"),
        SigningKey(ACCESS_KEY_ID, SECRET, "us-east-2"),
        SigningKey(ACCESS_KEY_ID, SECRET, "us-east-1", "sts"),
    ),
    ids=["secret", "region", "service"],
)
def test_a_signature_is_of_one_key_region_and_service(key: SigningKey, other: SigningKey) -> None:
    """Derived keys that were shared would sign for a storage that was not decided on."""
    assert signature_of(Unsigned().signed_by(key)) != signature_of(Unsigned().signed_by(other))


def test_another_service_is_signed_for_by_name() -> None:
    """STS and forwarded calls share the key's code; AWS refuses a scope of the wrong service."""
    key = SigningKey(ACCESS_KEY_ID, SECRET, "us-east-1", "sts")
    authorization = Unsigned().signed_by(key)
    assert " Credential=AKIAIOSFODNN7EXAMPLE/20260101/us-east-1/sts/aws4_request, " in authorization
    assert (key.access_key_id, key.region, key.service) == (ACCESS_KEY_ID, "us-east-1", "sts")


def test_around_midnight_each_signature_carries_its_own_date(key: SigningKey) -> None:
    """Signatures dated back fall on yesterday for a while; a key of the wrong day is a 403 for every client."""
    moments = ["20261231T235959Z", "20270101T000000Z", "20261231T235930Z", "20270101T000001Z", "20270102T000000Z"]
    for moment in [*moments, *reversed(moments)]:
        unsigned = Unsigned(moment=moment)
        assert f"/{moment[:8]}/us-east-1/s3/aws4_request, " in unsigned.signed_by(key)
        assert unsigned.signed_by(key) == unsigned.signed_by_botocore()


def test_the_derived_keys_of_two_days_are_kept(key: SigningKey) -> None:
    """Deriving anew for every signature around midnight would double their cost; keeping all days would leak."""

    def sign(date: str) -> None:
        Unsigned(moment=f"{date}T000000Z").signed_by(key)

    sign("20260101")
    first = key._days["20260101"]
    sign("20260102")
    second = key._days["20260102"]
    sign("20260101")
    sign("20260102")
    assert key._days == {"20260101": first, "20260102": second}
    sign("20260103")
    assert list(key._days) == ["20260102", "20260103"]
    assert key._days["20260102"] is second


def test_a_key_without_a_session_needs_no_token(key: SigningKey) -> None:
    """A token that was not given would be signed, and the request refused."""
    parts = ("GET", "h", "/k", "", (), "UNSIGNED-PAYLOAD", "20260101T000000Z")
    assert key.authorization(*parts) == key.authorization(*parts, "")


def test_a_key_shows_and_hands_out_no_secret(key: SigningKey) -> None:
    """A secret in a log line, a traceback or a pickle is a secret lost."""
    Unsigned().signed_by(key)
    assert repr(key) == "SigningKey('AKIAIOSFODNN7EXAMPLE', <secret>, 'us-east-1', 's3')"
    assert SECRET not in f"{key} {key!r} {key._days}"
    assert not hasattr(key, "__dict__")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled or copied"):
            pickle.dumps(key, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled or copied"):
            duplicate(key)


@pytest.mark.parametrize(
    ("epoch_seconds", "text"),
    (
        (0, "19700101T000000Z"),
        (1_369_353_600, "20130524T000000Z"),
        (1_709_164_799, "20240228T235959Z"),
        # 2024 has a 29th of February.
        (1_709_164_800, "20240229T000000Z"),
        (1_798_761_599, "20261231T235959Z"),
        (1_798_761_600, "20270101T000000Z"),
    ),
)
def test_a_moment_is_written_as_x_amz_date(epoch_seconds: int, text: str) -> None:
    """A date in local time or with a wrong field is refused as skewed."""
    assert amz_date(epoch_seconds) == text


@given(st.integers(0, 4_102_444_799))
def test_moments_agree_with_datetime(epoch_seconds: int) -> None:
    """Whatever the moment, the cache must not answer with another one."""
    expected = datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y%m%dT%H%M%SZ")
    assert amz_date(epoch_seconds) == expected
    assert amz_date(epoch_seconds + 1) != expected
    assert amz_date(epoch_seconds) is amz_date(epoch_seconds)


@given(
    path=st.lists(st.sampled_from(("a", "b-c", "d.parquet", "x~y", "00007-1_0")), min_size=1).map(
        lambda parts: "/" + "/".join(parts)
    ),
    headers=st.sets(st.sampled_from(("content-type", "x-amz-checksum-mode", "x-amz-meta-a", "zzz"))).map(
        lambda names: tuple((name, f"value of {name}") for name in sorted(names))
    ),
    method=st.sampled_from(("GET", "HEAD")),
    query=st.sampled_from(("", "x-signproxy-id=01KABCDEFGHJKMNPQRSTVWXYZ0")),
    token=st.sampled_from(("", "session+token/==")),
    at=st.integers(NOW - 100_000, NOW + 100_000),
)
def test_what_is_signed_alike_is_signed_as_each_for_itself(
    path: str, headers: Headers, method: str, query: str, token: str, at: int
) -> None:
    """A store would refuse the second object of a connection, or take it for another one."""
    key = SigningKey(ACCESS_KEY_ID, SECRET, "us-east-1")
    date = amz_date(at)
    moment = key.moment(method, "h:1", headers, EMPTY_SHA256, date, token)
    for each in (path, f"{path}/more", "/other"):
        alone = key.authorization(method, "h:1", each, query, headers, EMPTY_SHA256, date, token)
        assert moment.authorization(each, query) == alone


def test_what_a_day_shares_is_derived_once(key: SigningKey) -> None:
    """It takes as long as five signatures, and each second begins anew."""
    date = amz_date(NOW)
    key.moment("GET", "h", (), EMPTY_SHA256, date, "")
    derived = key._days[date[:8]]
    key.moment("GET", "h", (), EMPTY_SHA256, amz_date(NOW + 1), "")
    assert key._days == {date[:8]: derived}
