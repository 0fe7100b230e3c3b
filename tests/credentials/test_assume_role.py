"""A role on top of any other provider: whom it asks, what it sends there, and what it says when it is refused."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from signproxy.credentials.assume_role import MAX_SECONDS, MIN_SECONDS, AssumeRoleProvider, default_session_name
from signproxy.credentials.aws import session_client
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import MAX_DETAIL_CHARACTERS, FailureKind, NotObtained
from signproxy.credentials.provider import CredentialProvider
from signproxy.credentials.static import StaticProvider
from signproxy.errors import ProviderInvalid
from signproxy.model import SessionScope
from signproxy.outbound import aws as outbound_aws
from signproxy.s3.storage import Storage, StorageKind
from tests.credentials.contract import ProviderContract
from tests.credentials.memory import MemoryProvider
from tests.credentials.services import Alter, Answer, Key, Seen, Service, giving, key, last_session, refusal, sts
from tests.credentials.test_chain import shown
from tests.credentials.values import storage

ROLE = "arn:aws:iam::123456789012:role/lake"
BASE = key("base")
SESSION = key("session")
EXTERNAL_ID = "between-two-parties"


class Below(MemoryProvider):
    """A provider below that gives a key pair."""

    def __init__(self, given: Key = BASE) -> None:
        super().__init__()
        self.give(given)

    def give(self, given: Key) -> None:
        """Give another one from now on."""
        self.answers = [Credentials(given.key_id, given.secret, given.token)]


async def provider_of(
    service: Service, below: CredentialProvider | None = None, **properties: str
) -> AssumeRoleProvider:
    provider = AssumeRoleProvider()
    provider.on_top_of(below or Below())
    await provider.initialize({"role_arn": ROLE, "endpoint": service.url, **properties})
    return provider


async def assumed(provider: CredentialProvider) -> Credentials:
    return await provider.get(storage(), SessionScope("lake", ""))


async def failure(provider: CredentialProvider) -> NotObtained:
    with pytest.raises(NotObtained) as caught:
        await assumed(provider)
    return caught.value


def aws_storage(region: str) -> Storage:
    return Storage("lake", StorageKind.AWS, region, ("sales",), ())


# -- what is sent ------------------------------------------------------------------------------------------------------


async def test_the_role_is_assumed_with_the_keys_below(service: Service) -> None:
    """The service checks the signature with botocore's own rules: anything else would only work with a fake."""
    service.answer = sts(giving(lambda: SESSION), lambda: (BASE,))
    given = await assumed(await provider_of(service, session_name="nightly", duration_seconds="900"))
    assert (given.access_key_id, given.secret_access_key, given.session_token) == SESSION[:3]
    assert given.expires_at is not None
    (seen,) = service.seen
    assert seen.form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": "nightly",
        "DurationSeconds": "900",
    }
    assert "signproxy" in seen.headers["user-agent"]


async def test_a_session_is_what_the_service_gave(service: Service) -> None:
    """Keys, token and end that are read wrongly make signatures that no store takes."""
    service.answer = sts(callers=lambda: (BASE,))
    provider = await provider_of(service, session_name="nightly", external_id=EXTERNAL_ID, duration_seconds="1800")
    given = await assumed(provider)
    session = last_session()
    assert (given.access_key_id, given.secret_access_key, given.session_token) == (
        session.access_key_id,
        session.secret_access_key,
        session.session_token,
    )
    assert given.expires_at is not None
    assert abs(given.expires_at - session.expiration.timestamp()) < 1
    assert abs(given.expires_at - time.time() - 1800) < 300
    assert (session.role_arn, session.session_name, session.external_id) == (ROLE, "nightly", EXTERNAL_ID)


async def test_an_external_id_is_sent_and_not_shown(service: Service) -> None:
    """It is what keeps a stranger from having us use the role for another account."""
    service.answer = sts(giving(lambda: SESSION), lambda: (BASE,))
    provider = await provider_of(service, external_id=EXTERNAL_ID)
    await assumed(provider)
    assert service.seen[0].form["ExternalId"] == EXTERNAL_ID
    assert EXTERNAL_ID not in repr(provider)
    service.answer = lambda _seen: refusal("AccessDenied", f"{EXTERNAL_ID} is not it", 403)
    assert EXTERNAL_ID not in shown(await failure(provider))


async def test_rotated_keys_below_are_used_at_the_next_refresh(service: Service) -> None:
    """The keys below end too, long before the process does."""
    accepted = [BASE]
    service.answer = sts(giving(lambda: SESSION), lambda: tuple(accepted))
    below = Below()
    provider = await provider_of(service, below)
    await assumed(provider)
    rotated = key("rotated")
    accepted[:] = [rotated]
    assert (await failure(provider)).kind is FailureKind.REFUSED
    below.give(rotated)
    assert (await assumed(provider)).access_key_id == SESSION.key_id


