"""What botocore's chain finds for a server: by every method, anew each time, never for ever, and never in a log."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import logging
import shlex
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from botocore.credentials import RefreshableCredentials
from botocore.session import Session

from signproxy.credentials import aws
from signproxy.credentials.chain import METHODS, ChainProvider
from signproxy.credentials.credentials import Credentials
from signproxy.credentials.failure import FailureKind, NotObtained
from signproxy.credentials.provider import CredentialProvider
from signproxy.credentials.threads import LIMIT
from signproxy.errors import ProviderInvalid
from signproxy.model import SessionScope
from signproxy.outbound import aws as outbound_aws
from tests.credentials.contract import ProviderContract
from tests.credentials.services import (
    Answer,
    Key,
    Service,
    container,
    giving,
    key,
    last_session,
    metadata,
    refusal,
    serving,
    sso,
    sts,
)
from tests.credentials.values import storage
from tests.waiting import until

KEY = key("one")
NEXT = key("two")
LONG_AGO = -7200.0
TOKEN = "eyJhbGciOiJSUzI1NiJ9.web.identity"


class Source:
    """What a service gives, until a test says otherwise."""

    def __init__(self) -> None:
        self.key = KEY
        self.authorization = "pod-token"

    def __call__(self) -> Key:
        return self.key


@pytest.fixture
def source() -> Source:
    return Source()


async def found(**properties: str) -> Credentials:
    """Return what a new provider gives."""
    provider = ChainProvider()
    await provider.initialize(properties)
    return await provider.get(storage(), SessionScope("lake", ""))


async def failure(**properties: str) -> NotObtained:
    with pytest.raises(NotObtained) as caught:
        await found(**properties)
    return caught.value


def held(credentials: Credentials) -> tuple[str, str, str]:
    return credentials.access_key_id, credentials.secret_access_key, credentials.session_token


# -- the ways ----------------------------------------------------------------------------------------------------------

Arrange = Callable[[Path, pytest.MonkeyPatch, Service, Source], None]


def from_environment(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", source.key.key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", source.key.secret)
    monkeypatch.setenv("AWS_SESSION_TOKEN", source.key.token)


def from_environment_with_expiry(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    from_environment(home, monkeypatch, service, source)
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", source.key.expiration)


def write_profile(path: Path, name: str, given: Key, prefix: str = "") -> None:
    path.write_text(
        f"[{prefix}{name}]\naws_access_key_id = {given.key_id}\naws_secret_access_key = {given.secret}\n"
        f"aws_session_token = {given.token}\n"
    )


def from_shared_file(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    write_profile(home / ".aws/credentials", "default", source.key)


def from_config_file(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    write_profile(home / ".aws/config", "default", source.key)


def process_of(home: Path, given: Key) -> str:
    """Return a command that prints a key pair as `credential_process` has to."""
    output = {
        "Version": 1,
        "AccessKeyId": given.key_id,
        "SecretAccessKey": given.secret,
        "SessionToken": given.token,
        "Expiration": given.expiration,
    }
    (home / "printed.json").write_text(json.dumps(output))
    return shlex.join(["/bin/cat", str(home / "printed.json")])


def from_process(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    (home / ".aws/config").write_text(f"[default]\ncredential_process = {process_of(home, source.key)}\n")


def from_web_identity(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    """As the webhook of EKS sets a pod up for IRSA."""
    service.answer = sts(giving(source), token=TOKEN)
    (home / "token").write_text(TOKEN)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(home / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/lake")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)


def from_container(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    """As EKS Pod Identity sets a pod up."""
    service.answer = container(source, lambda: source.authorization)
    (home / "pod-token").write_text(source.authorization)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/v1/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(home / "pod-token"))


def from_container_with_variable(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    """As an agent of one's own may do."""
    from_container(home, monkeypatch, service, source)
    monkeypatch.delenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", source.authorization)


def from_instance(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    service.answer = metadata(giving(source))
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)


