"""What is sent to a session service, and what a caller is told when that does not answer as it should."""

from __future__ import annotations

import asyncio
import re
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from signproxy.errors import Reason, Refused
from signproxy.s3.storage import Storage, StorageKind
from signproxy.vending import sts as vending_sts
from signproxy.vending.sts import MAX_NAME, SessionService, SessionWanted, session_name
from tests.credentials.services import Answer, Key, Service, giving, key, refusal, sts
from tests.vending.scopes import AMAZON, EVENT
from tests.vending.services import BASE, POLICY, ROLE, SESSION, Own, answering, question, session_service

EXTERNAL_ID = "between-two-parties"


async def refused(service: SessionService, asked: SessionWanted | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        await service.ask(asked or question())
    return caught.value


# -- what is sent ------------------------------------------------------------------------------------------------------


async def test_a_session_is_asked_for_with_its_policy(service: Service) -> None:
    """Without the policy the keys would be good for all that the role may do."""
    answering(service)
    own = Own()
    asked = session_service(service, own, external_id=EXTERNAL_ID)
    keys = await asked.ask(question())
    (seen,) = service.seen
    assert seen.form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": f"sp-corp-alice-{EVENT}",
        "DurationSeconds": "3600",
        "Policy": POLICY,
        "ExternalId": EXTERNAL_ID,
    }
    assert own.asked == ["lake"]
    assert (keys.access_key_id, keys.secret_access_key, keys.session_token) == SESSION[:3]
    assert abs(keys.expires_at - time.time() - 3600) < 60
    assert keys.session_name == f"sp-corp-alice-{EVENT}"
    assert keys.policy_digest == sha256(POLICY.encode()).hexdigest()


async def test_the_caller_is_named_where_the_operator_wants_it(service: Service) -> None:
    """The store's own log then says on whose behalf, over every further role."""
    answering(service)
    tags = (("caller", "{principal}"), ("unit", "sales"))
    await session_service(service, source_identity=True, tags=tags).ask(question("corp/alice"))
    form = service.seen[0].form
    assert re.fullmatch(r"corp_alice-[0-9a-f]{12}", form["SourceIdentity"])
    assert (form["Tags.member.1.Key"], form["Tags.member.1.Value"]) == ("caller", "corp/alice")
    assert (form["Tags.member.2.Key"], form["Tags.member.2.Value"]) == ("unit", "sales")


async def test_two_callers_stay_two_where_not_every_character_may_stand(service: Service) -> None:
    """A policy of the store that goes by the tag would take one caller for the other."""
    answering(service)
    asked = session_service(service, source_identity=True, tags=(("caller", "{principal}"),))
    for principal in ("corp/a|b", "corp/a*b", f"corp/{'x' * 300}", f"corp/{'x' * 301}"):
        await asked.ask(question(principal))
    for name in ("SourceIdentity", "Tags.member.1.Value"):
        told = [seen.form[name] for seen in service.seen]
        assert len(set(told)) == 4
    assert max(len(seen.form["SourceIdentity"]) for seen in service.seen) <= 64
    assert max(len(seen.form["Tags.member.1.Value"]) for seen in service.seen) <= 256


@pytest.mark.parametrize(
    "principal", ("corp/alice", "a" * 300, "", "ünï/çødé", "x\r\ny", "https://idp.example/realms/x/auth0|1234567890")
)
def test_a_session_name_is_one_and_leads_to_the_event(principal: str) -> None:
    """The store's log has nothing else by which an operator finds the request."""
    name = session_name(principal, EVENT)
    assert re.fullmatch(r"[A-Za-z0-9_+=,.@-]{2,64}", name)
    assert name.startswith("sp-")
    assert name.endswith(f"-{EVENT}")
    assert len(session_name(principal, "é" * 200)) <= MAX_NAME


async def test_a_web_identity_is_shown_in_place_of_a_signature(service: Service, tmp_path: Path) -> None:
    """A pod that has a token needs no keys; the token is read anew, for it is replaced before it ends."""
    file = tmp_path / "token"
    file.write_text("first\n")
    own = Own()
    asked = session_service(
        service, own, web_identity_token_file=file, external_id=EXTERNAL_ID, tags=(("a", "b"),), source_identity=True
    )
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        service.answer = sts(giving(lambda: SESSION), token=token)
        await asked.ask(question())
    for seen in service.seen:
        assert seen.form["Action"] == "AssumeRoleWithWebIdentity"
        assert seen.form["Policy"] == POLICY
        assert not {"ExternalId", "Tags.member.1.Key", "SourceIdentity"} & set(seen.form)
        assert "authorization" not in seen.headers
    assert own.asked == []


