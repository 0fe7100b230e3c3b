"""Forged, bent and oversized tokens, each with the reason that it is refused for."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from signproxy.errors import Reason, Refused
from signproxy.identity import tokens as module
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.issuer import PemKey, PublicKeys, SharedSecret
from signproxy.identity.keys import MAX_KID
from signproxy.identity.tokens import MAX_TOKEN
from signproxy.model import Principal
from tests.identity.rig import (
    ISS,
    NOW,
    SECRET,
    KeyServer,
    authenticator,
    b64,
    claims,
    issuer,
    jwk,
    jwks,
    key_for,
    pem,
    principal,
    principal_later,
    public_issuer,
    refusal,
    refusal_later,
    remote_issuer,
    rsa_key,
    token,
)


@pytest.fixture
def no_crypto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a token gets as far as a signature check."""

    def reached(*_arguments: object) -> Principal:
        raise AssertionError("a signature was checked")

    monkeypatch.setattr(module, "_signature_fault", reached)


def hmac_token(header: dict[str, object], secret: bytes, payload: dict[str, object] | None = None) -> str:
    """Return what an attacker signs with any bytes; PyJWT itself would refuse to use a public key for it."""
    text = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(payload or claims()).encode())}"
    return f"{text}.{b64(hmac.digest(secret, text.encode(), hashlib.sha256))}"


# -- the algorithm


@pytest.mark.parametrize("algorithm", ("none", "None", "NONE", "nOnE", "none ", "", "\x00none"))
@pytest.mark.parametrize("signature", ("", "AAAA"))
def test_unsigned_tokens_are_refused(algorithm: str, signature: str, no_crypto: None) -> None:
    """Any caller could be any other."""
    text = f"{b64(json.dumps({'alg': algorithm}).encode())}.{b64(json.dumps(claims()).encode())}.{signature}"
    assert refusal(authenticator(), text) is Reason.TOKEN_ALGORITHM
    assert refusal(authenticator(public_issuer("RS256", "ES256")), text) is Reason.TOKEN_ALGORITHM


@pytest.mark.parametrize("algorithm", ("HS256", "HS384", "HS512"))
def test_a_public_key_is_no_shared_secret(algorithm: str, no_crypto: None) -> None:
    """Any caller could sign with the key that the issuer publishes (the oldest attack on JWT)."""
    public = pem(rsa_key())
    who = authenticator(public_issuer("RS256"))
    for secret in (public, public.strip(), public.replace(b"\n", b""), json.dumps(jwk(rsa_key())).encode()):
        assert refusal(who, hmac_token({"alg": algorithm}, secret)) is Reason.TOKEN_ALGORITHM


@pytest.mark.parametrize("algorithm", (None, 7, True, ["HS256"], {"HS256": 1}))
def test_an_algorithm_that_is_no_text_is_refused(algorithm: object, no_crypto: None) -> None:
    """A look-up with it could raise, and the fault would reach the caller."""
    assert refusal(authenticator(), token(header=json.dumps({"alg": algorithm}).encode())) is Reason.TOKEN_ALGORITHM


@pytest.mark.parametrize("algorithm", ("RS384", "PS256", "ES256", "HS512", "rs256", "RS256 "))
def test_an_algorithm_that_is_not_listed_is_refused(algorithm: str, no_crypto: None) -> None:
    """An issuer's weaker or older algorithms would be accepted unasked."""
    who = authenticator(public_issuer("RS256"))
    text = token(key=rsa_key(), algorithm="RS256", header=json.dumps({"alg": algorithm}).encode())
    assert refusal(who, text) is Reason.TOKEN_ALGORITHM


async def test_a_key_serves_only_the_algorithm_that_it_is_published_for(no_crypto: None) -> None:
    """A key that an issuer keeps for one algorithm could be used with another's rules."""
    async with KeyServer(jwks(jwk(rsa_key(), kid="one", alg="RS256"))) as server:
        who = authenticator(remote_issuer(server.url, "RS256", "PS256"))
        text = token(key=rsa_key(), algorithm="PS256", header={"kid": "one"})
        assert await refusal_later(who, text) is Reason.TOKEN_ALGORITHM
        await who.aclose()


# -- the header


