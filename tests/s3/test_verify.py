"""Signatures of botocore are verified, whatever it signs; and every change of what was signed is refused."""

from __future__ import annotations

import copy
import datetime
import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import botocore.auth
import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import S3Answer, s3_answer
from signproxy.s3.presented import read_authorization, read_presigned
from signproxy.s3.verify import SeedSignature, Signatures, Verifier, verify

KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = 1_800_000_000
HOST = "127.0.0.1:8182"


@dataclass(frozen=True)
class Sent:
    """A request as it came over the wire."""

    method: str
    path: str
    query: str | None
    headers: tuple[tuple[str, str], ...]

    def having(self, name: str, value: str) -> Sent:
        """Return the request with one more header."""
        return replace(self, headers=(*self.headers, (name, value)))

    def changing(self, name: str, value: str) -> Sent:
        """Return the request with another value of a header."""
        return replace(self, headers=tuple((each, value if each == name else old) for each, old in self.headers))


@pytest.fixture
def key() -> Verifier:
    return Verifier(KEY_ID, SECRET)


def clock(at: int) -> Any:
    """Let botocore sign at a time."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)

    def now(*_args: object, **_kwargs: object) -> datetime.datetime:
        return moment

    return patch.object(botocore.auth, "get_current_datetime", now)


def botocore_signs(
    method: str = "GET",
    path: str = "/lake/k",
    query: str = "",
    headers: dict[str, str] | None = None,
    *,
    token: str | None = None,
    expires: int | None = None,
    at: int = NOW,
) -> Sent:
    """Return a request that botocore signed: in the header, or in the query where it expires."""
    url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
    request = AWSRequest(method=method, url=url, headers={"Host": HOST, **(headers or {})}, data=b"")
    credentials = Credentials(KEY_ID, SECRET, token)
    with clock(at):
        if expires is None:
            S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
        else:
            S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires).add_auth(request)
    target = request.url.removeprefix(f"http://{HOST}")
    raw_path, mark, raw_query = target.partition("?")
    pairs = tuple((name.lower(), str(value)) for name, value in request.headers.items())
    return Sent(method, raw_path, raw_query if mark else None, pairs)


def verified(sent: Sent, key: Verifier, now: float = NOW, regions: tuple[str, ...] | None = None) -> SeedSignature:
    named = dict(sent.headers)
    presigned = read_presigned(sent.query or "", named)
    presented = read_authorization(named["authorization"], named) if presigned is None else presigned[0]
    return verify(presented, key, sent.method, sent.path, sent.query, sent.headers, now, regions=regions)


def refusal(sent: Sent, key: Verifier, now: float = NOW, regions: tuple[str, ...] | None = None) -> Reason:
    with pytest.raises(Refused) as refused:
        verified(sent, key, now, regions)
    return refused.value.reason


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
_HEADER = st.text(st.sampled_from("abcXYZ019 -_.,;:=/+\"'()"), min_size=1, max_size=20).map(str.strip).filter(bool)
_HEADERS = st.dictionaries(
    st.sampled_from(
        ("x-amz-meta-a", "x-amz-meta-b", "x-amz-acl", "content-type", "accept-encoding", "range", "x-other")
    ),
    _HEADER,
)
_QUERIES = st.lists(st.tuples(_TEXT.filter(bool), _TEXT), max_size=4)


@settings(max_examples=200, deadline=None)
@given(
    method=st.sampled_from(("GET", "PUT", "HEAD", "DELETE", "POST")),
    name=_TEXT,
    pairs=_QUERIES,
    headers=_HEADERS,
    token=st.none() | st.just("TOKEN/+=="),
    presigned=st.booleans(),
)
def test_what_botocore_signs_is_verified_and_any_change_is_refused(
    method: str,
    name: str,
    pairs: list[tuple[str, str]],
    headers: dict[str, str],
    token: str | None,
    presigned: bool,
) -> None:
    """A client whose key has a space is locked out, or a request that was changed on the way is served."""
    key = Verifier(KEY_ID, SECRET)
    path = "/lake/" + quote(name, safe="/~")
    query = "&".join(f"{quote(each, safe='~')}={quote(value, safe='~')}" for each, value in pairs)
    if any(each.lower().startswith("x-amz-") for each, _ in pairs):
        return
    sent = botocore_signs(method, path, query, headers, token=token, expires=600 if presigned else None)
    seed = verified(sent, key)
    assert len(seed.signature) == 64
    rest = f"{sent.query}&" if sent.query else ""
    for changed in (
        replace(sent, method="PATCH"),
        replace(sent, path=sent.path + "x"),
        replace(sent, path=sent.path.replace("/lake", "/Lake")),
        replace(sent, query=f"{rest}more=1"),
        replace(sent, query=f"{rest}acl"),
        sent.changing("host", "other:80"),
    ):
        assert refusal(changed, key) is Reason.SIGNATURE_MISMATCH
    for each, value in sent.headers:
        if each.startswith("x-amz-meta-"):
            assert refusal(sent.changing(each, value + "x"), key) is Reason.SIGNATURE_MISMATCH
            assert refusal(sent.having(each, "more"), key) is Reason.SIGNATURE_MISMATCH
    for each in ("x-amz-copy-source", "x-amz-meta-late"):
        assert refusal(sent.having(each, "x"), key) is Reason.HEADERS_NOT_SIGNED
    assert refusal(sent, Verifier(KEY_ID, SECRET + "x")) is Reason.SIGNATURE_MISMATCH


def test_date_token_and_payload_are_bound() -> None:
    """A token that can be exchanged makes a key of one table one of another."""
    key = Verifier(KEY_ID, SECRET)
    sent = botocore_signs(token="TOKEN")
    assert verified(sent, key).amz_date == "20270115T080000Z"
    assert refusal(sent.changing("x-amz-security-token", "OTHER"), key) is Reason.SIGNATURE_MISMATCH
    assert refusal(sent.changing("x-amz-date", "20270115T080001Z"), key) is Reason.SIGNATURE_MISMATCH
    assert refusal(sent.changing("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), key) is Reason.SIGNATURE_MISMATCH
    presigned = botocore_signs(token="TOKEN", expires=600)
    assert presigned.query is not None
    for old, new in (("=TOKEN", "=OTHER"), ("Expires=600", "Expires=601"), ("T080000Z", "T080001Z")):
        assert refusal(replace(presigned, query=presigned.query.replace(old, new)), key) is Reason.SIGNATURE_MISMATCH


@pytest.mark.parametrize(
    ("wire", "signed"),
    (
        ("/lake/a=b:c+d", "/lake/a%3Db%3Ac%2Bd"),
        ("/lake/%c3%a9", "/lake/%C3%A9"),
        ("/lake/%7Ex%2Fv", "/lake/~x/v"),
        ("/lake/q%252Fv", "/lake/q%252Fv"),
        ("/lake/q//w/../v/", "/lake/q//w/../v/"),
    ),
)
def test_a_path_is_decoded_once_and_encoded_again(key: Verifier, wire: str, signed: str) -> None:
    """Clients send the same key in several spellings, and sign the one of S3."""
    sent = botocore_signs(path=signed)
    assert verified(replace(sent, path=wire), key).signature


@pytest.mark.parametrize(
    ("wire", "signed"),
    (
        ("prefix=a/b", "prefix=a%2Fb"),
        ("prefix=a+b", "prefix=a%20b"),
        ("uploads", "uploads="),
        ("b=2&a=1", "a=1&b=2"),
        ("a=1&&b=2", "a=1&b=2"),
        ("a=2&a=1", "a=1&a=2"),
        ("%61=%31", "a=1"),
        ("", ""),
    ),
)
def test_a_query_is_decoded_once_and_encoded_again(key: Verifier, wire: str, signed: str) -> None:
    """A flag without a value and a plus for a space come from real clients."""
    sent = botocore_signs(query=signed)
    assert verified(replace(sent, query=wire), key).signature


@pytest.mark.parametrize(
    ("sent_value", "signed_value"),
    (("a  b", "a b"), ("a\tb", "a b"), (" a ", "a"), ("a: b", "a: b")),
)
def test_white_space_of_a_value_is_folded(key: Verifier, sent_value: str, signed_value: str) -> None:
    """Clients sign the folded value and send the other."""
    sent = botocore_signs(headers={"x-amz-meta-a": signed_value})
    assert verified(sent.changing("x-amz-meta-a", sent_value), key).signature


def test_bytes_beyond_ascii_are_verified_as_they_came(key: Verifier) -> None:
    """Metadata in UTF-8 arrives as bytes; a no-break space among them is no white space."""
    text = "voil\u00e0"
    sent = botocore_signs(headers={"x-amz-meta-a": text})
    assert verified(sent.changing("x-amz-meta-a", text.encode().decode("latin-1")), key).signature


def test_headers_that_sdks_sign_are_tolerated(key: Verifier) -> None:
    """The SDKs for Go and C++ sign more than they must."""
    extra = {
        "content-length": "0",
        "accept-encoding": "identity",
        "amz-sdk-invocation-id": "i",
        "amz-sdk-request": "attempt=1",
    }
    sent = botocore_signs(headers=extra)
    named = dict(sent.headers)
    assert all(name in named["authorization"] for name in extra)
    assert verified(sent, key).signature


def test_two_values_of_a_signed_header_are_one_text(key: Verifier) -> None:
    """A value that was slipped in beside the signed one would go unseen, and on to the store."""
    sent = botocore_signs(headers={"content-type": "a,b"})
    split = replace(
        sent,
        headers=(
            *(pair for pair in sent.headers if pair[0] != "content-type"),
            ("content-type", "a"),
            ("content-type", "b"),
        ),
    )
    assert verified(split, key).signature


def test_a_signed_header_that_is_missing_is_a_mismatch(key: Verifier) -> None:
    """Who strips a signed header must not be taken for the client."""
    sent = botocore_signs(headers={"content-type": "a"})
    less = replace(sent, headers=tuple(pair for pair in sent.headers if pair[0] != "content-type"))
    assert refusal(less, key) is Reason.SIGNATURE_MISMATCH


@pytest.mark.parametrize("name", ("x-amz-copy-source", "x-amz-acl", "x-amz-meta-a", "x-amz-tagging"))
@pytest.mark.parametrize("expires", (None, 600))
def test_a_header_that_is_not_signed_is_not_laundered(key: Verifier, name: str, expires: int | None) -> None:
    """Signed anew, a plain upload would become a copy of any object; each one is named for the client's author."""
    sent = botocore_signs("PUT", expires=expires).having(name, "x").having("x-amz-a", "y")
    with pytest.raises(Refused) as refused:
        verified(sent, key)
    assert refused.value.reason is Reason.HEADERS_NOT_SIGNED
    assert refused.value.detail == ", ".join(sorted((name, "x-amz-a")))