def from_role_of_a_profile(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    """A profile that assumes a role with what a program prints."""
    below = key("below")
    service.answer = sts(giving(source), lambda: (below,))
    (home / ".aws/config").write_text(
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/lake\nsource_profile = base\nregion = eu-west-1\n"
        f"[profile base]\ncredential_process = {process_of(home, below)}\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)


def from_sso(home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source) -> None:
    """As a user has it after `aws sso login`."""
    service.answer = sso(source, "sso-access-token")
    (home / ".aws/config").write_text(
        "[default]\nsso_start_url = https://example.awsapps.com/start\nsso_region = eu-west-1\n"
        "sso_account_id = 123456789012\nsso_role_name = lake\n"
    )
    cached = {
        "accessToken": "sso-access-token",
        "expiresAt": NEXT.expiration,
        "startUrl": "https://example.awsapps.com/start",
    }
    name = hashlib.sha1(cached["startUrl"].encode()).hexdigest()  # noqa: S324 - how the files are named
    (home / f"{name}.json").write_text(json.dumps(cached))
    # Looked up in the home directory when botocore was imported.
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", str(home))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", service.url)


WAYS: dict[str, tuple[Arrange, str, bool]] = {
    "variables": (from_environment, "env", False),
    "variables with expiry": (from_environment_with_expiry, "env", True),
    "shared credentials": (from_shared_file, "shared-credentials-file", False),
    "config file": (from_config_file, "config-file", False),
    "process": (from_process, "custom-process", True),
    "web identity": (from_web_identity, "assume-role-with-web-identity", True),
    "container": (from_container, "container-role", True),
    "container, token in a variable": (from_container_with_variable, "container-role", True),
    "instance": (from_instance, "iam-role", True),
    "role of a profile": (from_role_of_a_profile, "assume-role", True),
    "sso": (from_sso, "sso", True),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_leads_to_the_keys_and_their_expiry(
    way: str, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """A way that botocore has and we lose is a cluster that does not start; a lost expiry is one that stops later."""
    arrange, method, expires = WAYS[way]
    arrange(aws_home, monkeypatch, service, source)
    provider = ChainProvider()
    await provider.initialize({})
    given = await provider.get(storage(), SessionScope("lake", ""))
    assert held(given) == (KEY.key_id, KEY.secret, KEY.token)
    assert f"found_by={method!r}" in repr(provider)
    if expires:
        assert given.expires_at is not None
        assert abs(given.expires_at - time.time() - 3600) < 300
    else:
        assert given.expires_at is None


async def test_a_session_of_web_identity_is_what_the_service_gave(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Keys, token and end that are read wrongly make signatures that no store takes."""
    from_web_identity(aws_home, monkeypatch, service, source)
    service.answer = sts(token=TOKEN)
    monkeypatch.setenv("AWS_ROLE_SESSION_NAME", "nightly")
    given = await found()
    session = last_session()
    assert held(given) == (session.access_key_id, session.secret_access_key, session.session_token)
    assert given.expires_at is not None
    assert abs(given.expires_at - session.expiration.timestamp()) < 1
    assert (session.role_arn, session.session_name) == ("arn:aws:iam::123456789012:role/lake", "nightly")


async def test_a_session_of_an_instance_is_what_its_metadata_gave(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """A role of a machine would sign with keys that no store knows."""
    from_instance(aws_home, monkeypatch, service, source)
    service.answer = metadata()
    given = await found()
    assert held(given) == ("test-key", "test-secret-key", "test-session-token")
    assert given.expires_at is not None
    assert abs(given.expires_at - time.time() - 24 * 3600) < 300
    assert [(seen.method, seen.path.rpartition("/")[2]) for seen in service.seen] == [
        ("PUT", "token"),
        ("GET", ""),
        ("GET", "default-role"),
    ]


@pytest.mark.parametrize("way", ("shared credentials", "process", "web identity", "container", "instance", "sso"))
async def test_each_question_is_answered_anew(
    way: str, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Botocore would keep what it found for the life of the process: a rotated profile needed a restart."""
    arrange, _, _ = WAYS[way]
    arrange(aws_home, monkeypatch, service, source)
    provider = ChainProvider()
    await provider.initialize({})
    assert held(await provider.get(storage(), SessionScope("lake", "")))[0] == KEY.key_id
    source.key = NEXT
    if way in ("shared credentials", "process"):
        arrange(aws_home, monkeypatch, service, source)
    assert held(await provider.get(storage(), SessionScope("lake", "")))[0] == NEXT.key_id


async def test_a_rotated_authorization_token_is_read_again(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Pod Identity replaces the file every few hours; a caller that keeps the old one is refused from then on."""
    from_container(aws_home, monkeypatch, service, source)
    provider = ChainProvider()
    await provider.initialize({})
    await provider.get(storage(), SessionScope("lake", ""))
    source.authorization = "rotated"
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    with pytest.raises(NotObtained) as caught:
        await provider.get(storage(), SessionScope("lake", ""))
    assert (caught.value.kind, caught.value.detail) == (FailureKind.DENIED, "container-role: HTTP 403")
    (aws_home / "pod-token").write_text("rotated")
    assert held(await provider.get(storage(), SessionScope("lake", "")))[0] == KEY.key_id


async def test_web_identity_sends_the_token_of_now_to_the_regional_service(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Kubelet replaces the projected token every hour or so."""
    from_web_identity(aws_home, monkeypatch, service, source)
    await found()
    (seen,) = service.seen
    assert seen.form["RoleArn"] == "arn:aws:iam::123456789012:role/lake"
    assert seen.form["WebIdentityToken"] == TOKEN
    assert "authorization" not in seen.headers


async def test_a_profile_takes_precedence_over_the_environment(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Variables that some base image brought must not sign in place of the profile that the operator named."""
    from_environment(aws_home, monkeypatch, service, source)
    write_profile(aws_home / ".aws/credentials", "lake", NEXT)
    assert held(await found())[0] == KEY.key_id
    assert held(await found(profile="lake"))[0] == NEXT.key_id


async def test_instance_metadata_is_never_asked_for_through_a_proxy(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """The proxy would answer with the role of its own machine, or read the keys of this one."""
    from_instance(aws_home, monkeypatch, service, source)
    with serving(lambda _seen: Answer(200, b"proxy")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert held(await found()) == (KEY.key_id, KEY.secret, KEY.token)
    assert proxy.seen == []


def from_role_of_an_instance(home: Path, monkeypatch: pytest.MonkeyPatch, sessions: Service, instance: Service) -> None:
    """A profile that assumes a role with what the instance metadata gives; the session service needs no proxy."""
    (home / ".aws/config").write_text(
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/lake\n"
        "credential_source = Ec2InstanceMetadata\nregion = eu-west-1\n"
    )
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", instance.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sessions.url)
    monkeypatch.setenv("NO_PROXY", sessions.url.removeprefix("http://"))


ONLY_THE_ROLE: tuple[dict[str, str], ...] = (
    {},
    {"methods": "assume-role"},
    {"methods": "assume-role, env"},
    {"methods": "assume-role, iam-role"},
)


@pytest.mark.parametrize("properties", ONLY_THE_ROLE)
async def test_instance_metadata_below_a_role_is_never_asked_for_through_a_proxy(
    properties: dict[str, str], aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """A proxy that answers would choose whose keys assume the role, where `methods` names the role alone."""
    below = key("below")
    service.answer = sts(giving(source), lambda: (below,))
    with serving(metadata(giving(lambda: below))) as instance, serving(lambda _seen: Answer(200, b"proxy")) as proxy:
        from_role_of_an_instance(aws_home, monkeypatch, service, instance)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert held(await found(**properties)) == (KEY.key_id, KEY.secret, KEY.token)
        assert proxy.seen == []
        assert len(instance.seen) == 3


async def test_no_region_is_asked_of_instance_metadata_through_a_proxy(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """The variable `AWS_DEFAULTS_MODE` of a base image makes botocore ask for it with a client of its own."""
    from_web_identity(aws_home, monkeypatch, service, source)
    monkeypatch.setenv("AWS_DEFAULTS_MODE", "auto")
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    # An address of the documentation: nothing answers there, and only a proxy could be asked for it.
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://192.0.2.1/")
    monkeypatch.setenv("NO_PROXY", service.url.removeprefix("http://"))
    with serving(lambda _seen: Answer(404, b"")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert held(await found()) == (KEY.key_id, KEY.secret, KEY.token)
    assert proxy.seen == []


# -- which ways may be used --------------------------------------------------------------------------------------------


async def test_only_the_named_methods_are_tried(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Where IRSA was forgotten, the role of the node signs instead, and that one may reach every bucket."""
    from_instance(aws_home, monkeypatch, service, source)
    assert held(await found())[0] == KEY.key_id
    asked = len(service.seen)
    missing = await failure(methods="assume-role-with-web-identity, container-role")
    assert missing.kind is FailureKind.NONE_FOUND
    assert missing.detail == "tried assume-role-with-web-identity, container-role"
    assert len(service.seen) == asked
    assert held(await found(methods="iam-role"))[0] == KEY.key_id


def test_our_names_of_the_methods_are_botocores() -> None:
    """A method that botocore adds or renames must not be out of an operator's reach."""
    resolver = Session().get_component("credential_provider")
    assert tuple(provider.METHOD for provider in resolver.providers) == METHODS


@pytest.mark.parametrize(
    ("properties", "findings"),
    (
        ({"profil": "x"}, {"profil": "did you mean 'profile'?"}),
        ({"profile": ""}, {"profile": "is empty"}),
        ({"region": " "}, {"region": "is empty"}),
        ({"methods": "iam-rol"}, {"methods": "no method 'iam-rol' (did you mean 'iam-role'?)"}),
        ({"methods": ","}, {"methods": "names none"}),
    ),
)
async def test_wrong_properties_are_named_at_the_start(properties: dict[str, str], findings: dict[str, str]) -> None:
    """`check-config` must find them without asking a service."""
    with pytest.raises(ProviderInvalid) as caught:
        await ChainProvider().initialize(properties)
    problems = {finding.path: finding.problem for finding in caught.value.findings}
    assert problems.keys() == findings.keys()
    assert [path for path, part in findings.items() if part not in problems[path]] == []


# -- expiry ------------------------------------------------------------------------------------------------------------


def test_botocore_still_keeps_the_expiry_where_it_is_read() -> None:
    """There is no public way to it; without it a session would look as if it never ended."""
    metadata = {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": KEY.expiration}
    made = RefreshableCredentials.create_from_metadata(metadata, lambda: metadata, "test")
    assert made._expiry_time.timestamp() == pytest.approx(time.time() + 3600, abs=300)


@pytest.mark.parametrize("seconds", (1000.0, 700.0))
async def test_the_life_of_instance_credentials_is_not_stretched(
    seconds: float, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Botocore adds up to 25 minutes to what is about to end; S3 does not."""
    source.key = key("ending", seconds)
    from_instance(aws_home, monkeypatch, service, source)
    given = await found()
    assert given.expires_at is not None
    assert given.expires_at <= time.time() + seconds


@pytest.mark.parametrize("properties", ONLY_THE_ROLE)
async def test_no_role_is_assumed_with_what_has_expired(
    properties: dict[str, str], aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Stretched, the life of dead instance credentials looks well: the session service would be blamed."""
    below = key("below", LONG_AGO)
    service.answer = sts(giving(source), lambda: (below,))
    with serving(metadata(giving(lambda: below))) as instance:
        from_role_of_an_instance(aws_home, monkeypatch, service, instance)
        assert (await failure(**properties)).kind is FailureKind.EXPIRED
    assert service.seen == []


@pytest.mark.parametrize("way", ("instance", "container", "process", "web identity", "variables with expiry"))
async def test_what_has_expired_already_is_not_handed_on(
    way: str, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """An agent that lost its own connection goes on answering with what it has."""
    source.key = key("old", LONG_AGO)
    WAYS[way][0](aws_home, monkeypatch, service, source)
    assert (await failure()).kind is FailureKind.EXPIRED


# -- failures ----------------------------------------------------------------------------------------------------------

SECRETS = (KEY.secret, KEY.token, "eyJhbGciOi", "web.identity")


def shown(error: BaseException, log: str = "") -> str:
    """Return everything that could be printed of an error, what hangs on it included."""
    texts = [log]
    seen: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and each not in seen:
            seen.append(each)
            texts += [repr(each), str(each), repr(vars(each)), repr(each.args)]
            todo += [each.__cause__, each.__context__]
    return "\n".join(texts)


class Case(NamedTuple):
    """An answer, and what is told of it."""

    way: str
    answer: Answer
    kind: FailureKind
    detail: str


WITHOUT_ID = {"AccessKeyId": "", "SecretAccessKey": KEY.secret, "Token": "", "Expiration": KEY.expiration}
WEB = "web identity"
POD = "container"
IMDS = "instance"
DENIED = "AssumeRoleWithWebIdentity: AccessDenied (HTTP 403): Not authorized"
CASES = (
    Case(WEB, refusal("AccessDenied", "Not authorized", 403), FailureKind.DENIED, DENIED),
    Case(WEB, refusal("AccessDenied", f"no: {TOKEN}", 403), FailureKind.DENIED, "no: …"),
    Case(WEB, refusal("ExpiredTokenException", KEY.secret, 400), FailureKind.EXPIRED, "ExpiredTokenException"),
    Case(WEB, refusal("InvalidIdentityToken", KEY.secret, 400), FailureKind.REFUSED, "InvalidIdentityToken"),
    Case(WEB, refusal("Throttling", "Rate exceeded", 400), FailureKind.THROTTLED, "Throttling (HTTP 400)"),
    Case(WEB, refusal(KEY.secret, KEY.secret, 400), FailureKind.REFUSED, "no code (HTTP 400)"),
    Case(WEB, Answer(503, b"<html>busy</html>"), FailureKind.UNAVAILABLE, "HTTP 503"),
    Case(WEB, Answer(200, b"<a>" + KEY.secret.encode()), FailureKind.MALFORMED, "ResponseParserError"),
    Case(WEB, Answer(200, b"{" + KEY.secret.encode()), FailureKind.MALFORMED, "ResponseParserError"),
    Case(WEB, Answer(200, b""), FailureKind.MALFORMED, ""),
    Case(POD, Answer(500, KEY.secret.encode()), FailureKind.UNAVAILABLE, "container-role: HTTP 500"),
    Case(POD, Answer(200, b'{"Token": "' + KEY.token.encode()), FailureKind.UNAVAILABLE, "container-role"),
    Case(POD, Answer(200, json.dumps({"Token": KEY.token}).encode()), FailureKind.MALFORMED, "KeyError"),
    Case(POD, Answer(200, json.dumps([KEY.secret]).encode()), FailureKind.MALFORMED, "TypeError"),
    Case(POD, Answer(200, json.dumps(WITHOUT_ID).encode()), FailureKind.MALFORMED, "access_key_id: is empty"),
    # An instance without a role is no fault: the chain has simply come to its end.
    Case(IMDS, Answer(404, KEY.secret.encode()), FailureKind.NONE_FOUND, "tried env, assume-role"),
    Case(IMDS, Answer(200, KEY.secret.encode()), FailureKind.NONE_FOUND, "iam-role"),
)


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
async def test_a_service_that_fails_is_named_without_its_words(
    case: Case,
    aws_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    service: Service,
    source: Source,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Operators need the cause; botocore's own errors and debug lines bring the answer, secrets and all."""
    WAYS[case.way][0](aws_home, monkeypatch, service, source)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    service.answer = lambda _seen: case.answer
    with caplog.at_level(logging.DEBUG):
        failed = await failure()
    assert (failed.kind, case.detail in failed.detail) == (case.kind, True), failed
    told = shown(failed, caplog.text)
    assert [secret for secret in SECRETS if secret in told] == []


@pytest.mark.parametrize("way", ("web identity", "container"))
async def test_a_service_that_is_down_is_not_available(
    way: str, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Connection refused, as while an agent restarts."""
    WAYS[way][0](aws_home, monkeypatch, service, source)
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    service.close()
    assert (await failure()).kind is FailureKind.UNAVAILABLE


async def test_a_service_that_answers_too_late_is_given_up(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """Botocore would wait a minute, five times."""
    monkeypatch.setattr(outbound_aws, "READ_SECONDS", 0.2)
    from_web_identity(aws_home, monkeypatch, service, source)
    service.answer = lambda _seen: Answer(200, b"", after=30)
    assert (await failure()).kind is FailureKind.TIMEOUT
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    ("config", "properties", "kind", "detail"),
    (
        ("", {"profile": "nowhere"}, FailureKind.CONFIGURATION, "The config profile (nowhere) could not be found"),
        ("[default\n", {}, FailureKind.CONFIGURATION, "Unable to parse config file"),
        ("[default]\naws_access_key_id = x\n", {}, FailureKind.CONFIGURATION, "missing: aws_secret_access_key"),
        ("[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = no\n", {}, FailureKind.CONFIGURATION, "no"),
        (
            "[default]\ncredential_process = /does/not/exist\n",
            {},
            FailureKind.CONFIGURATION,
            "directory: /does/not/exist",
        ),
        (f"[default]\ncredential_process = /bin/echo {KEY.secret}\n", {}, FailureKind.MALFORMED, "JSONDecodeError"),
        (
            f"[default]\ncredential_process = /bin/sh -c 'echo {KEY.secret} >&2; exit 1'\n",
            {},
            FailureKind.UNAVAILABLE,
            "custom-process",
        ),
        ("", {}, FailureKind.NONE_FOUND, "tried env"),
    ),
)
async def test_a_wrong_set_up_is_named(
    config: str, properties: dict[str, str], kind: FailureKind, detail: str, aws_home: Path
) -> None:
    """Files and programs of the operator's: the message is all that there is to see."""
    (aws_home / ".aws/config").write_text(config)
    failed = await failure(**properties)
    assert (failed.kind, detail in failed.detail) == (kind, True), failed
    assert KEY.secret not in shown(failed)


async def test_what_was_not_foreseen_is_named_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an error that is not known may hold anything; a name holds nothing."""
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{KEY.secret} is no URL")
    failed = await failure()
    assert (failed.kind, failed.detail) == (FailureKind.FAILED, "InvalidIMDSEndpointError")
    assert KEY.secret not in shown(failed)


async def test_a_token_file_that_is_missing_or_torn_is_named(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """The file is a mount of the pod; a line end in it is what editors and secrets managers add."""
    from_container(aws_home, monkeypatch, service, source)
    (aws_home / "pod-token").write_text("pod-token\n")
    assert "legal header value" in (await failure()).detail
    (aws_home / "pod-token").unlink()
    assert str(aws_home / "pod-token") in (await failure()).detail


async def test_no_user_is_asked_for_a_code(aws_home: Path) -> None:
    """Botocore would wait on standard input for ever."""
    (aws_home / ".aws/config").write_text(
        "[default]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = base\n"
        "mfa_serial = arn:aws:iam::1:mfa/x\nregion = eu-west-1\n"
        "[profile base]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    failed = await failure()
    assert (failed.kind, "MFA" in failed.detail) == (FailureKind.CONFIGURATION, True)


# -- what hangs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nested", ("direct", "below a role"))
async def test_a_program_that_hangs_is_ended_with_what_it_started(
    nested: str, aws_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Botocore waits for ever, and the child of a killed shell would hold the pipe open as long as it lives."""
    monkeypatch.setattr(aws, "PROCESS_SECONDS", 0.5)
    process = f"credential_process = /bin/sh -c 'sleep 600 & echo $! > {aws_home}/child; wait'\n"
    if nested == "direct":
        text = f"[default]\n{process}"
    else:
        text = (
            "[default]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = base\nregion = eu-west-1\n"
            f"[profile base]\n{process}"
        )
    (aws_home / ".aws/config").write_text(text)
    failed = await failure()
    assert (failed.kind, failed.detail) == (FailureKind.TIMEOUT, "credential_process")
    child = int((aws_home / "child").read_text())
    await until(lambda: not _alive(child))


def _alive(pid: int) -> bool:
    try:
        # Killed, and not yet collected by the process that adopted it.
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


async def test_a_service_that_hangs_holds_a_few_threads_at_most(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """The store gives up waiting and asks again; the threads behind it must not pile up."""
    from_web_identity(aws_home, monkeypatch, service, source)
    service.answer = lambda _seen: Answer(200, b"", after=30)
    before = threading.enumerate()
    provider = ChainProvider()
    await provider.initialize({})
    asking = [asyncio.create_task(provider.get(storage(), SessionScope("lake", ""))) for _ in range(3 * LIMIT)]
    await until(lambda: len(service.seen) >= LIMIT)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    ours = [each for each in threading.enumerate() if each.name == "signproxy-credentials" and each not in before]
    assert len(ours) == LIMIT
    # They end by themselves, with the connection, and the next question is answered.
    service.released.set()
    await until(lambda: not any(thread.is_alive() for thread in ours))
    service.answer = sts(giving(source), token=TOKEN)
    assert held(await provider.get(storage(), SessionScope("lake", "")))[0] == KEY.key_id


# -- contract ----------------------------------------------------------------------------------------------------------


class TestContainerKeepsTheContract(ProviderContract):
    """The chain over the endpoint of EKS Pod Identity."""

    @pytest.fixture
    def properties(
        self, aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
    ) -> Mapping[str, str]:
        monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
        from_container(aws_home, monkeypatch, service, source)
        self.service, self.source = service, source
        return {}

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return KEY.secret, KEY.token, NEXT.secret, NEXT.token, "pod-token"

    def make(self) -> CredentialProvider:
        """Return a chain."""
        return ChainProvider()

    def rotate_source(self) -> None:
        """Give another key pair."""
        self.source.key = NEXT

    def break_source(self) -> None:
        """Answer in the words of a proxy that shows what it was told."""
        self.service.answer = lambda _seen: Answer(502, f"bad: {KEY.secret} {KEY.token} pod-token".encode())


class TestProfileKeepsTheContract(ProviderContract):
    """The chain over a shared file."""

    @pytest.fixture
    def properties(self, aws_home: Path) -> Mapping[str, str]:
        self.path = aws_home / ".aws/credentials"
        write_profile(self.path, "lake", KEY)
        return {"profile": "lake"}

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return KEY.secret, KEY.token, NEXT.secret, NEXT.token

    def make(self) -> CredentialProvider:
        """Return a chain."""
        return ChainProvider()

    def rotate_source(self) -> None:
        """Write another key pair."""
        write_profile(self.path, "lake", NEXT)

    def break_source(self) -> None:
        """Leave a file that is torn in the middle of its secret."""
        self.path.write_text(f"[lake\naws_secret_access_key = {KEY.secret}\n{KEY.token}")


# -- cost --------------------------------------------------------------------------------------------------------------


def test_botocore_is_imported_by_its_users_alone() -> None:
    """The classes are looked at before anything is asked, and static keys are asked without it."""
    script = (
        "import sys\n"
        "import signproxy.credentials.store, signproxy.credentials.static\n"
        "import signproxy.credentials.chain, signproxy.credentials.assume_role\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('botocore', 'urllib3', 'boto3')])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


async def test_a_session_leaves_nothing_behind(
    aws_home: Path, monkeypatch: pytest.MonkeyPatch, service: Service, source: Source
) -> None:
    """A refresh every few minutes, for months: what each leaves adds up."""
    from_web_identity(aws_home, monkeypatch, service, source)
    sessions: list[weakref.ref[Session]] = []
    made = Session.__init__

    def noted(self: Session, *arguments: object, **named: object) -> None:
        made(self, *arguments, **named)
        sessions.append(weakref.ref(self))

    monkeypatch.setattr(Session, "__init__", noted)
    await found()
    gc.collect()
    descriptors = open_files()
    for _ in range(5):
        await found()
    gc.collect()
    assert len(sessions) == 6
    assert [each for each in sessions if each() is not None] == []
    assert open_files() <= descriptors


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
