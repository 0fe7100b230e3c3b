"""Keys, paths and queries that are recognised at first sight are read as the ones that are taken apart."""

from __future__ import annotations

import re
from random import Random
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import pytest

from signproxy.errors import Reason, Refused
from signproxy.forward.uploads import UploadIds, UploadScope
from signproxy.s3 import classify as signed
from signproxy.s3 import forwarded, key
from signproxy.s3.canonical import canonical_path, canonical_query
from signproxy.s3.forward_wire import ForwardWire, is_bulk_delete, parameters_of
from signproxy.s3.forwarded import classify_forwarded
from signproxy.s3.hoisted import with_hoisted
from signproxy.s3.key import MAX_KEY_BYTES
from signproxy.s3.presented import Presented, read_presigned
from signproxy.s3.query import parse_query
from signproxy.s3.uri import PLAIN, PLAIN_LENGTH, decode_once, is_canonical
from signproxy.sealing import Marker, Purpose, SealingSecret
from tests.e2e.readers.search import AMOUNTS, Search, outcome_of
from tests.s3.forwarded_world import ALL, ALL_STRICT, OBJECT, TABLE, asked
from tests.s3.world import AWS_HOST, AWS_PATH, ENDPOINTS, MINIO, wire

PIECES = (
    "a", "wh", "t1", "data", "x.parquet", "v1.metadata.json", "d=1", "-", "_", "~", ".", "..", "...", ".a", "a.", "/",
    "/", "/", "//", "%2F", "%2f", "%2E", "%2e", "%252e", "%20", "%3D", "%C3%A9", "%c3%a9", "%FF", "%00",
    "%zz", "%", "+",
    "=", ";", ";a=b", ":", "@", "!", "$", "&", "'", "(", ")", "*", ",", "?", "#", "\\", " ", "é", "\x00",
    "\x7f", "\u2028",
    "[", "|", '"', "<", "x" * 60, "y" * 1000,
)  # fmt: skip
ODD = (".", "..", "+", ";", "=", "%2F", "%2e", "%20", "//", "", ".a", "a.", "~")
"""Of those, what is nearest to being plain."""
NAMES = (
    "delete", "%64elete", "d%65lete", "delete+", "uploads", "uploadId", "%75ploadId", "upload%49d", "uploadid",
    "prefix", "list-type", "max-keys", "key-marker", "upload-id-marker", "partNumber", "x-id", "versionId",
    "", "+", "é", "%FF",
    "X-Amz-Signature", "x-amz-acl", "a;b", "a", "response-content-type",
)  # fmt: skip
VALUES = (
    "",
    "2",
    "1",
    "a",
    "a%2Fb",
    "a+b",
    "a%20b",
    "a%2Bb",
    "%C3%A9",
    "%FF",
    "%zz",
    "a=b",
    "=",
    "&",
    ";",
    "é",
    "#",
    "?",
)
RULES = (TABLE, OBJECT, ALL, ALL_STRICT)
METHODS = ("GET", "GET", "HEAD", "PUT", "DELETE", "POST")
MARKER = Marker((SealingSecret(b"s" * 32),), Purpose.UPLOAD_ID)
PLACE = UploadScope("table\x1flake", "lake")

_NEVER = re.compile(r"(?!)")


def path_of(chance: Random) -> str:
    """Return what may stand for a key: a plain one, one with one odd piece in it, one of a limit's length, any."""
    kind = chance.random()
    if kind >= 0.65:
        return "".join(chance.choice(PIECES) for _ in range(chance.randint(0, 8)))
    segments = [chance.choice(("wh", "t1", "a-b", "x_1", "f.parquet", "0")) for _ in range(chance.randint(1, 6))]
    plain = "/".join(segments)
    if kind < 0.3:
        return plain
    if kind < 0.35:
        return plain + "z" * (MAX_KEY_BYTES - len(plain) + chance.choice((-1, 0, 1, 2)))
    odd = chance.choice(chance.choice((PIECES, ODD)))
    if kind < 0.45:
        segments.insert(chance.randint(0, len(segments)), odd)
        return "/".join(segments)
    at = chance.choice((0, len(plain), plain.rfind("/") + 1, chance.randint(0, len(plain))))
    return plain[:at] + odd + plain[at:]


def query_of(chance: Random) -> str:
    """Return what may stand for a query."""
    parts = [
        chance.choice(NAMES) + chance.choice(("", "=", "=", "=")) + chance.choice(VALUES)
        for _ in range(chance.choice((0, 1, 1, 2, 3)))
    ]
    return "&".join(parts)


def met_by(search: Search, found: object) -> None:
    search.seen["refused" if isinstance(found, str) else "read"] += 1