def test_the_host_must_be_signed(key: Verifier) -> None:
    """A request for one bucket's host could be sent to another's."""
    sent = botocore_signs()
    named = dict(sent.headers)
    without = sent.changing("authorization", named["authorization"].replace("host;", ""))
    assert refusal(without, key) is Reason.HEADERS_NOT_SIGNED


@pytest.mark.parametrize(
    ("shift", "reason"),
    ((-901, Reason.TIME_SKEWED), (-900, None), (0, None), (900, None), (901, Reason.TIME_SKEWED)),
)
def test_a_clock_may_be_off_by_a_quarter_of_an_hour(key: Verifier, shift: int, reason: Reason | None) -> None:
    """Narrower, honest clients fail; wider, a signature that was caught can be used longer."""
    sent = botocore_signs(at=NOW + shift)
    if reason is None:
        assert verified(sent, key).signature
    else:
        assert refusal(sent, key) is reason


@pytest.mark.parametrize(
    ("shift", "reason"),
    (
        (-600, Reason.SIGNATURE_EXPIRED),
        (-599, None),
        (900, None),
        (901, Reason.TIME_SKEWED),
    ),
)
def test_a_presigned_url_is_good_for_its_own_time(key: Verifier, shift: int, reason: Reason | None) -> None:
    """Dated ahead, a URL of a minute would be good next year: some stores accept that."""
    sent = botocore_signs(at=NOW + shift, expires=600)
    if reason is None:
        assert verified(sent, key).signature
    else:
        assert refusal(sent, key) is reason