@pytest.mark.parametrize(
    ("kid", "reason"),
    (
        ("../../../../dev/null", Reason.TOKEN_KEY_UNKNOWN),
        ("/etc/passwd", Reason.TOKEN_KEY_UNKNOWN),
        ("x' UNION SELECT 'secret", Reason.TOKEN_KEY_UNKNOWN),
        ("$(id)", Reason.TOKEN_KEY_UNKNOWN),
        ("", Reason.TOKEN_KEY_UNKNOWN),
        ("One", Reason.TOKEN_KEY_UNKNOWN),
        ("one ", Reason.TOKEN_KEY_UNKNOWN),
        ("one\x00", Reason.TOKEN_KEY_UNKNOWN),
        ("\ud800", Reason.TOKEN_KEY_UNKNOWN),
        ("k" * MAX_KID, Reason.TOKEN_KEY_UNKNOWN),
        ("k" * (MAX_KID + 1), Reason.TOKEN_KEY_UNKNOWN),
        (7, Reason.TOKEN_MALFORMED),
        (True, Reason.TOKEN_MALFORMED),
        (["one"], Reason.TOKEN_MALFORMED),
        ({"one": 1}, Reason.TOKEN_MALFORMED),
    ),
)
def test_a_kid_is_only_ever_looked_up(kid: object, reason: Reason, no_crypto: None) -> None:
    """A key id could name a file, a query or a command."""
    who = authenticator(public_issuer("RS256", kid="one"))
    assert refusal(who, token(key=rsa_key(), algorithm="RS256", header={"kid": kid})) is reason


async def test_a_kid_that_is_too_long_is_never_asked_for() -> None:
    """Strangers could spend the one fetch a minute, and have their text stored."""
    async with KeyServer(jwks(jwk(rsa_key(), kid="one"))) as server:
        who = authenticator(remote_issuer(server.url))
        for kid, fetches in (("k" * (MAX_KID + 1), 0), ("k" * MAX_KID, 1)):
            text = token(key=rsa_key(), algorithm="RS256", header={"kid": kid})
            assert await refusal_later(who, text) is Reason.TOKEN_KEY_UNKNOWN
            assert server.count == fetches
        await who.aclose()


async def test_keys_and_key_addresses_in_a_token_are_ignored() -> None:
    """Any caller could bring a key of its own along, or make signproxy call any address."""
    async with KeyServer(jwks(jwk(rsa_key(), kid="one"))) as server, KeyServer() as evil:
        evil.body = jwks(jwk(rsa_key("evil"), kid="one"))
        who = authenticator(remote_issuer(server.url))
        brought: dict[str, object] = {
            "jku": f"{evil.url}/jwks",
            "x5u": f"{evil.url}/certificate",
            "jwk": jwk(rsa_key("evil"), kid="one"),
            "x5c": [b64(pem(rsa_key("evil")))],
            "x5t": "AAAA",
        }
        for name, value in [*brought.items(), ("kid", "one")]:
            header = {"kid": "one", name: value}
            forged = token(key=rsa_key("evil"), algorithm="RS256", header=header)
            assert await refusal_later(who, forged) is Reason.TOKEN_SIGNATURE
            honest = token(key=rsa_key(), algorithm="RS256", header=header)
            assert (await principal_later(who, honest)).name == "corp/alice"
        assert evil.count == 0
        assert server.count == 1
        await who.aclose()


@pytest.mark.parametrize("crit", (["b64"], ["exp"], [], "exp", None, {"exp": 1}))
def test_critical_extensions_are_refused(crit: object, no_crypto: None) -> None:
    """A rule that the issuer calls critical would be passed over."""
    assert refusal(authenticator(), token(header={"crit": crit, "exp": 1})) is Reason.TOKEN_MALFORMED


def test_a_detached_payload_is_refused() -> None:
    """The signature would cover something else than what is read."""
    assert refusal(authenticator(), token(header={"b64": False})) is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize("typ", ("JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt", "application/jwt"))
def test_types_of_access_tokens_are_accepted(typ: str) -> None:
    """Issuers that follow RFC 9068 would be locked out."""
    assert principal(authenticator(), token(header={"typ": typ})).name == "corp/alice"


@pytest.mark.parametrize("typ", ("dpop+jwt", "logout+jwt", "secevent+jwt", "JOSE", "", None, 7, ["JWT"], [[[[]]]]))
def test_other_types_are_refused(typ: object, no_crypto: None) -> None:
    """A token made for another purpose by the same issuer could be replayed here."""
    assert refusal(authenticator(), token(header={"typ": typ})) is Reason.TOKEN_MALFORMED


# -- the issuer


@pytest.mark.parametrize(
    "iss",
    (
        ISS + "/",
        ISS[:-1],
        ISS.upper(),
        ISS.replace("https", "HTTPS"),
        ISS.replace("idp", "IDP"),
        ISS.replace("https", "http"),
        ISS.replace("idp.example", "idp.example:443"),
        ISS.replace("lake", "%6cake"),
        ISS.replace("lake", "x/../lake"),
        ISS.replace("e", "е"),  # Cyrillic
        " " + ISS,
        ISS + "\n",
        ISS + "\u0000",
        ISS + "\u200b",
        "",
    ),
)
def test_the_issuer_is_matched_byte_by_byte(iss: str, no_crypto: None) -> None:
    """Another tenant of the same identity provider could be taken for this one (GHSA-75c5-xw7c-p5pm)."""
    assert refusal(authenticator(), token(claims(iss=iss))) is Reason.TOKEN_ISSUER_UNKNOWN


