"""Which issuers an operator may configure, and what is said about the others."""

from __future__ import annotations

from typing import Any

import pytest

from signproxy.errors import SettingsInvalid
from signproxy.identity.issuer import Discovery, JwksUrl, PemKey, PublicKeys, SharedSecret
from tests.identity.rig import SECRET, ec_key, ed_key, issuer, jwk, key_for, pem, private_pem, rsa_key

RSA = PublicKeys((PemKey(pem(rsa_key())),))
URL = JwksUrl("https://idp.example/keys")


@pytest.mark.parametrize(
    "changes",
    (
        {},
        {"keys": SharedSecret(b"x" * 32)},
        {"keys": SharedSecret(b"x" * 48), "algorithms": ("HS256", "HS384")},
        {"keys": SharedSecret(b"x" * 64), "algorithms": ("HS512",)},
        {"keys": RSA, "algorithms": ("RS256", "PS512")},
        {"keys": PublicKeys((PemKey(pem(key_for("ES512")), "k" * 256),)), "algorithms": ("ES512",)},
        {"keys": PublicKeys((PemKey(pem(ed_key())), PemKey(pem(rsa_key())))), "algorithms": ("EdDSA", "RS256")},
        {"keys": URL, "algorithms": ("RS256", "ES256", "EdDSA")},
        {"keys": JwksUrl("http://127.0.0.1:8080/keys"), "algorithms": ("RS256",)},
        {"keys": Discovery(("keys.example", "10.0.0.1", "fd12::1")), "algorithms": ("RS256",)},
        {"issuer": "any text that is no URL"},
        {"principal_claim": "oid"},
        {"principal_claim": "email", "mutable_claims_accepted": True},
        {"roles_claim": "realm_access.roles", "roles": ("etl",), "catalogs": ()},
        {"kubernetes": True},
        {"name": "a" * 63},
    ),
)
def test_sound_issuers_are_accepted(changes: dict[str, Any]) -> None:
    """An issuer in common use could not be configured."""
    issuer(**changes)


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    (
        ({"name": ""}, "identity.issuers.name", "is no name"),
        ({"name": "a/b"}, "identity.issuers.name", "is no name"),  # would hide where the name of the issuer ends
        ({"name": "a" * 64}, "identity.issuers.name", "is no name"),
        ({"name": "a\x1b"}, "identity.issuers.name", "'a\\x1b' is no name"),
        ({"issuer": ""}, "issuer", "is empty"),
        ({"issuer": "https://idp.example\n"}, "issuer", "cannot be printed"),
        ({"audiences": ()}, "audiences", "lists no audience"),
        ({"audiences": ("signproxy", "")}, "audiences", "lists no audience"),
        ({"algorithms": ()}, "algorithms", "lists no algorithm"),
        ({"algorithms": ("none",)}, "algorithms", "never accepted"),
        ({"algorithms": ("HS256", "NoNe")}, "algorithms", "never accepted"),
        ({"algorithms": ("HS265",)}, "algorithms", "did you mean 'HS256'"),
        ({"algorithms": ("hs256",)}, "algorithms", "unknown"),
        ({"keys": RSA, "algorithms": ("ES256K",)}, "algorithms", "unknown"),
        # HMAC beside public keys: the oldest attack on JWT.
        ({"keys": RSA, "algorithms": ("RS256", "HS256")}, "algorithms", "HS256 cannot stand beside public keys"),
        ({"keys": URL, "algorithms": ("HS256",)}, "algorithms", "cannot stand beside public keys"),
        ({"keys": Discovery(), "algorithms": ("RS256", "HS512")}, "algorithms", "cannot stand beside public keys"),
        ({"algorithms": ("HS256", "RS256")}, "algorithms", "a shared secret serves"),
        ({"keys": SharedSecret(b"")}, "secret_file", "0 bytes"),
        ({"keys": SharedSecret(b"x" * 31)}, "secret_file", "31 bytes long; the listed algorithms need 32"),
        ({"keys": SharedSecret(b"x" * 47), "algorithms": ("HS256", "HS384")}, "secret_file", "need 48"),
        ({"keys": SharedSecret(b"x" * 63), "algorithms": ("HS512",)}, "secret_file", "need 64"),
        # Every caller has the public key.
        ({"keys": SharedSecret(pem(rsa_key()))}, "secret_file", "is a key"),
        ({"keys": SharedSecret(str(jwk(rsa_key())).replace("'", '"').encode())}, "secret_file", "is a key"),
        ({"keys": SharedSecret(b"ssh-ed25519 " + b"A" * 60)}, "secret_file", "is a key"),
        ({"keys": PublicKeys(()), "algorithms": ("RS256",)}, "key_file", "lists no key"),
        ({"keys": RSA, "algorithms": ("ES256",)}, "key_file[0]", "of which none is listed"),
        ({"keys": RSA, "algorithms": ("RS256", "ES256")}, "algorithms", "no key serves ES256"),
        ({"keys": PublicKeys((PemKey(pem(rsa_key()), ""),)), "algorithms": ("RS256",)}, "key_file[0].kid", "is empty"),
        (
            {"keys": PublicKeys((PemKey(pem(rsa_key()), "k" * 257),)), "algorithms": ("RS256",)},
            "key_file[0].kid",
            "longer",
        ),
        ({"keys": JwksUrl("http://idp.example/keys"), "algorithms": ("RS256",)}, "jwks_url", "over https"),
        ({"keys": JwksUrl("https://169.254.169.254/"), "algorithms": ("RS256",)}, "jwks_url", "link-local"),
        ({"keys": JwksUrl("https://a@idp.example/"), "algorithms": ("RS256",)}, "jwks_url", "user information"),
        ({"keys": Discovery(), "issuer": "idp", "algorithms": ("RS256",)}, "issuer", "cannot be discovered"),
        ({"keys": Discovery(), "issuer": "http://idp.example", "algorithms": ("RS256",)}, "issuer", "over https"),
        ({"keys": Discovery(("https://keys.example",)), "algorithms": ("RS256",)}, "jwks_hosts", "is no host"),
        ({"keys": Discovery(("Keys.example",)), "algorithms": ("RS256",)}, "jwks_hosts", "is no host"),
        ({"principal_claim": ""}, "principal_claim", "is empty"),
        ({"principal_claim": "email"}, "principal_claim", "can come to name another party"),
        ({"principal_claim": "preferred_username"}, "principal_claim", "mutable_claims_accepted"),
        ({"principal_claim": "upn"}, "principal_claim", "mutable_claims_accepted"),
        ({"principal_claim": "name"}, "principal_claim", "mutable_claims_accepted"),
        ({"principal_claim": "anything_else"}, "principal_claim", "mutable_claims_accepted"),
        ({"principal_claim": "oid", "kubernetes": True}, "principal_claim", "service account"),
        ({"roles_claim": "roles"}, "roles", "go together"),
        ({"roles": ("etl",)}, "roles", "go together"),
        ({"roles_claim": "roles", "roles": ("etl", "")}, "roles", "empty role"),
    ),
)
def test_unsound_issuers_are_refused(changes: dict[str, Any], path: str, problem: str) -> None:
    """An operator's slip would open the door, without a warning."""
    with pytest.raises(SettingsInvalid) as caught:
        issuer(**changes)
    place = path if path.startswith("identity.") else f"identity.issuers.corp.{path}"
    found = [finding.problem for finding in caught.value.findings if finding.path == place]
    assert any(problem in each for each in found), caught.value.findings


def test_every_fault_is_told_at_once() -> None:
    """Operators would mend one fault per restart."""
    with pytest.raises(SettingsInvalid) as caught:
        issuer(audiences=(), algorithms=("none",), keys=SharedSecret(b"short"), principal_claim="email")
    assert len(caught.value.findings) >= 4


def test_no_fault_shows_the_secret() -> None:
    """`check-config` in a build log would publish it."""
    with pytest.raises(SettingsInvalid) as caught:
        issuer(keys=SharedSecret(b"hunter2"))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SettingsInvalid) as caught:
        issuer(keys=PublicKeys((PemKey(private_pem(ec_key("P-256"))),)), algorithms=("ES256",))
    assert "PRIVATE" not in str(caught.value)
    assert "holds a private key" in str(caught.value)


def test_secrets_are_compared_by_value() -> None:
    """Two issuers with one secret would go unnoticed."""
    assert SharedSecret(SECRET) == SharedSecret(SECRET)
    assert hash(SharedSecret(SECRET)) == hash(SharedSecret(SECRET))
    assert SharedSecret(SECRET) != SharedSecret(SECRET[1:])
    assert SharedSecret(SECRET) != SECRET