def told(sent: Sent, key: Verifier, now: float = NOW, regions: tuple[str, ...] | None = None) -> S3Answer:
    with pytest.raises(Refused) as refused:
        verified(sent, key, now, regions)
    return s3_answer(refused.value)


def test_what_is_late_is_told_with_the_time(key: Verifier) -> None:
    """An SDK corrects its clock by it, and the user of an old link sees that it is old."""
    assert told(botocore_signs(at=NOW - 901), key).elements == (
        ("RequestTime", "20270115T074459Z"),
        ("ServerTime", "2027-01-15T08:00:00Z"),
        ("MaxAllowedSkewMilliseconds", "900000"),
    )
    late = botocore_signs(at=NOW - 700, expires=600)
    assert told(late, key).elements == (
        ("X-Amz-Expires", "600"),
        ("Expires", "2027-01-15T07:58:20Z"),
        ("ServerTime", "2027-01-15T08:00:00Z"),
    )
    # A date that no calendar has is compared as text.
    never = replace(late, query=(late.query or "").replace("20270115T074820Z", "20270100T999999Z"))
    never = replace(never, query=(never.query or "").replace("%2F20270115%2F", "%2F20270100%2F"))
    assert told(never, key).elements[0] == ("X-Amz-Expires", "600")


@pytest.mark.parametrize("expires", (None, 600))
def test_a_wrong_region_is_told_the_right_one_where_there_is_one(key: Verifier, expires: int | None) -> None:
    """A client is set up for it; among several it is not known which one was meant."""
    sent = botocore_signs(expires=expires)
    answer = told(sent, key, regions=("eu-west-1",))
    assert answer.message.endswith('the region "us-east-1" is wrong; expecting "eu-west-1"')
    assert answer.elements == ((("Region", "eu-west-1"),) if expires is None else ())
    assert "eu-west-1" not in told(sent, key, regions=("eu-west-1", "eu-west-2")).message


