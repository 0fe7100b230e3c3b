"""Who is let in, for how long that is remembered, and when it is forgotten."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from typing import Any

import pytest

from signproxy.errors import Reason, SettingsInvalid
from signproxy.identity import tokens
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.fetch import Fetched, Trust, fetch
from signproxy.identity.issuer import Discovery, Issuer, JwksUrl, SharedSecret
from signproxy.identity.key_url import KeyUrl
from signproxy.identity.keys import VerificationKey
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from signproxy.model import Principal
from tests.garbage import nothing_kept
from tests.identity.rig import (
    NOW,
    SECRET,
    Clock,
    KeyServer,
    authenticator,
    claims,
    issuer,
    jwk,
    jwks,
    key_for,
    principal,
    principal_later,
    public_issuer,
    refusal,
    refusal_later,
    remote_issuer,
    rsa_key,
    token,
)

ASYMMETRIC = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def test_a_verified_token_names_its_principal() -> None:
    """Were a field mixed up, policies would grant to the wrong name or the audit name the wrong caller."""
    found = principal(authenticator(), token(claims(exp=NOW + 90)))
    assert found == Principal("corp/alice", "corp", "alice", NOW + 90)


@pytest.mark.parametrize("algorithm", ("HS256", "HS384", "HS512"))
def test_each_shared_secret_algorithm_is_verified(algorithm: str) -> None:
    """An issuer that signs with it would be locked out."""
    who = authenticator(issuer(algorithms=(algorithm,)))
    assert principal(who, token(algorithm=algorithm)).name == "corp/alice"


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_each_public_key_algorithm_is_verified_with_a_key_file(algorithm: str) -> None:
    """An issuer that signs with it would be locked out."""
    who = authenticator(public_issuer(algorithm))
    assert principal(who, token(key=key_for(algorithm), algorithm=algorithm)).name == "corp/alice"


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
async def test_each_public_key_algorithm_is_verified_with_a_key_set(algorithm: str) -> None:
    """An issuer that signs with it would be locked out."""
    key = key_for(algorithm)
    async with KeyServer(jwks(jwk(key, kid="one", alg=algorithm, use="sig"))) as server:
        who = authenticator(remote_issuer(server.url, algorithm))
        text = token(key=key, algorithm=algorithm, header={"kid": "one"})
        assert (await principal_later(who, text)).name == "corp/alice"
        await who.aclose()


@pytest.mark.parametrize("algorithm", ("HS256", *ASYMMETRIC))
def test_every_single_changed_part_of_a_token_is_refused(algorithm: str) -> None:
    """A caller could change its own claims."""
    key = SECRET if algorithm == "HS256" else key_for(algorithm)
    who = authenticator(issuer() if algorithm == "HS256" else public_issuer(algorithm))
    parts = token(claims(sub="mallory"), key, algorithm).split(".")
    others = token(claims(sub="admin"), key, algorithm).split(".")
    assert principal(who, ".".join(parts)).name == "corp/mallory"
    assert refusal(who, f"{parts[0]}.{others[1]}.{parts[2]}") is Reason.TOKEN_SIGNATURE
    assert refusal(who, f"{parts[0]}.{parts[1]}.{others[2]}") is Reason.TOKEN_SIGNATURE


def test_each_issuer_speaks_only_with_its_own_keys() -> None:
    """One tenant's identity provider could mint tokens of another's."""
    first = issuer(name="first", issuer="https://first", keys=SharedSecret(b"1" * 32))
    second = issuer(name="second", issuer="https://second", keys=SharedSecret(b"2" * 32))
    who = authenticator(first, second)
    assert principal(who, token(claims(iss="https://first"), b"1" * 32)).name == "first/alice"
    assert principal(who, token(claims(iss="https://second"), b"2" * 32)).name == "second/alice"
    assert refusal(who, token(claims(iss="https://second"), b"1" * 32)) is Reason.TOKEN_SIGNATURE


def test_a_token_that_no_key_verifies_is_forgotten() -> None:
    """The collector would stop all callers for as long as it looks at what forged tokens left."""
    who = authenticator(issuer())
    forged = [token(claims(sub=f"mallory{number}"), b"1" * 64) for number in range(20)]
    with nothing_kept():
        assert {refusal(who, text) for text in forged} == {Reason.TOKEN_SIGNATURE}


def test_an_issuer_speaks_for_its_catalogs_and_roles_alone() -> None:
    """A small issuer could hand out the roles of a large one."""
    who = authenticator(issuer(roles_claim="roles", roles=("analyst", "etl"), catalogs=("sales",)))
    found = principal(who, token(claims(roles=["service_admin", "etl", "etl", 7])))
    assert found.roles == ("etl",)
    assert found.catalogs == ("sales",)


# -- what is remembered


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each signature check."""
    seen: list[str] = []
    real = tokens._signature_fault

    def spy(token: str, issuer: Issuer, key: VerificationKey) -> tuple[Reason, str] | None:
        seen.append(token)
        return real(token, issuer, key)

    monkeypatch.setattr(tokens, "_signature_fault", spy)
    return seen