async def test_a_role_may_stand_on_a_role(service: Service) -> None:
    """An account of one's own first, the lake's account then."""
    middle = key("middle")

    def answer(seen: Seen) -> Answer | Alter:
        given, caller = (middle, BASE) if seen.form["RoleArn"].endswith("/first") else (SESSION, middle)
        return sts(giving(lambda: given), lambda: (caller,))(seen)

    service.answer = answer
    first = await provider_of(service, role_arn="arn:aws:iam::123456789012:role/first")
    assert (await assumed(await provider_of(service, first))).access_key_id == SESSION.key_id
    assert [seen.form["RoleArn"].rpartition("/")[2] for seen in service.seen] == ["first", "lake"]


async def test_the_files_below_are_its_files(service: Service, tmp_path: Path) -> None:
    """A rotated file of static keys must lead to a new session at once."""
    below = StaticProvider()
    await below.initialize({"file": str(tmp_path / "keys.json")})
    assert (await provider_of(service, below)).files() == (tmp_path / "keys.json",)


# -- where it is sent --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "region", "of", "host"),
    (
        ({}, "", aws_storage("eu-west-1"), "sts.eu-west-1.amazonaws.com"),
        ({}, "ap-southeast-2", aws_storage("eu-west-1"), "sts.ap-southeast-2.amazonaws.com"),
        ({"AWS_REGION": "us-east-2"}, "", aws_storage("eu-west-1"), "sts.us-east-2.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "us-east-2"}, "", aws_storage("eu-west-1"), "sts.us-east-2.amazonaws.com"),
        # Never the global one, which is in Virginia.
        ({"AWS_STS_REGIONAL_ENDPOINTS": "legacy"}, "", aws_storage("us-east-1"), "sts.us-east-1.amazonaws.com"),
        # Other partitions.
        ({}, "", aws_storage("cn-north-1"), "sts.cn-north-1.amazonaws.com.cn"),
        ({}, "", aws_storage("us-gov-west-1"), "sts.us-gov-west-1.amazonaws.com"),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "", aws_storage("us-east-1"), "sts-fips.us-east-1.amazonaws.com"),
        # What sends every client elsewhere does not send these signatures there: the settings alone do.
        ({"AWS_ENDPOINT_URL": "https://evil.example"}, "", aws_storage("eu-west-1"), "sts.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL_STS": "https://evil.example"}, "", aws_storage("eu-west-1"), "sts.eu-west-1.amazonaws.com"),
    ),
)
def test_the_regional_service_of_amazon_is_asked(
    environment: Mapping[str, str], region: str, of: Storage, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature names the region: another endpoint refuses it, or is far away."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = session_client(of, Credentials(*BASE[:3]), region=region, endpoint="")
    assert client.meta.endpoint_url == f"https://{host}"
    client.close()


async def test_without_any_region_it_says_so() -> None:
    """A store of one's own has no region that Amazon knows, and a guess would sign for the wrong one."""
    provider = AssumeRoleProvider()
    provider.on_top_of(Below())
    await provider.initialize({"role_arn": ROLE})
    failed = await failure(provider)
    assert (failed.kind, failed.detail) == (
        FailureKind.CONFIGURATION,
        "no region is known: set the property `region`",
    )


@pytest.mark.parametrize("length", (0, 10, 200))
def test_the_session_name_tells_pods_apart(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands in the store's log beside each request; in Kubernetes the host's name is the pod's."""
    monkeypatch.setenv("HOSTNAME", "pod/a b-é" + "x" * length)
    name = default_session_name()
    assert name == ("signproxy-pod-a-b--" + "x" * length)[:64]


# -- properties --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "path", "problem"),
    (
        ({"role_arn": ""}, "role_arn", "is no ARN"),
        ({"role_arn": "lake"}, "role_arn", "is no ARN"),
        ({"role_arn": f"{ROLE} "}, "role_arn", "is no ARN"),
        ({"role": ROLE}, "role", "did you mean 'role_arn'?"),
        ({"session_name": "x"}, "session_name", "2 to 64"),
        ({"session_name": "a" * 65}, "session_name", "2 to 64"),
        ({"session_name": "a b"}, "session_name", "2 to 64"),
        ({"external_id": "é" * 5}, "external_id", "2 to 1,224"),
        ({"region": "eu-west-1.evil.example"}, "region", "is no region"),
        ({"region": ""}, "region", "is no region"),
        ({"duration_seconds": "1h"}, "duration_seconds", "from 900 to 43200"),
        ({"duration_seconds": str(MIN_SECONDS - 1)}, "duration_seconds", "from 900 to 43200"),
        ({"duration_seconds": str(MAX_SECONDS + 1)}, "duration_seconds", "from 900 to 43200"),
        ({"duration_seconds": "9" * 5000}, "duration_seconds", "from 900 to 43200"),
        ({"duration_seconds": "٩٠٠"}, "duration_seconds", "from 900 to 43200"),
        ({"endpoint": "http://sts.example.com"}, "endpoint", "http is for loopback only"),
        ({"endpoint": "http://127.0.0.1.example.com"}, "endpoint", "http is for loopback only"),
        ({"endpoint": "http://127.0.0.1@example.com"}, "endpoint", "http is for loopback only"),
        ({"endpoint": "https://user:pass@sts.example.com"}, "endpoint", "a host alone"),
        ({"endpoint": "https://sts.example.com/path"}, "endpoint", "a host alone"),
        ({"endpoint": "https://sts.example.com?x=y"}, "endpoint", "a host alone"),
        ({"endpoint": "https://sts.example.com:0"}, "endpoint", "a host alone"),
        ({"endpoint": "https://[::1"}, "endpoint", "a host alone"),
        ({"endpoint": "sts.example.com"}, "endpoint", "a host alone"),
        ({"endpoint": "file:///etc/passwd"}, "endpoint", "a host alone"),
    ),
)
async def test_wrong_properties_are_named_at_the_start(properties: dict[str, str], path: str, problem: str) -> None:
    """`check-config` must find them without asking the service."""
    with pytest.raises(ProviderInvalid) as caught:
        await AssumeRoleProvider().initialize({"role_arn": ROLE, **properties})
    (finding,) = caught.value.findings
    assert (finding.path, problem in finding.problem) == (path, True), finding


@pytest.mark.parametrize(
    "properties",
    (
        {"role_arn": "arn:minio:iam:::role/dummy-internal"},
        {"role_arn": "arn:aws-cn:iam::123456789012:role/path/to/lake"},
        {"duration_seconds": str(MIN_SECONDS)},
        {"duration_seconds": str(MAX_SECONDS)},
        {"endpoint": "https://sts.example.com:8443"},
        {"endpoint": "http://localhost:9000/"},
        {"endpoint": "http://[::1]:9000"},
        {"session_name": "ab", "external_id": "a:/b", "region": "garage"},
    ),
)
async def test_what_stores_and_accounts_really_have_is_accepted(properties: dict[str, str]) -> None:
    """Other stores than Amazon's have roles too."""
    await AssumeRoleProvider().initialize({"role_arn": ROLE, **properties})


async def test_the_role_itself_is_needed() -> None:
    """Nothing else says what to become."""
    with pytest.raises(ProviderInvalid, match="role_arn: missing"):
        await AssumeRoleProvider().initialize({})


# -- failures ----------------------------------------------------------------------------------------------------------

SECRETS = (BASE.secret, BASE.token, SESSION.secret, SESSION.token)
CANONICAL = f"The Canonical String should have been POST / host:sts x-amz-security-token:{BASE.token} ..."


def cut(body: bytes) -> bytes:
    """Lose the connection in the middle of the secret."""
    return giving(lambda: SESSION)(body).partition(SESSION.secret[10:].encode())[0]


def without_expiration(body: bytes) -> bytes:
    return giving(lambda: SESSION)(body).replace(b"Expiration", b"Expires")


NOT_XML = json.dumps({"SecretAccessKey": SESSION.secret}).encode()


@pytest.mark.parametrize(
    ("answer", "kind", "detail"),
    (
        (
            refusal("AccessDenied", f"User: x is not authorized to perform: sts:AssumeRole on resource: {ROLE}", 403),
            FailureKind.DENIED,
            f"AccessDenied (HTTP 403): User: x is not authorized to perform: sts:AssumeRole on resource: {ROLE}",
        ),
        (refusal("AccessDenied", f"{BASE.secret}{BASE.token}", 403), FailureKind.DENIED, "(HTTP 403): ……"),
        (refusal("AccessDenied", "\u202eclear\n\nthe screen", 403), FailureKind.DENIED, "clear the screen"),
        (refusal("AccessDenied", "x" * 10_000, 403), FailureKind.DENIED, "xxx…"),
        (refusal("ExpiredToken", "The security token is expired", 403), FailureKind.EXPIRED, "ExpiredToken (HTTP 403)"),
        (refusal("InvalidClientTokenId", BASE.token, 403), FailureKind.REFUSED, "InvalidClientTokenId (HTTP 403)"),
        (refusal("SignatureDoesNotMatch", CANONICAL, 403), FailureKind.REFUSED, "SignatureDoesNotMatch (HTTP 403)"),
        (refusal("RegionDisabledException", "off", 403), FailureKind.REFUSED, "RegionDisabledException"),
        (refusal("Throttling", "Rate exceeded", 400), FailureKind.THROTTLED, "Throttling (HTTP 400)"),
        (refusal("Strange", "too fast", 429), FailureKind.THROTTLED, "Strange (HTTP 429)"),
        (refusal("InternalFailure", BASE.secret, 500), FailureKind.UNAVAILABLE, "InternalFailure (HTTP 500)"),
        (Answer(502, b"<html>Bad gateway</html>"), FailureKind.UNAVAILABLE, "HTTP 502"),
        (cut, FailureKind.MALFORMED, "ResponseParserError"),
        (Answer(200, NOT_XML), FailureKind.MALFORMED, "ResponseParserError"),
        (Answer(200, b""), FailureKind.MALFORMED, ""),
        (without_expiration, FailureKind.MALFORMED, "KeyError"),
        (Answer(301, b"", content_type="text/html"), FailureKind.MALFORMED, "ResponseParserError"),
    ),
)
async def test_what_the_service_refuses_is_told_without_secrets(
    answer: Answer | Alter, kind: FailureKind, detail: str, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """The message goes into the log, to `/status` and, at the end, into a ticket."""
    service.answer = lambda _seen: answer
    with caplog.at_level(logging.DEBUG):
        failed = await failure(await provider_of(service))
    assert (failed.kind, detail in failed.detail) == (kind, True), failed
    told = shown(failed, caplog.text)
    assert [secret for secret in SECRETS if secret in told] == []
    assert str(failed).isprintable()
    assert len(failed.detail) <= MAX_DETAIL_CHARACTERS
    # The store asks again, at its own pace.
    assert len(service.seen) == 1


async def test_a_service_that_is_down_is_not_available(service: Service) -> None:
    """Connection refused."""
    service.close()
    failed = await failure(await provider_of(service))
    assert (failed.kind, "Could not connect" in failed.detail) == (FailureKind.UNAVAILABLE, True)


async def test_a_proxy_that_is_down_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable often has one, and botocore's text has the URL."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:proxy-password@127.0.0.1:{taken.getsockname()[1]}")
        provider = AssumeRoleProvider()
        provider.on_top_of(Below())
        await provider.initialize({"role_arn": ROLE, "endpoint": "https://sts.example.com", "region": "eu-west-1"})
        failed = await failure(provider)
    assert (failed.kind, failed.detail) == (FailureKind.UNAVAILABLE, "ProxyConnectionError")
    assert "proxy-password" not in shown(failed)


async def test_without_a_provider_below_nothing_is_asked() -> None:
    """The registry always gives one; a test or a script may forget it."""
    provider = AssumeRoleProvider()
    await provider.initialize({"role_arn": ROLE})
    assert provider.files() == ()
    assert (await failure(provider)).kind is FailureKind.CONFIGURATION


async def test_a_service_that_answers_too_late_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it answers then is not used."""
    monkeypatch.setattr(outbound_aws, "READ_SECONDS", 0.2)
    service.answer = lambda _seen: Answer(200, b"", after=30)
    failed = await failure(await provider_of(service))
    assert (failed.kind, "Read timeout" in failed.detail) == (FailureKind.TIMEOUT, True)


async def test_the_failure_of_the_provider_below_is_told_as_it_is(service: Service) -> None:
    """Without keys nothing is asked of the service, and the cause is below."""
    below = Below()
    below.answers = [NotObtained(FailureKind.NONE_FOUND, "tried env")]
    failed = await failure(await provider_of(service, below))
    assert (failed.kind, failed.detail) == (FailureKind.NONE_FOUND, "tried env")
    assert service.seen == []


class TestRoleKeepsTheContract(ProviderContract):
    """A role on top of static keys."""

    @pytest.fixture
    def properties(self, service: Service, tmp_path: Path) -> Mapping[str, str]:
        self.session = SESSION
        self.service = service
        service.answer = sts(giving(lambda: self.session), lambda: (BASE,))
        self.keys = tmp_path / "keys.json"
        content = {"access_key_id": BASE.key_id, "secret_access_key": BASE.secret, "session_token": BASE.token}
        self.keys.write_text(json.dumps(content))
        return {"role_arn": ROLE, "endpoint": service.url, "external_id": EXTERNAL_ID}

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return *SECRETS, key("next").secret, key("next").token, EXTERNAL_ID

    def make(self) -> CredentialProvider:
        """Return a role on static keys; how the two are put together is the registry's."""
        below = StaticProvider()
        below._properties = {"file": str(self.keys)}
        provider = AssumeRoleProvider()
        provider.on_top_of(below)
        return provider

    def rotate_source(self) -> None:
        """Give another session."""
        self.session = key("next")

    def break_source(self) -> None:
        """Answer in the words of a proxy that shows what it was told."""
        self.service.answer = lambda seen: Answer(200, seen.body + f"{BASE.token} {SESSION.secret}".encode())