async def test_the_service_is_that_of_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The global service's sessions are refused by newer regions, and by other partitions."""
    made: list[Any] = []

    class Client:
        def assume_role(self, **_: object) -> dict[str, object]:
            raise TimeoutError

        def close(self) -> None:
            """Do nothing."""

    def session_client(storage: Storage, _own: object, *, region: str, endpoint: str) -> Client:
        made.append((storage.region, region, endpoint))
        return Client()

    monkeypatch.setattr(vending_sts, "session_client", session_client)
    source = vending_sts.SessionSource(storage=AMAZON, role=ROLE)
    assert (await refused(SessionService(source, Own()))).reason is Reason.SESSIONS_UNAVAILABLE
    assert made == [("eu-west-1", "", "")]


async def test_replaced_credentials_are_used_at_once(service: Service) -> None:
    """Rotated keys that were kept would be refused from then on."""
    own, second = Own(), Key("AKIASECOND0000000000", "second/Secret", "")
    asked = session_service(service, own)
    answering(service)
    await asked.ask(question())
    own.now = Own(second).now
    answering(service, caller=second)
    await asked.ask(question())
    assert len(service.seen) == 2
    asked.aclose()
    asked.aclose()


# -- how long they live ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "token", "seconds"), ((43_200, "", "43200"), (43_200, "token", "3600"), (900, "", "900"))
)
async def test_a_session_of_a_session_lasts_an_hour(service: Service, wanted: int, token: str, seconds: str) -> None:
    """A role that is assumed by another role is refused anything longer."""
    base = Key(BASE.key_id, BASE.secret, token)
    answering(service, key("session", float(seconds)), base)
    await session_service(service, Own(base), seconds=wanted).ask(question())
    assert service.seen[0].form["DurationSeconds"] == seconds


async def test_no_session_outlives_the_token(service: Service) -> None:
    """Revoked at the identity provider, a caller would go on for an hour."""
    now = 1_000_000.0
    asked = session_service(service, clock=lambda: now)
    answering(service, Key(*SESSION[:3], now + 1170 - time.time()))
    keys = await asked.ask(question(latest=now + 1200))
    assert service.seen[0].form["DurationSeconds"] == "1170"
    assert keys.expires_at <= now + 1200
    # Ignored by the service, or its clock is ahead: such keys are given to no caller.
    answering(service, Key(*SESSION[:3], now + 1290 - time.time()))
    assert (await refused(asked, question(latest=now + 1200))).reason is Reason.SESSIONS_INVALID


async def test_a_token_that_ends_too_soon_is_told_so(service: Service) -> None:
    """No service makes sessions of less than 15 minutes; a longer one is not made instead."""
    found = await refused(session_service(service), question(latest=time.time() + 600))
    assert found.reason is Reason.SESSION_TOO_SHORT
    assert found.reason.status == 401
    assert service.seen == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    (
        ("Throttling", 400, Reason.SESSIONS_THROTTLED),
        ("ThrottlingException", 400, Reason.SESSIONS_THROTTLED),
        ("Whatever", 429, Reason.SESSIONS_THROTTLED),
        ("ExpiredToken", 403, Reason.SESSIONS_UNAVAILABLE),
        ("ServiceUnavailable", 503, Reason.SESSIONS_UNAVAILABLE),
        ("InternalFailure", 500, Reason.SESSIONS_UNAVAILABLE),
        ("AccessDenied", 403, Reason.SESSIONS_REFUSED),
        ("NoSuchEntity", 404, Reason.SESSIONS_REFUSED),
        ("ValidationError", 400, Reason.SESSIONS_REFUSED),
        ("MalformedPolicyDocument", 400, Reason.SESSIONS_REFUSED),
        ("RegionDisabledException", 403, Reason.SESSIONS_REFUSED),
        ("PackedPolicyTooLarge", 400, Reason.SCOPE_TOO_LARGE),
    ),
)
async def test_each_refusal_of_the_service_has_its_reason(
    service: Service, code: str, status: int, reason: Reason
) -> None:
    """An operator reads what to do; a client waits and asks again only where that helps."""
    service.answer = lambda _seen: refusal(code, f"not with {BASE.secret}", status)
    found = await refused(session_service(service))
    assert found.reason is reason
    assert code in found.detail
    assert BASE.secret not in found.detail


@pytest.mark.parametrize(
    "body",
    (b"", b"<html>sign in</html>", b'{"a": 1}', b"<AssumeRoleResponse/>", b"<a>" * 1000, b"\x00\xff"),
)
async def test_an_answer_that_cannot_be_read_is_no_session(service: Service, body: bytes) -> None:
    """A proxy in between answers 200 with a page of its own."""
    service.answer = lambda _seen: Answer(200, body)
    assert (await refused(session_service(service))).reason is Reason.SESSIONS_INVALID