def test_a_hash_that_is_none_is_told_before_the_signature(key: Verifier) -> None:
    """The author of a client would look for the fault in its signer."""
    sent = botocore_signs()
    answer = told(sent.changing("x-amz-content-sha256", "none"), key)
    assert (answer.code, answer.elements[1]) == ("InvalidArgument", ("ArgumentValue", "none"))
    assert told(sent.changing("x-amz-content-sha256", "0" * 64), key).code == "SignatureDoesNotMatch"


def test_two_dates_that_differ_are_told(key: Verifier) -> None:
    """The author of a client would look for the fault in its secret."""
    sent = botocore_signs(expires=600)
    other = replace(sent, query=(sent.query or "").replace("%2F20270115%2F", "%2F20270114%2F"))
    assert told(other, key).message == (
        'Invalid credential date "20270114". This date is not the same as X-Amz-Date: "20270115".'
    )


def test_the_scope_must_fit(key: Verifier) -> None:
    """A key that was derived for another day or region proves nothing here."""
    sent = botocore_signs()
    named = dict(sent.headers)
    other_day = sent.changing("authorization", named["authorization"].replace("/20270115/", "/20270114/"))
    assert refusal(other_day, key) is Reason.SCOPE_MISMATCH
    other_region = sent.changing("authorization", named["authorization"].replace("/us-east-1/", "/eu-west-1/"))
    assert refusal(other_region, key) is Reason.SIGNATURE_MISMATCH
    assert verified(sent, key, regions=("us-east-1",)).signature
    assert refusal(sent, key, regions=("eu-west-1",)) is Reason.SCOPE_MISMATCH


def test_a_date_that_is_none_is_refused(key: Verifier) -> None:
    """What sorts like a date and is none must not be compared as one."""
    sent = botocore_signs()
    assert refusal(sent.changing("x-amz-date", "2027-01-15"), key) is Reason.AUTHORIZATION_MALFORMED


def test_a_verifier_keeps_what_it_derived_for_a_few_dates_and_regions(key: Verifier) -> None:
    """The region is the client's own word: the holder of a key must not fill the memory with it."""
    first = key.day("20270115", "us-east-1")
    assert key.day("20270115", "us-east-1") is first
    for number in range(10):
        key.day("20270115", f"region-{number}")
    assert len(key._days) == 4
    assert key.day("20270115", "us-east-1") is not first


