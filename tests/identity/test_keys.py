"""Which published and configured keys are used, and for which algorithms."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448, x25519

from signproxy.errors import Reason
from signproxy.identity.key_url import KeysUnusable
from signproxy.identity.keys import MAX_KEYS, MAX_KID, MAX_RSA_BITS, KeySet, parse_jwks, public_key
from tests.identity.rig import (
    KeyServer,
    authenticator,
    b64,
    ec_key,
    ed_key,
    jwk,
    jwks,
    key_for,
    pem,
    principal_later,
    private_pem,
    refusal_later,
    remote_issuer,
    rsa_key,
    token,
)

RS_PS = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def numbers(bits: int, exponent: int = 65_537) -> dict[str, object]:
    """Return an RSA key of this length; its factors are never needed."""
    size = (bits + 7) // 8
    modulus = (1 << (bits - 1)) | 1
    return {
        "kty": "RSA",
        "n": b64(modulus.to_bytes(size)),
        "e": b64(exponent.to_bytes(max(1, (exponent.bit_length() + 7) // 8))),
    }


@pytest.mark.parametrize(
    ("key", "algorithms"),
    (
        (jwk(rsa_key()), RS_PS),
        (jwk(rsa_key(), alg="PS256"), {"PS256"}),
        (jwk(ec_key("P-256")), {"ES256"}),
        (jwk(ec_key("P-384"), alg="ES384"), {"ES384"}),
        (jwk(ec_key("P-521")), {"ES512"}),
        (jwk(ed_key(), use="sig", key_ops=["verify"]), {"EdDSA"}),
        (jwk(rsa_key(), x5c=["garbage"], x5u="https://evil.example", x5t=7), RS_PS),
        (numbers(2_048), RS_PS),
        (numbers(MAX_RSA_BITS), RS_PS),
        (numbers(2_048, 3), RS_PS),
        (jwk(rsa_key(), kid="k" * MAX_KID), RS_PS),
    ),
)
def test_a_published_key_serves_its_algorithms_alone(key: dict[str, object], algorithms: set[str]) -> None:
    """A key could be used with rules that its owner never meant it for."""
    keys = parse_jwks({"keys": [key]})
    assert [set(each.algorithms) for each in keys.keys] == [algorithms]
    assert keys.ignored == ()


@pytest.mark.parametrize(
    ("key", "why"),
    (
        # A published HMAC key lets every reader sign.
        ({"kty": "oct", "k": b64(b"x" * 32)}, "a secret was published"),
        ({"kty": "oct"}, "`kty` 'oct'"),
        ({"kty": "oct", "alg": "RS256", "n": "AQAB", "e": "AQAB"}, "`kty` 'oct'"),
        (jwk(rsa_key(), d="AQAB"), "a secret was published"),
        (jwk(rsa_key(), use="enc"), "`use` is 'enc'"),
        (jwk(rsa_key(), use=None), "`use` is None"),
        (jwk(rsa_key(), key_ops=["encrypt"]), "`key_ops`"),
        (jwk(rsa_key(), key_ops="verify"), "`key_ops`"),
        (jwk(rsa_key(), alg="RSA-OAEP"), "`alg` 'RSA-OAEP'"),
        (jwk(rsa_key(), alg="HS256"), "`alg` 'HS256'"),
        (jwk(rsa_key(), alg="none"), "`alg` 'none'"),
        (jwk(rsa_key(), alg=7), "`alg` 7"),
        (jwk(rsa_key(), alg="ES256"), "`alg` 'ES256'"),
        (jwk(ec_key("P-384"), alg="ES256"), "`alg` 'ES256'"),
        (jwk(rsa_key(), kid=7), "`kid`"),
        (jwk(rsa_key(), kid="k" * (MAX_KID + 1)), "`kid`"),
        (numbers(2_047), "2047 bits"),
        (numbers(1_024), "1024 bits"),
        (numbers(MAX_RSA_BITS + 1), "8193 bits"),
        (numbers(2_048, 1), "exponent"),  # every signature would verify
        (numbers(2_048, 0), "exponent"),
        (numbers(2_048, 2**64), "exponent"),
        ({"kty": "RSA", "n": b64(b"\0" * 300), "e": "AQAB"}, "0 bits"),
        ({"kty": "RSA", "e": "AQAB"}, "`n` is missing"),
        ({"kty": "RSA", "n": 7, "e": "AQAB"}, "`n` is missing"),
        ({"kty": "RSA", "n": "!" * 400, "e": "AQAB"}, "`n` is not base64url"),
        ({"kty": "RSA", "n": "A" * 20_000, "e": "AQAB"}, "`n` is missing or no text"),
        (jwk(ec_key("P-256"), crv="P-384"), "length"),
        (jwk(ec_key("P-256"), crv="secp256k1"), "`crv` 'secp256k1'"),
        (jwk(ec_key("P-256"), y="AQAB"), "length"),
        (jwk(ed_key(), crv="Ed448"), "not an Ed25519 key"),
        (jwk(ed_key(), crv="X25519"), "not an Ed25519 key"),
        (jwk(ed_key(), x="AQAB"), "not an Ed25519 key"),
        ({}, "`kty` None"),
        ({"kty": ["RSA"]}, "`kty` ["),
        ({"kty": "\x1b[2J"}, "`kty` '\\x1b[2J'"),
        (None, "no object"),
        ("RSA", "no object"),
        ([], "no object"),
    ),
)
def test_unusable_published_keys_are_left_out(key: object, why: str) -> None:
    """A weak, secret or foreign key would be trusted, or one odd key would cost the issuer all the others."""
    keys = parse_jwks({"keys": [key, jwk(rsa_key("good"), kid="good")]})
    assert [each.kid for each in keys.keys] == ["good"]
    assert len(keys.ignored) == 1
    assert keys.ignored[0].startswith("keys[0]: ")
    assert why in keys.ignored[0]


@pytest.mark.parametrize("document", ({}, {"keys": None}, {"keys": {}}, {"keys": "x"}, {"keys": [{}] * (MAX_KEYS + 1)}))
def test_what_is_no_key_set_is_refused(document: dict[str, object]) -> None:
    """An error document with status 200 would replace the keys."""
    with pytest.raises(KeysUnusable):
        parse_jwks(document)
    parse_jwks({"keys": [{}] * MAX_KEYS})


async def test_a_point_off_the_curve_makes_no_key() -> None:
    """A raw fault of the cryptography would reach the caller; invalid points leak what they are used with."""
    off = jwk(ec_key("P-256"), kid="one", x=b64(b"\x01" * 32), y=b64(b"\x01" * 32))
    async with KeyServer(jwks(off)) as server:
        who = authenticator(remote_issuer(server.url, "ES256"))
        text = token(key=key_for("ES256"), algorithm="ES256", header={"kid": "one"})
        for _ in range(2):
            assert await refusal_later(who, text) is Reason.TOKEN_KEY_UNKNOWN
        await who.aclose()


@pytest.mark.parametrize("kids", ((None, None), ("one", "one"), (None, "other")))
async def test_keys_that_share_an_id_or_have_none_are_tried_in_turn(kids: tuple[str | None, str | None]) -> None:
    """Issuers that forget about `kid` could not be used."""
    published = [jwk(key_for(algorithm)) for algorithm in ("RS256", "ES256")]
    for key, kid in zip(published, kids, strict=True):
        if kid is not None:
            key["kid"] = kid
    async with KeyServer(jwks(*published)) as server:
        who = authenticator(remote_issuer(server.url, "RS256", "ES256"))
        for algorithm in ("RS256", "ES256"):
            header = {"kid": "one"} if kids[0] == "one" else {}
            text = token(key=key_for(algorithm), algorithm=algorithm, header=header)
            assert (await principal_later(who, text)).name == "corp/alice"
        assert server.count == 1
        await who.aclose()


def test_a_token_with_an_id_means_no_nameless_key_beside_named_ones() -> None:
    """A rotated key would look like a wrong signature, and never be fetched."""
    mixed = parse_jwks({"keys": [jwk(rsa_key()), jwk(rsa_key("b"), kid="b")]})
    assert [key.kid for key in mixed.named("b")] == ["b"]
    assert mixed.named("unknown") == ()
    assert len(mixed.named(None)) == 2
    nameless = parse_jwks({"keys": [jwk(rsa_key())]})
    assert len(nameless.named("any")) == 1


def test_sets_are_equal_if_they_verify_the_same() -> None:
    """A reordered document would forget every verified token; a replaced key none."""
    one, two = jwk(rsa_key(), kid="one"), jwk(rsa_key("b"), kid="two")

    def thumbprint(*keys: dict[str, object]) -> object:
        return parse_jwks({"keys": list(keys)}).thumbprint

    assert thumbprint(one, two) == thumbprint(two, {**one, "x5c": ["new"]})
    assert thumbprint(one) != thumbprint({**one, "kid": "two"})
    assert thumbprint(one) != thumbprint({**one, "alg": "RS256"})
    assert thumbprint(one) != thumbprint({**two, "kid": "one"})
    assert thumbprint(one) != thumbprint(one, two)


def test_key_sets_show_ids_and_algorithms_only() -> None:
    """A log line would hold keys."""
    keys = parse_jwks({"keys": [jwk(ed_key(), kid="a\x1b")]})
    assert repr(keys) == "KeySet([VerificationKey(kid='a\\x1b', algorithms=['EdDSA'])])"
    assert len(keys) == 1
    assert len(KeySet(())) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    (
        (b"", "not exactly one"),
        (b"garbage", "not exactly one"),
        (pem(rsa_key()) + pem(rsa_key("b")), "not exactly one"),
        (private_pem(rsa_key()), "private key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "certificate"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "not a PEM public key"),
        (pem(ec_key("K-256")), "curve secp256k1"),
        (pem(rsa_key("short", 1_024)), "1024 bits"),
        (
            x25519.X25519PrivateKey.generate()
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            "neither an RSA",
        ),
        (
            ed448.Ed448PrivateKey.generate()
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
            "neither an RSA",
        ),
    ),
)
def test_key_files_hold_one_sound_public_key(text: bytes, why: str) -> None:
    """A broken or weak key file would be found out by the first caller, or never."""
    with pytest.raises(KeysUnusable, match=why):
        public_key(text, None)


def test_key_files_may_hold_any_public_form() -> None:
    """An issuer's older key file could not be used."""
    older = rsa_key().public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.PKCS1)
    assert public_key(b"# comment\n" + older, "one").algorithms == RS_PS
    assert public_key(pem(ed_key()).replace(b"\n", b"\r\n"), None).algorithms == {"EdDSA"}


def test_unknown_private_forms_are_private_as_well() -> None:
    """A private key would lie about in memory and in the settings."""
    text = rsa_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"password"),
    )
    with pytest.raises(KeysUnusable, match="private key"):
        public_key(text, None)