@pytest.mark.parametrize("iss", (..., None, 7, True, [ISS], {ISS: 1}, ["https://other", ISS]))
def test_an_issuer_that_is_no_text_is_refused(iss: object, no_crypto: None) -> None:
    """A list could match one issuer here and name another there."""
    assert refusal(authenticator(), token(claims(iss=iss))) is Reason.TOKEN_CLAIM


# -- the form


def test_a_token_has_one_spelling() -> None:
    """Each variant would be verified and remembered on its own, and filters by digest would miss it."""
    who = authenticator()
    text = token()
    head, body, signature = text.split(".")
    assert principal(who, text).name == "corp/alice"
    # The last character of 32 bytes carries four bits; the two below it must be zero.
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".index(signature[-1])
    bent = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[last ^ 1]
    variants = (
        f"{head}.{body}.{signature}=",
        f"{head}.{body}.{signature}==",
        f"{head}=.{body}.{signature}",
        f"{head}.{body}.{signature[:-1]}{bent}",
        f"{head}.{body}.{signature}AA",  # 45 characters are no whole number of bytes
        f"{head}.{body}.{signature}\n",
        f"{head}.{body}.{signature} ",
        f" {head}.{body}.{signature}",
        f"{head}.{body}.{signature}.",
        f".{head}.{body}.{signature}",
        f"{head}..{body}.{signature}",
        f"{head}.{body}\x00.{signature}",
        f"{head}.{body}.{signature}\x00",
        f"{head}.{body[:4]} {body[4:]}.{signature}",
        f"{head}.{body[:4]}\r\n{body[4:]}.{signature}",
        f"{head}.{body}.{signature.translate(str.maketrans('-_', '+/'))}+",
        f"Bearer {text}",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.{signature}.{signature}",  # as many parts as an encrypted token
        json.dumps({"protected": head, "payload": body, "signature": signature}),
    )
    for variant in variants:
        assert refusal(who, variant) is Reason.TOKEN_MALFORMED, variant
    assert len(who._verified) == 1


@pytest.mark.parametrize(
    "text",
    (
        ".",
        "..",
        "...",
        "a.b.c",
        "\x00",
        " ",
        "ü.ü.ü",
        "\ud800.\udfff.\udc80",
        "\U0001f600",
        "e30.e30.e30",  # {} . {} . {}
        "bnVsbA.bnVsbA.bnVsbA",  # null
        "W10.W10.W10",  # []
        "IiI.IiI.IiI",  # ""
        "A.A.A",  # one character is no byte
    ),
)
def test_what_is_no_token_is_refused(text: str, no_crypto: None) -> None:
    """A fault in here would reach the caller as an error 500."""
    who = authenticator()
    assert refusal(who, text) in {Reason.TOKEN_MALFORMED, Reason.TOKEN_ALGORITHM}


def test_an_empty_token_is_a_missing_one() -> None:
    """The log would speak of a malformed token where the client sent none."""
    assert refusal(authenticator(), "") is Reason.TOKEN_MISSING


def padded(length: int) -> str:
    """Return a good token of exactly this many characters."""
    around = (length - len(token(claims(pad=""), header={"kid": ""}))) * 3 // 4
    for kid, filler in itertools.product(range(3), range(around - 9, around + 9)):
        text = token(claims(pad="x" * filler), header={"kid": "k" * kid})
        if len(text) == length:
            return text
    raise AssertionError(f"no filler makes {length} characters")


def test_tokens_are_bounded() -> None:
    """Strangers could have megabytes hashed and parsed."""
    who = authenticator()
    assert principal(who, padded(MAX_TOKEN)).name == "corp/alice"
    too_long = padded(MAX_TOKEN + 1)
    assert refusal(who, too_long) is Reason.TOKEN_MALFORMED
    with pytest.raises(Refused, match="over 16384"):
        module.parse_token(too_long)


@pytest.mark.parametrize(
    "payload",
    (
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b'{"iss":"' + ISS.encode() + b'",}',
        b"{'iss': 'x'}",
        b'{"exp": NaN}',
        b'{"exp": Infinity}',
        b'{"exp": -Infinity}',
        b'{"exp": ' + b"9" * 5_000 + b"}",  # more digits than Python converts
        b"[" * 10_000,
        b'{"a":' * 2_000,
        '{"iss":"x"}'.encode("utf-16"),
        '{"iss":"x"}'.encode("utf-16-le"),
        '{"iss":"x"}'.encode("utf-32"),
        b'{"iss":"\x00"}',
        # Repeated names: what is left of an injection, and read in two ways by two parsers.
        json.dumps(claims()).encode()[:-1] + b',"sub":"admin"}',
        json.dumps(claims()).encode()[:-1] + b',"s\\u0075b":"admin"}',
        json.dumps(claims()).encode()[:-1] + b',"realm_access":{"roles":[],"roles":["admin"]}}',
    ),
)
def test_a_payload_that_is_no_plain_json_object_is_refused(payload: bytes, no_crypto: None) -> None:
    """Two parsers could read two principals out of one token, or one of them fail with a raw fault."""
    who = authenticator(issuer(roles_claim="realm_access.roles", roles=("admin",)))
    assert refusal(who, token(payload)) is Reason.TOKEN_MALFORMED