@pytest.mark.parametrize("leak", (repr, str, copy.copy, copy.deepcopy, pickle.dumps))
def test_a_verifier_does_not_give_its_secret_away(key: Verifier, leak: Callable[[Any], Any]) -> None:
    """A secret in a log or another process is a secret no more."""
    try:
        shown = repr(leak(key))
    except TypeError:
        return
    assert SECRET not in shown


def test_a_seed_shows_no_signature(key: Verifier) -> None:
    """A signature in a log can be used for a quarter of an hour."""
    seed = verified(botocore_signs(), key)
    assert seed.signature not in repr(seed)


# -- signatures that are alike -----------------------------------------------------------------------------------------

_FOLDER = "/lake/wh/t1/"
_CHANGES: tuple[tuple[str, str], ...] = (
    ("x-amz-meta-a", "other"),
    ("x-amz-meta-a", "two  blanks"),
    ("range", "bytes=4-7"),
    ("amz-sdk-invocation-id", "second"),
    ("amz-sdk-invocation-id", "a  b"),
)


def alike(sent: Sent, key: Verifier) -> Signatures:
    """Return what was found of one request for those that are like it."""
    verified(sent, key)
    named = dict(sent.headers)
    presented = read_authorization(named["authorization"], named)
    return Signatures(presented, key, sent.method, _FOLDER, sent.headers)


def holds(signatures: Signatures, first: Sent, sent: Sent, now: float = NOW) -> bool:
    """Return what they say of another request."""
    named = dict(sent.headers)
    signature = named["authorization"].rpartition("Signature=")[2]
    changed = {
        at: value
        for at, ((_, old), (_, value)) in enumerate(zip(first.headers, sent.headers, strict=True))
        if old != value and at in signatures.places
    }
    return signatures.hold(sent.path.removeprefix(_FOLDER), named["x-amz-date"], signature, changed, now)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(("b.parquet", "a.parquet", "x~y")),
    at=st.sampled_from((NOW, NOW + 1, NOW - 899, NOW - 901, NOW + 901, NOW - 86_400)),
    change=st.none() | st.sampled_from(_CHANGES),
    signed_change=st.booleans(),
    other_key=st.booleans(),
    flip=st.booleans(),
    token=st.none() | st.just("TOKEN/+=="),
)
def test_what_is_like_a_verified_request_is_verified_as_each_for_itself(
    name: str,
    at: int,
    change: tuple[str, str] | None,
    signed_change: bool,
    other_key: bool,
    flip: bool,
    token: str | None,
) -> None:
    """A signature that is only taken on a warm connection lets a stranger read what its holder may."""
    key = Verifier(KEY_ID, SECRET)
    headers = {"x-amz-meta-a": "one", "range": "bytes=0-3", "amz-sdk-invocation-id": "first"}
    first = botocore_signs(path=f"{_FOLDER}a.parquet", headers=headers, token=token)
    signatures = alike(first, key)
    later = {**headers, **(dict([change]) if change and signed_change else {})}
    sent = botocore_signs(path=f"{_FOLDER}{name}", headers=later, token=token, at=at)
    if change and not signed_change:
        sent = sent.changing(*change)
    if flip:
        authorization = dict(sent.headers)["authorization"]
        sent = sent.changing("authorization", authorization[:-1] + ("0" if authorization[-1] != "0" else "1"))
    if other_key:
        sent = replace(sent, path=f"{_FOLDER}c.parquet")
    try:
        verified(sent, key)
        good = True
    except Refused:
        good = False
    said = holds(signatures, first, sent)
    # Runs of blanks are left to the function that folds them.
    assert said == good or (good and change is not None and "  " in change[1])
    assert not (said and not good)


def test_what_is_no_signature_or_date_is_not_taken_for_one(key: Verifier) -> None:
    """Comparing it would raise, in the middle of a client's connection."""
    first = botocore_signs(path=f"{_FOLDER}a")
    signatures = alike(first, key)
    named = dict(first.headers)
    signature, date = named["authorization"].rpartition("Signature=")[2], named["x-amz-date"]
    assert signatures.hold("a", date, signature, {}, NOW)
    assert not signatures.hold("b", date, signature, {}, NOW)
    for wrong in ("", "é" * 64, signature[:-1], signature + "0", signature.upper()):
        assert not signatures.hold("a", date, wrong, {}, NOW)
    for when in ("", "now", f"{date[:8]}T000000", f"{date}x", "20270115T080000Z\n", f"{date[:8]}T999999Z"):
        assert not signatures.hold("a", when, signature, {}, NOW)
    assert SECRET not in repr(signatures)


