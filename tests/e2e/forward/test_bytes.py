"""Show that a store sees what it would have seen direct, to the byte, and nothing else but the authentication."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.forward.capture import Capture, Received, run_capture
from tests.e2e.forward.door import Door, run_door, storage_of, volume_policy
from tests.e2e.forward.signer import Endpoint, Payload, Shape, Transfer, frames, presign, sign, upload
from tests.e2e.stores import RunningStore
from tests.e2e.stores.seam import Traits
from tests.e2e.wire import Wire
from tests.verifier import WireHttp, verify

pytestmark = pytest.mark.ci

BUCKET = "captured"
REGION = "eu-central-1"

# What is signproxy's own to say, and what a hop says of itself.
_OWN = frozenset({"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "host"})
_HOP = frozenset({"connection", "keep-alive", "content-length", "transfer-encoding", "expect", "te", "accept-encoding"})


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Capture, Door, Endpoint]]:
    with open_capture(tmp_path_factory.mktemp("captured")) as made:
        yield made


@contextmanager
def open_capture(directory: Path, **s3: object) -> Iterator[tuple[Capture, Door, Endpoint]]:
    """Open a door to a store that keeps what it is sent."""
    with run_capture() as capture:
        store = store_of(capture)
        policy = volume_policy(storage_of(store, [BUCKET], literal_keys=True), [BUCKET])
        with run_door(directory, store, policy, s3=s3) as door:
            yield capture, door, door.endpoint()


def store_of(capture: Capture) -> RunningStore:
    """Return the capturing store as if it were one of the others."""
    return RunningStore("versitygw", "0", capture.port, REGION, "AKIACAPTURE", "capture-secret", Traits(), lambda: "")


def _seen(captured: tuple[Capture, Door, Endpoint], wire: WireHttp) -> Received:
    capture, _door, endpoint = captured
    capture.take()
    with Wire(endpoint.port) as connection:
        answer = connection.send(wire)
    received = capture.take()
    assert answer.ok, (wire, answer.status, answer.body[:500])
    assert len(received) == 1, received
    (one,) = received
    method, _, rest = one.line.decode("latin-1").partition(" ")
    target = rest.rpartition(" ")[0]
    verify(
        WireHttp(method, target, tuple(one.headers)),
        {"AKIACAPTURE": "capture-secret"},
        now=time.time(),
        region=REGION,
    )
    return one


_STAMP = re.compile(r"[?&]x-signproxy-id=[0-9A-Z]{26}(?= HTTP/1\.1$)")


def _line(seen: Received) -> str:
    """Return the request line without the stamp, which is there once, at its end."""
    line, count = _STAMP.subn("", seen.line.decode("latin-1"))
    assert count == 1, seen.line
    return line


def _said(headers: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    left_out = _OWN | _HOP
    return sorted((name.lower(), value) for name, value in headers if name.lower() not in left_out)


# Whatever UTF-8 can say, in any of the spellings that a client may choose, but what no reader of lists could take.
_CHARACTER = st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=("Cs", "Cc"))
_SEGMENT = st.text(_CHARACTER, min_size=1, max_size=12).filter(lambda text: text not in (".", ".."))
_KEY = st.lists(_SEGMENT, min_size=1, max_size=4).map("/".join)
_SAFE = st.sampled_from(("/~", "/~=:", "/~!*'()", "/~,;@$&+=:"))
_VALUE = st.text(
    st.sampled_from(string.ascii_letters + string.digits + " -_./:;,=+*'\"()[]{}<>@!?|~#$%&^`"), max_size=40
)
_NAME = st.text(st.sampled_from(string.ascii_lowercase + string.digits + "-_"), min_size=1, max_size=20)
_HEADERS = st.dictionaries(_NAME.map("x-amz-meta-{}".format), _VALUE.map(str.strip).filter(bool), max_size=4)
_QUERY = st.sampled_from(
    (
        "",
        "x-id=GetObject",
        "partNumber=1",
        "response-content-type=a%2Fb",
        "response-content-type=a/b",
        "response-cache-control=%6eo-cache",
        "response-content-disposition=attachment%3b%20filename%3D%22a%2bb%22",
    )
)
_RUNS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_RUNS
@given(key=_KEY, safe=_SAFE, query=_QUERY)
def test_a_read_goes_as_it_came(captured: tuple[Capture, Door, Endpoint], key: str, safe: str, query: str) -> None:
    """A path that is written anew opens another object, or none; so does a query."""
    target = f"/{BUCKET}/{quote(key, safe=safe)}"
    wire = sign(captured[2], "GET", target, query, headers={"range": "bytes=0-3", "if-match": '"e"'}).wire()
    seen = _seen(captured, wire)
    assert _line(seen) == f"GET {wire.target} HTTP/1.1"
    assert _said(seen.headers) == _said(wire.headers)
    assert seen.body == b""


@_RUNS
@given(
    key=_KEY, headers=_HEADERS, body=st.binary(max_size=3000), payload=st.sampled_from(tuple(Payload)), te=st.booleans()
)
def test_a_write_goes_as_it_came(
    captured: tuple[Capture, Door, Endpoint], key: str, headers: dict[str, str], body: bytes, payload: Payload, te: bool
) -> None:
    """An object is its bytes and what was said about them; of both, whatever is lost is lost for good."""
    shape = Shape(payload, Transfer.CHUNKED if te and payload.is_chunked else Transfer.LENGTH, piece=1000)
    given = {**headers, "content-type": "a/b; c=d", "cache-control": "x", "content-encoding": "gzip"}
    wire = upload(captured[2], "PUT", f"/{BUCKET}/{quote(key, safe='/~')}", body=body, shape=shape, headers=given)
    seen = _seen(captured, wire)
    assert _line(seen) == f"PUT {wire.target} HTTP/1.1"
    said = dict(seen.headers)
    assert {name: said.get(name) for name in headers} == headers
    assert said["content-type"] == "a/b; c=d"
    if payload in (Payload.HASHED, Payload.UNSIGNED):
        assert seen.body == body
        assert _said(seen.headers) == _said(wire.headers)
    elif said.get("x-amz-content-sha256", "").startswith("STREAMING"):
        # Framed anew, or as it came: the framing says what it is, and holds the same.
        assert said["x-amz-content-sha256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        assert said["x-amz-decoded-content-length"] == str(len(body))
        assert _unframed(seen.body) == body
        if payload is Payload.UNSIGNED_TRAILER:
            assert seen.body == wire.body
    else:
        assert seen.body == body
        assert "aws-chunked" not in said.get("content-encoding", "")
        assert said["content-encoding"] == "gzip"


@_RUNS
@given(key=_KEY, seconds=st.integers(1, 604_800))
def test_a_presigned_read_leaves_its_signature_behind(
    captured: tuple[Capture, Door, Endpoint], key: str, seconds: int
) -> None:
    """A signature that is passed on is one more that the store has to refuse, or keeps in its log."""
    target = f"/{BUCKET}/{quote(key, safe='/~')}"
    wire = presign(captured[2], "GET", target, "response-content-type=a%2Fb", seconds=seconds)
    seen = _seen(captured, wire)
    assert _line(seen) == f"GET {target}?response-content-type=a%2Fb HTTP/1.1"
    assert captured[2].access_key.encode() not in seen.head
    assert captured[2].session_token.encode() not in seen.head


def _unframed(body: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        pieces.append(body[:size])
        body = body[size + 2 :]


def test_the_framing_is_read_back() -> None:
    """The check above would pass over anything that it cannot read."""
    endpoint = Endpoint("direct", 1, REGION, "a", "b")
    shape = Shape(Payload.UNSIGNED_TRAILER, piece=3)
    assert _unframed(frames(sign(endpoint, "PUT", "/a/b"), b"0123456789", shape).join()) == b"0123456789"