@pytest.mark.parametrize("header", (b"", b"{", b"null", b"[]", b'{"alg":"HS256","alg":"none"}', b"[" * 10_000, b"\xff"))
def test_a_header_that_is_no_plain_json_object_is_refused(header: bytes, no_crypto: None) -> None:
    """Two parsers could read two algorithms out of one header."""
    assert refusal(authenticator(), token(header=header)) is Reason.TOKEN_MALFORMED


# -- the signature


@pytest.mark.parametrize("algorithm", ("RS256", "PS256", "ES256", "ES512", "EdDSA"))
@pytest.mark.parametrize("size", (0, 1, 31, 32, 64, 132, 256, 257, 4_000))
def test_signatures_of_any_length_and_none_are_refused(algorithm: str, size: int) -> None:
    """A signature of an odd length could raise a raw fault; all zeros once verified (CVE-2022-21449)."""
    who = authenticator(public_issuer(algorithm))
    head, body, _ = token(key=key_for(algorithm), algorithm=algorithm).split(".")
    assert refusal(who, f"{head}.{body}.{b64(bytes(size))}") is Reason.TOKEN_SIGNATURE


def test_a_public_key_in_disguise_is_no_shared_secret() -> None:
    """A binary key file given as the secret would let every caller sign; PyJWT knows it by its form."""
    public = rsa_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    who = authenticator(issuer(SharedSecret(public)))
    assert refusal(who, hmac_token({"alg": "HS256"}, public)) is Reason.TOKEN_KEY_UNKNOWN


def test_a_key_of_the_wrong_kind_is_never_tried() -> None:
    """An algorithm would be run with a key that is not its own."""
    who = authenticator(public_issuer("RS256", "ES256"))
    assert refusal(who, token(key=key_for("EdDSA"), algorithm="EdDSA")) is Reason.TOKEN_ALGORITHM
    for algorithm in ("RS256", "ES256"):
        assert principal(who, token(key=key_for(algorithm), algorithm=algorithm)).name == "corp/alice"


def test_a_token_without_kid_is_tried_with_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """One garbage token would cost as many signature checks as the issuer has keys."""

    def listed(count: int) -> Authenticator:
        keys = PublicKeys(tuple(PemKey(pem(rsa_key(str(number))), f"k{number}") for number in range(count)))
        return authenticator(issuer(keys, algorithms=("RS256",)))

    text = token(key=rsa_key("3"), algorithm="RS256")
    assert principal(listed(4), text).name == "corp/alice"
    assert refusal(listed(3), text) is Reason.TOKEN_SIGNATURE
    monkeypatch.setattr(module, "MAX_TRIES", 3)
    assert refusal(listed(4), text) is Reason.TOKEN_KEY_UNKNOWN


@pytest.mark.parametrize(
    ("text", "reason"),
    (
        ("x" * 700, Reason.TOKEN_MALFORMED),
        (token(claims(iss="https://other")), Reason.TOKEN_ISSUER_UNKNOWN),
        (token(header={"alg": "HS512"}), Reason.TOKEN_ALGORITHM),
        (token(header=json.dumps({"alg": "none"}).encode()), Reason.TOKEN_ALGORITHM),
    ),
)
def test_garbage_is_refused_before_any_cryptography(text: str, reason: Reason, no_crypto: None) -> None:
    """A flood of garbage would cost a signature check each."""
    assert refusal(authenticator(), text) is reason


def test_no_refusal_holds_the_token() -> None:
    """The audit trail and the log would collect live tokens."""
    who = authenticator()
    bad = (
        token(claims(iss="https://other")),
        token(claims(exp=NOW - 100)),
        token(claims(aud="other")),
        token(claims(sub="a\x1b[2Jb")),
        token(key=SECRET[::-1]),
        token(header={"typ": "x" * 1_000}),
        "not-a-jwt-but-somebodys-secret-opaque-token",
    )
    for text in bad:
        with pytest.raises(Refused) as caught:
            who.authenticate(text)
        said = str(caught.value) + repr(caught.value) + caught.value.detail
        assert text not in said
        assert text.rpartition(".")[2] not in said
        assert "\x1b" not in caught.value.detail
        assert len(caught.value.detail) < 300