MIDNIGHT = 1_800_057_600
assert MIDNIGHT % 86_400 == 0


def crafted(key: Verifier, sent: Sent, name: str, **changed: str) -> str:
    """Return what the key's own holder would sign for these very values, whatever S3 says of them."""
    named = dict(sent.headers)
    presented = read_authorization(named["authorization"], named)
    named |= {each.replace("_", "-"): value for each, value in changed.items()}
    block = "".join(f"{each}:{named[each]}\n" for each in presented.signed_headers)
    request = f"{sent.method}\n{_FOLDER}{name}\n\n{block}\n{';'.join(presented.signed_headers)}\n{presented.payload}"
    day = key.day(presented.date, presented.region)
    digest = hashlib.sha256(request.encode("latin-1")).hexdigest()
    return day.mac(f"AWS4-HMAC-SHA256\n{named['x-amz-date']}\n{day.scope}\n{digest}".encode())


def said(signatures: Signatures, key: Verifier, sent: Sent, now: float, **changed: str) -> bool:
    """Return whether a signature of exactly these values is taken for one."""
    places = {name.replace("-", "_"): at for at, (name, _) in enumerate(sent.headers)}
    date = changed.get("x_amz_date", dict(sent.headers)["x-amz-date"])
    others = {places[name]: value for name, value in changed.items() if name != "x_amz_date"}
    return signatures.hold("b", date, crafted(key, sent, "b", **changed), others, now)


def test_a_signature_is_for_the_day_of_its_scope(key: Verifier) -> None:
    """The key of a day would sign for another one, within the time that clocks may differ."""
    first = botocore_signs(path=f"{_FOLDER}a", at=MIDNIGHT - 60)
    verified(first, key, MIDNIGHT)
    named = dict(first.headers)
    signatures = Signatures(read_authorization(named["authorization"], named), key, "GET", _FOLDER, first.headers)
    written = named["x-amz-date"]
    assert said(signatures, key, first, MIDNIGHT)
    assert said(signatures, key, first, MIDNIGHT, x_amz_date=f"{written[:-3]}59Z")
    assert not said(signatures, key, first, MIDNIGHT, x_amz_date="20270116T000001Z")
    for wrong in (
        f"{written[:-1]}",
        f"{written[:-1]}Y",
        f"{written[:8]}t235901Z",
        f"{written}Z",
        f"{written[:-2]}0.5Z",
    ):
        assert not said(signatures, key, first, MIDNIGHT, x_amz_date=wrong), wrong


@pytest.mark.parametrize(("shift", "holds_there"), ((900, True), (-900, True), (901, False), (-901, False)))
def test_like_any_other_it_may_be_a_quarter_of_an_hour_old(key: Verifier, shift: int, holds_there: bool) -> None:
    """A request that was seen once could be repeated for ever, or one second less than elsewhere."""
    first = botocore_signs(path=f"{_FOLDER}a")
    assert said(alike(first, key), key, first, NOW + shift) is holds_there


def test_values_are_signed_as_s3_reads_them(key: Verifier) -> None:
    """What S3 folds must not be taken unfolded, and a colon belongs to the value."""
    first = botocore_signs(path=f"{_FOLDER}a", headers={"x-amz-meta-a": "of: one  two", "x-amz-meta-b": "b"})
    signatures = alike(first, key)
    signature = crafted(key, first, "b", x_amz_meta_a="of: one two")
    date = dict(first.headers)["x-amz-date"]
    assert signatures.hold("b", date, signature, {}, NOW)
    assert said(signatures, key, first, NOW, x_amz_meta_a="of: three")
    assert not said(signatures, key, first, NOW, x_amz_meta_a="of: one  two")
    assert not said(signatures, key, first, NOW, x_amz_meta_a="of: one two", x_amz_meta_b="c  d")
    assert repr(signatures) == f"Signatures({date[:8]}/us-east-1/s3/aws4_request, ***)"