def test_a_token_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request would cost a signature check, 50 times the look-up."""
    who = authenticator()
    seen = counted(monkeypatch)
    text = token()
    first = principal(who, text)
    assert principal(who, text) is first
    assert len(seen) == 1


def test_a_refused_token_is_never_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was early, or whose key came late, would stay refused."""
    clock = Clock(NOW - 31)
    who = authenticator(clock=clock)
    text = token(claims(nbf=NOW))
    assert refusal(who, text) is Reason.TOKEN_NOT_YET_VALID
    clock.now = NOW
    assert principal(who, text).name == "corp/alice"


@pytest.mark.parametrize(
    ("after_expiry", "verifications", "outcome"),
    (
        (-0.001, 1, None),
        (0.0, 2, None),  # the leeway: accepted, but no longer from memory
        (29.999, 2, None),
        (30.0, 2, Reason.TOKEN_EXPIRED),
    ),
)
def test_what_is_remembered_ends_with_the_token(
    after_expiry: float, verifications: int, outcome: Reason | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token would outlive its expiry for as long as it is used."""
    clock = Clock()
    who = authenticator(clock=clock)
    seen = counted(monkeypatch)
    text = token(claims(exp=NOW + 100))
    principal(who, text)
    clock.now = NOW + 100 + after_expiry
    assert (refusal(who, text) if outcome else principal(who, text).name) == (outcome or "corp/alice")
    assert len(seen) == verifications


def test_memory_holds_the_digest_of_the_whole_token_and_not_the_token() -> None:
    """Two tokens with one beginning would share a principal, and a memory dump would hold live tokens."""
    who = authenticator()
    text = token()
    principal(who, text)
    assert list(who._verified) == [hashlib.sha256(text.encode()).digest()]
    assert text not in repr(who._verified)
    assert refusal(who, text[:-1]) is Reason.TOKEN_MALFORMED


def test_memory_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer that mints tokens without end could fill the memory."""
    who = authenticator(remembered=3)
    texts = [token(claims(sub=f"user{number}")) for number in range(4)]
    for text in texts:
        principal(who, text)
    seen = counted(monkeypatch)
    for text in texts[1:]:
        principal(who, text)
    assert not seen
    principal(who, texts[0])
    assert len(seen) == 1
    assert len(who._verified) == 3


def test_a_token_verified_twice_takes_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens in their leeway would push out all others."""
    clock = Clock()
    who = authenticator(clock=clock, remembered=2)
    other, text = token(claims(sub="other", exp=NOW + 900)), token(claims(exp=NOW + 1))
    principal(who, other)
    principal(who, text)
    clock.now = NOW + 2
    for _ in range(3):
        principal(who, text)
    seen = counted(monkeypatch)
    principal(who, other)
    assert not seen


def test_everything_is_verified_anew_after_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the policy would leave callers with what was true before."""
    who = authenticator()
    text = token()
    principal(who, text)
    seen = counted(monkeypatch)
    who.forget()
    principal(who, text)
    assert len(seen) == 1


async def test_a_withdrawn_key_takes_its_remembered_tokens_along() -> None:
    """Tokens of a stolen key would be accepted until they expire."""
    clock = Clock()
    async with KeyServer(jwks(jwk(rsa_key("old"), kid="old"))) as server:
        remote = remote_issuer(server.url, name="remote", issuer="https://remote")
        who = authenticator(remote, issuer(), key_clock=clock)
        old = token(claims(iss="https://remote"), rsa_key("old"), "RS256", {"kid": "old"})
        new = token(claims(iss="https://remote"), rsa_key("new"), "RS256", {"kid": "new"})
        others = token()
        await principal_later(who, old)
        principal(who, others)
        server.body = jwks(jwk(rsa_key("new"), kid="new"))
        clock.now += 60
        assert (await principal_later(who, new)).name == "remote/alice"
        assert await refusal_later(who, old) is Reason.TOKEN_KEY_UNKNOWN
        # Only the issuer whose keys changed is asked anew.
        assert {remembered.issuer for remembered in who._verified.values()} == {"remote", "corp"}
        await who.aclose()


async def test_a_fetch_that_brings_the_same_keys_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every refresh would cost a signature check for every token in use."""
    clock = Clock()
    async with KeyServer(jwks(jwk(rsa_key(), kid="one"))) as server:
        who = authenticator(remote_issuer(server.url), key_clock=clock)
        text = token(key=rsa_key(), algorithm="RS256", header={"kid": "one"})
        await principal_later(who, text)
        clock.now += 60
        unknown = token(key=rsa_key(), algorithm="RS256", header={"kid": "two"})
        assert await refusal_later(who, unknown) is Reason.TOKEN_KEY_UNKNOWN
        assert server.count == 2
        seen = counted(monkeypatch)
        principal(who, text)
        assert not seen
        await who.aclose()


# -- static tokens

OPAQUE = "local-development-token-0123456789"


def test_a_static_token_names_its_principal() -> None:
    """Small set-ups without an issuer could not sign in."""
    static = StaticTokens({hash_token(OPAQUE): OpaqueToken("spark", ("etl",), ("sales",))})
    who = authenticator(static_tokens=static)
    found = principal(who, OPAQUE)
    assert (found.name, found.issuer, found.roles, found.catalogs) == ("static/spark", "static", ("etl",), ("sales",))
    assert principal(who, token()).name == "corp/alice"
    assert refusal(who, OPAQUE + "x") is Reason.TOKEN_MALFORMED
    assert refusal(who, hash_token(OPAQUE)) is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize(("now", "outcome"), ((NOW - 0.001, None), (NOW, Reason.TOKEN_EXPIRED)))
def test_a_static_token_ends_when_it_says(now: float, outcome: Reason | None) -> None:
    """A token lent for a day would work for ever."""
    static = StaticTokens({hash_token(OPAQUE): OpaqueToken("spark", expires_at=NOW)})
    who = authenticator(static_tokens=static, clock=Clock(now))
    assert (refusal(who, OPAQUE) if outcome else principal(who, OPAQUE).name) == (outcome or "static/spark")


def test_a_static_token_that_was_shown_before_ends_as_any_other() -> None:
    """What is remembered of it would outlive its time, or its line in the settings."""
    static = StaticTokens({hash_token(OPAQUE): OpaqueToken("spark", expires_at=NOW)})
    clock = Clock(NOW - 1)
    who = authenticator(static_tokens=static, clock=clock)
    assert principal(who, OPAQUE) is principal(who, OPAQUE)
    clock.now = NOW
    assert refusal(who, OPAQUE) is Reason.TOKEN_EXPIRED
    clock.now = NOW - 1
    assert principal(who, OPAQUE).name == "static/spark"
    who.commit(who.prepare((), StaticTokens({})))
    assert refusal(who, OPAQUE) is not None


# -- what is set up


def test_no_caller_is_let_in_without_issuers() -> None:
    """A settings file that lost its identity section would open the door."""
    who = Authenticator(())
    assert refusal(who, token()) is Reason.TOKEN_ISSUER_UNKNOWN
    assert refusal(who, "") is Reason.TOKEN_MISSING


@pytest.mark.parametrize(
    ("changes", "path"),
    (
        ({"issuer": "https://other"}, "identity.issuers.corp.name"),
        ({"name": "other"}, "identity.issuers.other.issuer"),
        # Different names and `iss`, but one secret: each could sign as the other.
        ({"name": "other", "issuer": "https://other"}, "identity.issuers.other.secret_file"),
    ),
)
def test_issuers_that_could_be_taken_for_one_another_are_refused(changes: dict[str, Any], path: str) -> None:
    """One issuer's users would hold the rights of another's."""
    with pytest.raises(SettingsInvalid) as caught:
        Authenticator((issuer(), issuer(**changes)))
    assert path in {finding.path for finding in caught.value.findings}


def test_an_issuer_cannot_be_named_as_the_static_tokens_are() -> None:
    """Its users could take the names of static tokens."""
    static = StaticTokens({hash_token(OPAQUE): OpaqueToken("spark")})
    with pytest.raises(SettingsInvalid):
        Authenticator((issuer(name="static"),), static)
    Authenticator((issuer(name="static"),))


async def test_health_tells_how_each_issuers_keys_are() -> None:
    """Readiness would wait for nothing, or for ever."""
    async with KeyServer(jwks(jwk(rsa_key(), kid="one"), {"kty": "oct", "k": "c2VjcmV0"})) as server:
        who = authenticator(remote_issuer(server.url, name="remote", issuer="https://remote"), issuer())
        before, static = who.health()
        assert (before.issuer, before.usable, before.fetches) == ("remote", False, 0)
        assert (static.issuer, static.usable, static.age) == ("corp", True, 0.0)
        await who.start()
        await principal_later(who, token(claims(iss="https://remote"), rsa_key(), "RS256", {"kid": "one"}))
        after, _ = who.health()
        assert (after.usable, after.keys, after.last_error, len(after.ignored)) == (True, 1, "", 1)
        await who.aclose()


async def test_two_hundred_callers_share_one_fetch() -> None:
    """A rotation would turn a busy sidecar into a flood at the identity provider."""
    gate = asyncio.Event()
    async with KeyServer(jwks(jwk(rsa_key(), kid="one"))) as server:

        async def slow(url: KeyUrl, trust: Trust) -> Fetched:
            await gate.wait()
            return await fetch(url, trust)

        who = authenticator(remote_issuer(server.url), get=slow)
        texts = [token(claims(sub=f"user{number}"), rsa_key(), "RS256", {"kid": "one"}) for number in range(200)]
        waiting = [asyncio.ensure_future(principal_later(who, text)) for text in texts]
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(*waiting)
        assert len({each.name for each in found}) == 200
        assert server.count == 1
        await who.aclose()


def test_secrets_are_neither_shown_nor_pickled() -> None:
    """A log line or a worker's message would hand out the power to sign tokens."""
    secret = SharedSecret(SECRET)
    assert SECRET.decode() not in repr(secret) + str(secret) + repr(issuer()) + repr(authenticator().health())
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    key = authenticator()._believed.sources["corp"].current().keys[0]  # type: ignore[union-attr]  # static keys are there
    assert SECRET.decode() not in repr(key)
    with pytest.raises(TypeError):
        pickle.dumps(key)


async def test_a_source_is_made_for_each_way_to_publish_keys() -> None:
    """An issuer would start without the keys that its settings name."""
    who = Authenticator(
        (
            issuer(JwksUrl("https://idp.example/keys"), algorithms=("RS256",)),
            issuer(Discovery(), name="found", issuer="https://found.example", algorithms=("ES256",)),
        )
    )
    assert [each.issuer for each in who.health()] == ["corp", "found"]
    await who.aclose()
    # Closed: nothing is fetched anymore, and a caller that still asks is told so.
    late = token(key=rsa_key(), algorithm="RS256")
    assert await refusal_later(who, late) is Reason.KEYS_UNAVAILABLE


def test_what_is_remembered_of_a_token_ends_with_what_it_was_judged_by() -> None:
    """A connection that remembers its caller past a revoke, or past the token's end, would go on being served."""
    clock = Clock()
    who = Authenticator([issuer()], clock=clock)
    assert who.again(None) is None
    alice = principal(who, token(claims(exp=NOW + 90)))
    known = who.known(alice)

    def again() -> Principal | None:
        subject = who.again(known)
        # The very values: what was admitted for them before is found again by their identity.
        assert subject is None or (subject is known.subject and subject.caller is subject.effective)
        return None if subject is None else subject.caller

    assert again() is alice
    clock.now = alice.expires_at
    assert again() is None
    clock.now -= 1
    assert again() is alice
    for forget in (
        who.forget,
        lambda: who.commit(who.prepare([issuer()])),
        lambda: who._forget_issuer("corp"),
    ):
        known = who.known(alice)
        assert again() is alice
        forget()
        assert again() is None