@pytest.mark.parametrize(
    ("given", "said"),
    (
        (Key(*SESSION[:3], -10.0), "left"),
        (Key(*SESSION[:3], 30.0), "left"),
        (Key(*SESSION[:3], 590.0), "left"),
        (Key(*SESSION[:3], 43_200.0), "asked for"),
        (Key(BASE.key_id, BASE.secret, "token", 3600.0), "the very keys"),
    ),
)
async def test_keys_that_are_no_session_of_ours_are_not_handed_out(service: Service, given: Key, said: str) -> None:
    """Dead keys, keys for half a day, and the server's own."""
    answering(service, given)
    found = await refused(session_service(service))
    assert found.reason is Reason.SESSIONS_INVALID
    assert said in found.detail


async def test_the_session_of_another_question_is_not_handed_out(service: Service) -> None:
    """A cache on the way to the service would give one caller the keys of another, or of another table."""
    answering(service)
    asks = session_service(service)
    await asks.ask(question())
    kept: list[bytes] = []

    def once(body: bytes) -> bytes:
        kept.append(giving(lambda: SESSION)(body))
        return kept[0]

    service.answer = sts(once, lambda: (BASE,))
    await asks.ask(question())
    with pytest.raises(Refused) as caught:
        await asks.ask(question("corp/bob"))
    assert caught.value.reason is Reason.SESSIONS_INVALID
    assert "another name" in caught.value.detail


async def test_keys_without_a_session_token_are_not_handed_out(service: Service) -> None:
    """Such keys are a user's, whom no session policy binds."""

    def bare(body: bytes) -> bytes:
        body = giving(lambda: SESSION)(body)
        return re.sub(rb"<SessionToken>[^<]+</SessionToken>", b"<SessionToken></SessionToken>", body)

    service.answer = sts(bare, lambda: (BASE,))
    assert (await refused(session_service(service))).reason is Reason.SESSIONS_INVALID


async def test_a_service_that_is_not_there_is_told_as_such(service: Service) -> None:
    """Clients ask again where waiting helps."""
    asked = session_service(service)
    service.close()
    assert (await refused(asked)).reason is Reason.SESSIONS_UNAVAILABLE


async def test_a_slow_service_is_not_waited_for(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that waits keeps a place among the requests in flight."""
    monkeypatch.setattr(vending_sts, "ASK_SECONDS", 0.2)
    service.answer = lambda _seen: Answer(200, b"", after=30.0)
    found = await refused(session_service(service))
    assert found.reason is Reason.SESSIONS_UNAVAILABLE
    service.released.set()


async def test_without_own_credentials_there_is_nothing_to_ask_with(service: Service) -> None:
    """The reason is that of the credentials, which the operator looks into."""
    own = Own()
    own.now = Refused(Reason.CREDENTIALS_UNAVAILABLE, "expired")
    assert (await refused(session_service(service, own))).reason is Reason.CREDENTIALS_UNAVAILABLE
    missing = session_service(service, web_identity_token_file=Path("/nowhere/token"))
    assert (await refused(missing)).reason is Reason.SESSIONS_REFUSED


async def test_another_store_needs_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's service knows nothing of the keys of another store, and would get their signature."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    weed = Storage("weed", StorageKind.S3_COMPATIBLE, "eu-west-1", ("lake",), ())
    found = await refused(SessionService(vending_sts.SessionSource(storage=weed, role=ROLE), Own()))
    assert found.reason is Reason.SESSIONS_REFUSED
    assert "endpoint" in found.detail


async def test_a_policy_that_hardly_fits_is_logged(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    """The next longer path would be refused: an operator should know before."""

    def nearly(body: bytes) -> bytes:
        return re.sub(rb"(?<=<PackedPolicySize>)\d+", b"93", giving(lambda: SESSION)(body))

    service.answer = sts(nearly, lambda: (BASE,))
    await session_service(service).ask(question())
    assert '"packed_percent":93' in capfd.readouterr().err.replace(" ", "")


async def test_no_secret_is_shown(service: Service, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither where keys are printed, nor where they are logged, nor where they are refused."""
    answering(service)
    asked = session_service(service, external_id=EXTERNAL_ID)
    keys = await asked.ask(question())
    service.answer = lambda _seen: refusal("AccessDenied", f"{EXTERNAL_ID} {BASE.secret}", 403)
    told = f"{keys!r} {asked!r} {asked.source!r} {await refused(asked)!r} {capfd.readouterr()!r}"
    for secret in (SESSION.secret, SESSION.token, BASE.secret, EXTERNAL_ID):
        assert secret not in told
    with pytest.raises(TypeError):
        keys.__reduce__()


async def test_a_caller_that_leaves_does_not_stop_the_question(service: Service) -> None:
    """What it would have got is kept for the next one."""
    answering(service)
    asked = asyncio.create_task(session_service(service).ask(question()))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
