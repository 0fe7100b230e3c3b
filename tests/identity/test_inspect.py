"""What an operator is told about a token that does not work."""

from __future__ import annotations

import math

import pytest

from signproxy.errors import Reason
from signproxy.identity.inspect import MAX_FACTS, CheckOutcome, Inspection, inspect_token
from signproxy.identity.opaque import OpaqueToken, StaticTokens, hash_token
from tests.identity.rig import (
    ISS,
    NOW,
    SECRET,
    Clock,
    authenticator,
    claims,
    issuer,
    key_for,
    public_issuer,
    refusal,
    remote_issuer,
    rsa_key,
    token,
)


def failed(found: Inspection) -> list[str]:
    return [fact.check for fact in found.checks if fact.outcome is CheckOutcome.FAILED]


def test_a_good_token_is_told_apart() -> None:
    """Operators would search for a fault where there is none."""
    found = inspect_token(token(header={"kid": "k"}), (issuer(),), None, NOW)
    assert (found.issuer, found.principal, found.reason) == ("corp", "corp/alice", None)
    assert ("kid", "'k'") in found.header
    assert ("sub", "'alice'") in found.claims
    assert ("exp", "1800003600.0 (2027-01-15 09:00:00 UTC)") in found.claims
    assert [fact.check for fact in found.checks if fact.outcome is CheckOutcome.NOT_CHECKED] == ["signature"]
    assert failed(found) == []


def test_keys_that_are_fetched_are_not_asked_for() -> None:
    """A command on a laptop would call the identity provider."""
    text = token(key=rsa_key(), algorithm="RS256", header={"kid": "one"})
    found = inspect_token(text, (remote_issuer("https://idp.example/keys"),), None, NOW)
    assert found.principal == "corp/alice"
    assert ("key", CheckOutcome.NOT_CHECKED, "kid 'one' is looked up when serving") in found.checks


@pytest.mark.parametrize(
    ("text", "check"),
    (
        ("garbage", "form"),
        (token(header={"crit": ["x"]}), "form"),
        (token(claims(iss=ISS + "/")), "issuer"),
        (token(header={"alg": "HS384"}), "algorithm"),
        (token(key=key_for("ES256"), algorithm="ES256", header={"kid": "other"}), "key"),
        (token(claims(sub=...)), "required claims"),
        (token(claims(exp=...)), "required claims"),
        (token(claims(exp=NOW - 31)), "expiry"),
        (token(claims(nbf=NOW + 31)), "begin"),
        (token(claims(aud="other")), "audience"),
        (token(claims(sub="")), "principal"),
    ),
)
def test_the_command_names_the_check_that_the_server_refuses_by(text: str, check: str) -> None:
    """The command would send operators after another fault than the one that clients run into."""
    issuers = (issuer(), public_issuer("ES256", kid="one", name="keys", issuer="https://keys"))
    if check == "key":
        text = token(claims(iss="https://keys"), key_for("ES256"), "ES256", {"kid": "other"})
    found = inspect_token(text, issuers, None, NOW)
    assert failed(found)[0] == check
    assert found.reason is refusal(authenticator(*issuers, clock=Clock(NOW)), text)
    assert found.principal == ""


def test_an_issuer_that_is_nearly_right_is_pointed_at() -> None:
    """A trailing slash costs operators hours."""
    found = inspect_token(token(claims(iss=ISS + "/")), (issuer(),), None, NOW)
    assert f"did you mean '{ISS}'?" in found.checks[0].text
    assert found.claims


def test_every_failing_check_is_listed() -> None:
    """Operators would mend one fault per rollout."""
    found = inspect_token(token(claims(exp=0, aud="other", sub="\x1b")), (issuer(),), None, NOW)
    assert failed(found) == ["expiry", "audience", "principal"]
    assert found.reason is Reason.TOKEN_EXPIRED


def test_neither_the_token_nor_its_signature_is_shown() -> None:
    """A ticket with the output would hold a live token."""
    inner = token(claims(sub="inner", pad="x" * 300))
    text = token(claims(act=inner), header={"kid": "k"})
    for each in (text, text + "x", "opaque-secret-that-is-not-listed-anywhere"):
        shown = repr(inspect_token(each, (issuer(),), None, NOW))
        assert each not in shown
        assert each.rpartition(".")[2] not in shown
        assert inner not in shown
    assert SECRET.decode() not in repr(inspect_token(text, (issuer(),), None, NOW))


def test_nothing_in_a_token_acts_on_the_terminal() -> None:
    """A stranger's token could clear the operator's screen, or forge a line of the output."""
    evil = "\x1b[2J\u202e\n\x07"
    text = token(
        claims(**{evil: evil, "nested": {evil: [evil, {evil: evil}]}}, sub=evil, aud=evil, iss=ISS),
        header={"kid": evil, evil: evil},
    )
    other = token(claims(iss=evil), header={"typ": evil})
    for each in (text, other, token(claims(iss=evil))):
        found = inspect_token(each, (issuer(),), None, NOW)
        texts = [part for facts in (found.header, found.claims, found.checks) for fact in facts for part in fact]
        assert all(part.isprintable() for part in texts if isinstance(part, str))


def test_the_facts_are_bounded() -> None:
    """A stranger's token could fill the screen or the stack."""
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"a": deep}
    many = {f"claim{number}": number for number in range(300)}
    found = inspect_token(token(claims(deep=deep, **many)), (issuer(),), None, NOW)
    assert len(found.claims) == MAX_FACTS
    assert ("deep.a.a", "an object") in found.claims
    long = inspect_token(token(claims(long="x" * 3_000, list=["y" * 300] * 20)), (issuer(),), None, NOW)
    assert max(len(fact.text) for fact in long.claims) < 1_200


@pytest.mark.parametrize("value", (True, "1800003600", -1, 1e300, [1], None, 253_402_300_800))
def test_odd_times_are_shown_as_they_are(value: object) -> None:
    """The command would fail on the very tokens that it is for."""
    found = inspect_token(token(claims(exp=value)), (issuer(),), None, NOW)
    assert all("UTC" not in fact.text for fact in found.claims if fact.name == "exp")


OPAQUE = "local-development-token-0123456789"


@pytest.mark.parametrize(("expires_at", "principal"), ((math.inf, "static/spark"), (NOW, "")))
def test_static_tokens_are_known_by_their_digest(expires_at: float, principal: str) -> None:
    """Operators of small set-ups would be told that their token is malformed."""
    static = StaticTokens({hash_token(OPAQUE): OpaqueToken("spark", expires_at=expires_at)})
    found = inspect_token(OPAQUE, (issuer(),), static, NOW)
    assert (found.issuer, found.principal) == ("static", principal)
    assert found.reason is (None if principal else Reason.TOKEN_EXPIRED)
    assert inspect_token(OPAQUE + "x", (issuer(),), static, NOW).reason is Reason.TOKEN_MALFORMED