@AMOUNTS
def test_a_plain_uri_is_classified_as_any_other(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spelling that is only looked at once would be signed for another key than the store reads."""
    search = Search("plain URIs", cases)
    chance = search.chance
    for _ in search:
        uri = chance.choice((AWS_HOST, AWS_PATH, "http://minio.local:9000/lake", "https://other.example")) + "/"
        uri += path_of(chance)
        if chance.random() < 0.2:
            uri += "?" + query_of(chance)
        region = "us-east-1" if "minio" in uri else "us-west-2"
        request = wire(chance.choice(METHODS), uri, region=region)
        search.seen["plain"] += PLAIN.fullmatch(uri) is not None
        monkeypatch.setattr(signed, "PLAIN_LENGTH", PLAIN_LENGTH)
        quick = outcome_of(signed.classify, Refused, ENDPOINTS, request)
        monkeypatch.setattr(signed, "PLAIN_LENGTH", 0)
        assert quick == outcome_of(signed.classify, Refused, ENDPOINTS, request), search.told(uri)
        met_by(search, quick)
    search.met(plain=0.1, read=0.1, refused=0.2)


@AMOUNTS
def test_a_plain_key_is_forwarded_as_any_other(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no rule looks at must be what each rule lets pass."""
    search = Search("plain keys", cases)
    chance, plainly = search.chance, forwarded._PLAIN_KEY
    for _ in search:
        raw_key = path_of(chance)
        request = asked(chance.choice(METHODS), raw_key, query_of(chance) if chance.random() < 0.2 else None)
        rules = chance.choice(RULES)
        search.seen["plain"] += plainly.fullmatch(raw_key) is not None
        monkeypatch.setattr(forwarded, "_PLAIN_KEY", plainly)
        quick = outcome_of(classify_forwarded, Refused, MINIO, request, rules)
        monkeypatch.setattr(forwarded, "_PLAIN_KEY", _NEVER)
        assert quick == outcome_of(classify_forwarded, Refused, MINIO, request, rules), search.told(raw_key, rules)
        met_by(search, quick)
    search.met(plain=0.2, read=0.2, refused=0.2)


@AMOUNTS
def test_a_key_is_decoded_checked_and_written_in_one_way(cases: int) -> None:
    """The key that is judged has to be the key that is signed, and both the key of the path that is sent."""
    search = Search("keys", cases)
    chance = search.chance
    for _ in search:
        raw = path_of(chance)
        decoded = outcome_of(decode_once, Refused, raw)
        try:
            expected = unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            assert isinstance(decoded, str)
            assert decoded.startswith("Refused: key_encoding"), search.told(raw)
            search.seen["no text"] += 1
            continue
        assert decoded == expected, search.told(raw)
        if is_canonical(raw):
            assert canonical_path(expected) == (raw or "/"), search.told(raw)
            search.seen["canonical"] += 1
        quick = outcome_of(key.check_key, Refused, expected)
        slow = outcome_of(_slowly, Refused, expected)
        assert quick == slow, search.told(expected)
        met_by(search, quick)
    search.met(canonical=0.2, refused=0.2, **{"no text": 0.01})
    assert search.seen["refused"] < cases


def _slowly(text: str) -> None:
    key._check_slowly(text)
    if len(text.encode("utf-8", "surrogatepass")) > key.MAX_KEY_BYTES:
        raise Refused(Reason.KEY_TOO_LONG, f"key of {len(text.encode())} bytes")


@AMOUNTS
def test_a_query_is_read_in_one_way_wherever_it_is_read(cases: int) -> None:
    """A bulk delete with an unread body, or an upload id that stayed marked, is what two readers make of a query."""
    search = Search("queries", cases)
    chance = search.chance
    ids = UploadIds(MARKER)
    for _ in search:
        raw = query_of(chance)
        parameters: Any = outcome_of(parameters_of, Refused, raw)
        bulk = is_bulk_delete("", raw)
        met_by(search, parameters)
        if isinstance(parameters, str):
            # Whether its body is read or not, it is refused.
            assert isinstance(outcome_of(classify_forwarded, Refused, MINIO, _bulk(raw, bulk), ALL), str)
            continue
        assert bulk == ("delete" in parameters), search.told(raw)
        search.seen["bulk deletes"] += bulk
        # Python's own reader of forms is lenient, and reads the same of what was let pass.
        assert dict(parse_qsl(raw, keep_blank_values=True)) == parameters, search.told(raw)
        _check_stripped(search, ids, raw, parameters)
    search.met(read=0.3, refused=0.1, stripped=0.02, **{"bulk deletes": 0.02})


def _bulk(raw: str, bulk: bool) -> ForwardWire:
    return asked("POST", "", raw, body=b"<Delete><Object><Key>a</Key></Object></Delete>" if bulk else None)


def _check_stripped(search: Search, ids: UploadIds, raw: str, parameters: dict[str, str]) -> None:
    """Compare the query that the store gets with what is signed of it, where an upload id was marked."""
    chance = search.chance
    if "uploadId" not in parameters:
        return
    mark = MARKER.mark(PLACE.owner, PLACE.bucket, "k", "id/1+")
    spelled = chance.choice(("id%2F1%2B", "id/1%2b", "%69d%2F1%2B"))
    parts = [part for part in raw.split("&") if parse_query(part).keys() != {"uploadId"}]
    parts.insert(chance.randint(0, len(parts)), f"{chance.choice(('uploadId', 'upload%49d'))}={spelled}.{mark}")
    marked = "&".join(parts)
    held = parse_query(marked)
    target, query = ids.stripped(PLACE, "k", f"/lake/k?{marked}", canonical_query(held.items()))
    sent = parse_query(target.partition("?")[2])
    assert sent == {**held, "uploadId": "id/1+"}, search.told(marked)
    assert query == canonical_query(sent.items()), search.told(marked)
    search.seen["stripped"] += 1


PRESIGNED = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": "AKID%2F20260101%2Fus-east-1%2Fs3%2Faws4_request",
    "X-Amz-Date": "20260101T000000Z",
    "X-Amz-Expires": "3600",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": "a" * 64,
}
MOVED = (
    "x-amz-checksum-crc32=AAAAAA%3D%3D", "X-Amz-Meta-A=voil%C3%A0", "x-amz-meta-a=%20b+c%26", "x-amz-meta-a-b=1",
    "x-amz-meta-a.b=2", "x-amz-acl=private", "%78-amz-meta-b=1", "x-amz-content-sha256=UNSIGNED-PAYLOAD",
    "X-Amz-Security-Token=t%2F%2B", "x-amz-date=1", "X-AMZ-SIGNATURE=b", "x-amz-meta-c=%0D%0Ax", "x-amz-trailer=x",
    "x-amz-copy-source=%2Fa%2Fb", "x-amz-meta-d",
)  # fmt: skip


