"""Which endpoints of a policy the operator's bindings let signatures go to."""

from __future__ import annotations

import pytest

from signproxy.credentials.bindings import check_bindings, covers, unused_bindings
from signproxy.s3.storage import aws_endpoints
from tests.credentials.values import binding, memory, storage


@pytest.mark.parametrize(
    ("hosts", "origin", "covered"),
    (
        ("s3.example.com", "https://s3.example.com", True),
        ("s3.example.com", "https://s3.example.com:443", True),
        ("s3.example.com:443", "https://s3.example.com", True),
        ("S3.Example.com", "https://s3.example.com", True),
        ("minio:9000", "http://minio:9000", True),
        ("minio:80", "http://minio", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9000", True),
        ("[::1]:9000", "http://[::1]:9000", True),
        # Another port is another server.
        ("minio:9000", "http://minio:9001", False),
        ("s3.example.com", "https://s3.example.com:8443", False),
        # A policy must not be able to ask for signatures that travel in the clear.
        ("s3.example.com", "http://s3.example.com", False),
        ("s3.example.com:443", "http://s3.example.com", False),
        # Neighbours of a host.
        ("s3.example.com", "https://s3.example.com.evil.net", False),
        ("s3.example.com", "https://evil-s3.example.com", False),
        ("s3.example.com", "https://a.s3.example.com", False),
        ("s3.example.com", "https://example.com", False),
        ("s3.example.com", "https://s3.example.com.", False),
        # Below a suffix, at whole labels.
        (".example.com", "https://s3.example.com", True),
        (".example.com", "https://a.b.example.com", True),
        (".example.com:9000", "http://a.example.com:9000", True),
        (".example.com", "https://a.example.com:9000", False),
        (".example.com", "https://example.com", False),
        (".example.com", "https://evilexample.com", False),
        (".example.com", "https://s3.example.com.evil.net", False),
        (".example.com", "https://.example.com", False),
        (".example.com", "http://s3.example.com", False),
        # What is no host is covered by nothing, not even by itself.
        ("", "https://", False),
        (".", "https://a", False),
        ("*", "https://*", False),
        ("user@s3.example.com", "https://user@s3.example.com", False),
        (".example.com", "https://evil.net/.example.com", False),
        (".example.com", "https://evil.net#.example.com", False),
        (".example.com", "https://evil.net\n.example.com", False),
        ("a:0", "http://a:0", False),
        # Amazon's names for S3, and only those.
        ("aws", "https://s3.eu-west-1.amazonaws.com", True),
        ("aws", "https://s3.amazonaws.com", True),
        ("aws", "https://s3.cn-north-1.amazonaws.com.cn", True),
        ("aws", "https://s3.us-gov-west-1.amazonaws.com", True),
        ("aws", "https://s3.eu-west-1.amazonaws.com:443", True),
        ("aws", "http://s3.eu-west-1.amazonaws.com", False),
        ("aws", "https://s3.eu-west-1.amazonaws.com:8443", False),
        # Any customer can rent these.
        ("aws", "https://ec2-203-0-113-25.compute-1.amazonaws.com", False),
        ("aws", "https://abc123.execute-api.eu-west-1.amazonaws.com", False),
        ("aws", "https://my-lb-1234.eu-west-1.elb.amazonaws.com", False),
        ("aws", "https://bucket.s3.eu-west-1.amazonaws.com", False),
        ("aws", "https://s3.eu-west-1.amazonaws.com.evil.net", False),
        ("aws", "https://aws", False),
    ),
)
def test_a_host_is_covered_exactly(hosts: str, origin: str, covered: bool) -> None:
    """One row too generous, and an author of the policy gets valid signatures for a server of their choice."""
    scheme, _, authority = origin.partition("://")
    assert covers((hosts,), scheme, authority) is covered


@pytest.mark.parametrize("region", ("us-east-1", "eu-west-1", "ap-southeast-2", "cn-north-1", "us-gov-west-1"))
def test_aws_covers_every_address_that_a_region_has(region: str) -> None:
    """An operator who writes `aws` has said all there is to say."""
    endpoints = aws_endpoints(region)
    assert len(endpoints) >= 7
    assert [each for each in endpoints if not covers(("aws",), each.scheme, each.authority)] == []


def test_a_bound_storage_has_no_findings() -> None:
    """The usual case must load."""
    lake = storage("lake", "https://s3.example.com", "http://minio:9000")
    assert check_bindings([lake], [binding(hosts=(".example.com", "minio:9000"))]) == []


def test_a_storage_without_a_binding_is_a_finding_with_the_nearest_name() -> None:
    """A storage without a binding has no credentials; the usual reason is a slip in its name."""
    (found,) = check_bindings([storage("lake")], [binding("lakes")])
    assert found.path == "storages.lake"
    assert found.problem == "storage 'lake' has no binding (did you mean 'lakes'?)"


def test_every_endpoint_outside_the_hosts_is_a_finding() -> None:
    """One endpoint that is covered must not carry another one along."""
    lake = storage("lake", "https://s3.example.com", "https://evil.net", "http://s3.example.com")
    findings = check_bindings([lake], [binding()])
    assert [found.path for found in findings] == ["storages.lake.hosts"] * 2
    assert "https://evil.net of the policy" in findings[0].problem
    assert "add 'evil.net' if it is yours" in findings[0].problem
    assert "add 's3.example.com:80' if it is yours" in findings[1].problem


def test_a_bucket_that_the_storage_does_not_have_is_a_finding() -> None:
    """Its requests would be signed with the wrong key, without a word."""
    (found,) = check_bindings([storage()], [binding(buckets={"sale": memory()})])
    assert (found.path, found.problem) == (
        "storages.lake.buckets.sale",
        "the storage has no such bucket (did you mean 'sales'?)",
    )


@pytest.mark.parametrize("host", ("https://s3.example.com", "*.example.com", "s3.example.com/", "", "a:b", "a b", "."))
def test_a_host_of_another_form_is_a_finding(host: str) -> None:
    """It would cover nothing, and the message about the endpoint alone would not say why."""
    findings = check_bindings([storage()], [binding(hosts=("s3.example.com", host))])
    assert [found.path for found in findings] == ["storages.lake.hosts"]
    assert repr(host) in findings[0].problem


def test_a_storage_bound_twice_is_a_finding() -> None:
    """Which of the two signs would be chance."""
    findings = check_bindings([storage()], [binding(), binding()])
    assert [(found.path, found.problem) for found in findings] == [
        ("storages.lake", "this storage is bound more than once")
    ]


def test_a_binding_that_no_storage_uses_is_only_a_warning() -> None:
    """A policy that drops a storage must still load, or nothing could ever be revoked that way."""
    bindings = [binding(), binding("lakee"), binding("archive")]
    assert check_bindings([storage()], bindings) == []
    assert [(found.where[-1], found.what) for found in unused_bindings([storage()], bindings)] == [
        ("storages.lakee", "the policy has no storage 'lakee' (did you mean 'lake'?)"),
        ("storages.archive", "the policy has no storage 'archive'"),
    ]
