"""What is kept of one head for the next changes nothing: each is the one that would be written without it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from signproxy.credentials.credentials import Credentials
from signproxy.forward.addresses import StorageAddresses
from signproxy.forward.payload import EMPTY_SHA256, WITHOUT, transfer_of
from signproxy.forward.store_request import BucketSigner, Resigner, StoreRequest
from signproxy.s3.payload import NOTHING_SAID
from signproxy.s3.sigv4 import SigningKey, amz_date
from signproxy.transfer.head import read_request_head
from tests.forward.rig import PLAIN, passed_of, storage

STORE = storage(9000)
PLAIN_KEYS = Credentials("AKIAEXAMPLE000000000", "secret+of+a+store")
SESSION = Credentials("ASIAEXAMPLE000000000", "secret+of+a+session", "the/session/token==")
NOON = 1_795_176_000

_SHA256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
REQUESTS = st.builds(
    StoreRequest,
    method=st.sampled_from(("GET", "HEAD", "PUT", "DELETE")),
    target=st.just("/data/a%20b?x-id=1"),
    path=st.sampled_from(("/data/a%20b", "/data/c")),
    query=st.sampled_from(("", "x-id=1")),
    headers=st.sampled_from(((), (("Range", "bytes=0-9"), ("User-Agent", "s\xe4dk")), (("X-Amz-Meta-A", "b"),))),
    signed=st.sampled_from(((), (), (("x-amz-meta-a", "b"),))),
    payload=st.sampled_from(("UNSIGNED-PAYLOAD", EMPTY_SHA256, _SHA256)),
    framing=st.sampled_from(("", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n")),
)


def signer_of(credentials: Credentials) -> BucketSigner:
    return Resigner(StorageAddresses()).find(STORE, "data", credentials)


@pytest.mark.parametrize("credentials", (PLAIN_KEYS, SESSION))
@given(asked=st.lists(st.tuples(REQUESTS, st.integers(0, 3)), min_size=1, max_size=8))
def test_a_head_is_the_same_whatever_was_written_before_it(
    credentials: Credentials, asked: list[tuple[StoreRequest, int]]
) -> None:
    """A method, a payload or a date of the request before would be signed in place of this one's, or be sent."""
    warm = signer_of(credentials)
    for request, late in asked:
        assert warm.head(request, NOON + late) == signer_of(credentials).head(request, NOON + late)


@pytest.mark.parametrize("credentials", (PLAIN_KEYS, SESSION))
@given(request=REQUESTS)
def test_the_signature_is_that_of_what_is_sent(credentials: Credentials, request: StoreRequest) -> None:
    """The store would refuse every request, or believe something that was never sent."""
    signer = signer_of(credentials)
    head = signer.head(request, NOON + 0.7).decode("latin-1")
    key = SigningKey(credentials.access_key_id, credentials.secret_access_key, STORE.region)
    host, date, token = f"127.0.0.1:{9000}", amz_date(NOON), credentials.session_token
    expected = key.authorization(
        request.method, host, request.path, request.query, request.signed, request.payload, date, token
    )
    found = re.search("\r\nAuthorization: (.*)\r\n", head)
    assert found is not None
    assert found[1] == expected
    first, *lines = head.split("\r\n")
    assert first == f"{request.method} {request.target} HTTP/1.1"
    told = [("Host", host), *request.headers, ("x-amz-content-sha256", request.payload), ("x-amz-date", date)]
    if token:
        told.append(("x-amz-security-token", token))
    assert lines[: len(told)] == [f"{name}: {value}" for name, value in told]
    assert head.endswith(f"{expected}\r\n{request.framing}\r\n")


def test_new_credentials_sign_the_next_request() -> None:
    """Requests would be signed with keys that the store does not know any more."""
    resigner = Resigner(StorageAddresses())
    first = resigner.find(STORE, "data", PLAIN_KEYS)
    assert resigner.find(STORE, "data", PLAIN_KEYS) is first
    assert resigner.find(STORE, "data", SESSION) is not first
    moved = replace(STORE, region="eu-west-1")
    assert resigner.find(moved, "data", SESSION).storage is moved


def test_a_request_that_says_nothing_of_a_body_has_none() -> None:
    """What such a request gets without being asked about its body would not be what the answer is."""
    head = read_request_head(b"GET /data/a HTTP/1.1\r\nHost: a\r\n\r\n")
    passed = passed_of(STORE, head, replace(PLAIN, payload=NOTHING_SAID))
    assert transfer_of(passed.forwardable, head, None) is WITHOUT