@AMOUNTS
def test_nothing_of_a_presigned_url_is_read_twice_or_lost(cases: int) -> None:
    """What is judged of a query, and what goes on of it, has to be all of it that is no signature."""
    search = Search("presigned URLs", cases)
    chance = search.chance
    for _ in search:
        parts = [f"{name}={value}" for name, value in PRESIGNED.items()]
        for _ in range(chance.choice((0, 1, 2, 3))):
            parts.insert(chance.randint(0, len(parts)), chance.choice((*MOVED, query_of(chance))))
        if chance.random() < 0.1:
            del parts[chance.randrange(len(parts))]
        raw = "&".join(parts)
        found: Any = outcome_of(read_presigned, Refused, raw, {})
        if isinstance(found, str) or found is None:
            search.seen["refused"] += 1
            continue
        search.seen["read"] += 1
        presented, rest = found
        everything = sorted(parse_qsl(raw, keep_blank_values=True, errors="strict"))
        moved = [(name, value.encode("latin-1").decode()) for name, value in presented.hoisted]
        own = [pair for pair in everything if pair[0] in PRESIGNED or pair[0] in _OWN]
        left = parse_qsl(rest or "", keep_blank_values=True, errors="strict")
        # A blank at an end is none in a header, as which it is judged.
        others = [
            (name, value.strip(" ") if name.lower().startswith("x-amz-") else value) for name, value in everything
        ]
        expected = sorted(pair for pair in others if pair[0] not in PRESIGNED and pair[0] not in _OWN)
        assert sorted(moved + left) == expected, search.told(raw)
        assert len(own) == len({name for name, _ in own}), search.told(raw)
        _check_sent(search, presented, rest)
    search.met(read=0.2, refused=0.2, sent=0.1, moved=0.05)


_OWN = ("X-Amz-Security-Token", "X-Amz-Content-Sha256", "x-amz-content-sha256")


def _check_sent(search: Search, presented: Presented, rest: str | None) -> None:
    """Compare the query that the store gets with what is signed of it."""
    request = msgspec.structs.replace(asked("PUT", "k", rest), hoisted=presented.hoisted)
    classified = outcome_of(classify_forwarded, Refused, MINIO, request, ALL)
    if isinstance(classified, str):
        return
    search.seen["sent"] += 1
    target, query = classified.target, classified.request.canonical_query
    if classified.hoisted:
        search.seen["moved"] += 1
        target, query = with_hoisted(target, query, classified.hoisted)
    sent = parse_qsl(target.partition("?")[2], keep_blank_values=True, errors="strict")
    assert canonical_query(sent) == query, search.told(target)
    named = [name.lower() for name, _ in sent]
    assert len(named) == len(set(named)), search.told(target)
