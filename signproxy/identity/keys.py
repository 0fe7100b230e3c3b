"""Hold the keys that an issuer's tokens are verified with, each bound to the algorithms it may serve."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from signproxy.identity.key_url import KeysUnusable
from signproxy.identity.show import shown

if TYPE_CHECKING:
    from jwt.algorithms import AllowedPublicKeys

    Material = AllowedPublicKeys | bytes

HMAC = frozenset({"HS256", "HS384", "HS512"})
RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
EDDSA = frozenset({"EdDSA"})
CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS = HMAC | RSA | EDDSA | frozenset(CURVES.values())
"""Every algorithm that may be listed. `none` is not one; neither is ES256K, which no catalog's issuer uses."""

MIN_RSA_BITS = 2_048
"""NIST SP 800-131A: anything shorter is within reach of a well-funded attacker."""
MAX_RSA_BITS = 8_192
"""Verification slows with the square of the length; no issuer publishes longer ones."""
MAX_KEYS = 100
"""Issuers publish two to ten keys; more is a document of another kind."""
MAX_TRIES = 4
"""How many keys a token without a `kid` is tried with: each try costs a signature check."""
MAX_KID = 256
"""Issuers use digests, UUIDs and dates; a longer `kid` is an attack on the process that stores it."""

_CURVE_BYTES = {"P-256": 32, "P-384": 48, "P-521": 66}
_CURVE_NAMES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


class VerificationKey:
    """A key and the algorithms it may serve, whatever a token's header claims.

    The key proper is built when a token first asks for it, because that loads cryptography.
    """

    __slots__ = ("_build", "_material", "algorithms", "kid", "thumbprint")

    def __init__(
        self, kid: str | None, algorithms: frozenset[str], thumbprint: str, build: Callable[[], Material]
    ) -> None:
        self.kid = kid
        self.algorithms = algorithms
        self.thumbprint = thumbprint
        self._build = build
        self._material: Material | None = None

    def material(self) -> Material:
        """Return what PyJWT verifies with; raise KeysUnusable if the key turns out to be none."""
        if self._material is None:
            self._material = self._build()
        return self._material

    def __repr__(self) -> str:
        return f"VerificationKey(kid={self.kid!a}, algorithms={sorted(self.algorithms)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys are not pickled: a shared secret would leave the process")


class KeySet:
    """The keys of one issuer at one time."""

    def __init__(self, keys: Iterable[VerificationKey], ignored: tuple[str, ...] = ()) -> None:
        self.keys = tuple(keys)
        self.ignored = ignored
        """Why keys of the document were left out, for the operator."""
        self.thumbprint = frozenset((key.kid, key.algorithms, key.thumbprint) for key in self.keys)
        """Equal for two sets that verify the same tokens."""
        self._named: dict[str, tuple[VerificationKey, ...]] = {}
        for key in self.keys:
            if key.kid is not None:
                self._named[key.kid] = (*self._named.get(key.kid, ()), key)
        self._unnamed = tuple(key for key in self.keys if key.kid is None)

    def named(self, kid: str | None) -> tuple[VerificationKey, ...]:
        """Return the keys that a token with this `kid` may mean.

        A token without a `kid` may mean any key. A set without a single `kid` does not use them, so its keys may be
        meant by any token; in all other sets a `kid` that is not there is unknown.
        """
        if kid is None:
            return self.keys
        return self._named.get(kid, ()) if self._named else self._unnamed

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"KeySet({list(self.keys)!r})"


def shared_secret_key(secret: bytes) -> VerificationKey:
    """Return the key of an issuer that shares a secret with signproxy."""
    return VerificationKey(None, HMAC, hashlib.sha256(b"signproxy hmac key\0" + secret).hexdigest(), lambda: secret)


def public_key(pem: bytes, kid: str | None) -> VerificationKey:
    """Return the one public key in a PEM text; raise KeysUnusable for anything else."""
    if b"PRIVATE KEY-----" in pem:
        raise KeysUnusable("holds a private key; signproxy needs only the public one: openssl pkey -pubout")
    if b"-----BEGIN CERTIFICATE" in pem:
        raise KeysUnusable("holds a certificate; take its public key: openssl x509 -pubkey -noout")
    if pem.count(b"-----BEGIN ") != 1:
        raise KeysUnusable("not exactly one PEM public key; list each key by itself")
    # Parsed at once although that loads cryptography: a broken key file must stop the start, not the first request.
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise KeysUnusable("not a PEM public key") from None
    thumbprint = hashlib.sha256(pem).hexdigest()
    if isinstance(key, RSAPublicKey):
        _check_rsa_bits(key.key_size)
        return VerificationKey(kid, RSA, thumbprint, lambda: key)
    if isinstance(key, EllipticCurvePublicKey):
        curve = _CURVE_NAMES.get(key.curve.name)
        if curve is None:
            raise KeysUnusable(f"curve {key.curve.name} is not one of {', '.join(_CURVE_NAMES)}")
        return VerificationKey(kid, frozenset({CURVES[curve]}), thumbprint, lambda: key)
    if isinstance(key, Ed25519PublicKey):
        return VerificationKey(kid, EDDSA, thumbprint, lambda: key)
    raise KeysUnusable("neither an RSA, nor an EC, nor an Ed25519 key")


def parse_jwks(document: Mapping[str, object]) -> KeySet:
    """Return the usable keys of a JSON Web Key Set; raise KeysUnusable if it is none.

    Keys that cannot be used are left out, for issuers publish encryption keys and new kinds beside the others. A set
    without a usable key is the issuer's word all the same: one that withdraws every key wants no token accepted.
    """
    members = document.get("keys")
    if not isinstance(members, list):
        raise KeysUnusable("not a JSON Web Key Set: `keys` is missing or no list")
    if len(members) > MAX_KEYS:
        raise KeysUnusable(f"{len(members)} keys, over {MAX_KEYS}")
    keys: list[VerificationKey] = []
    ignored: list[str] = []
    for index, member in enumerate(members):
        try:
            keys.append(_jwk_key(member))
        except KeysUnusable as problem:
            ignored.append(f"keys[{index}]: {problem}")
    return KeySet(keys, tuple(ignored))


def _jwk_key(member: object) -> VerificationKey:
    if not isinstance(member, dict):
        raise KeysUnusable("no object")
    kid, alg = member.get("kid"), member.get("alg")
    if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_KID):
        raise KeysUnusable(f"`kid` is no text of at most {MAX_KID} characters")
    if member.get("use", "sig") != "sig":
        raise KeysUnusable(f"`use` is {shown(member['use'])}, not sig")
    operations = member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise KeysUnusable("`key_ops` does not hold verify")
    if "d" in member or "k" in member:
        raise KeysUnusable("a secret was published; have the issuer replace the key")
    public, algorithms = _public_part(member)
    if alg is not None:
        if not isinstance(alg, str) or alg not in algorithms:
            raise KeysUnusable(f"`alg` {shown(alg)} does not fit the key")
        algorithms = frozenset({alg})
    canonical = json.dumps(public, sort_keys=True, separators=(",", ":")).encode()
    family = min(algorithms)
    return VerificationKey(kid, algorithms, hashlib.sha256(canonical).hexdigest(), lambda: _build_jwk(public, family))


def _public_part(member: Mapping[str, object]) -> tuple[dict[str, str], frozenset[str]]:
    """Return the members that make the key, and no other: `x5c`, `x5u` and the like are never looked at."""
    match member.get("kty"):
        case "RSA":
            modulus, exponent = _octets(member, "n"), _octets(member, "e")
            _check_rsa_bits(int.from_bytes(modulus).bit_length())
            # With e=1 every signature verifies what its bytes say.
            if int.from_bytes(exponent) < 3 or len(exponent) > 8:
                raise KeysUnusable("RSA exponent out of range")
            return {"kty": "RSA", "n": _text(member, "n"), "e": _text(member, "e")}, RSA
        case "EC":
            curve = _text(member, "crv")
            if curve not in CURVES:
                raise KeysUnusable(f"`crv` {shown(curve)} is not one of {', '.join(CURVES)}")
            if len(_octets(member, "x")) != _CURVE_BYTES[curve] or len(_octets(member, "y")) != _CURVE_BYTES[curve]:
                raise KeysUnusable("the coordinates do not have the curve's length")
            public = {"kty": "EC", "crv": curve, "x": _text(member, "x"), "y": _text(member, "y")}
            return public, frozenset({CURVES[curve]})
        case "OKP":
            if member.get("crv") != "Ed25519" or len(_octets(member, "x")) != 32:
                raise KeysUnusable("not an Ed25519 key")
            return {"kty": "OKP", "crv": "Ed25519", "x": _text(member, "x")}, EDDSA
        case other:
            # `oct` above all: a published HMAC key lets every reader issue tokens.
            raise KeysUnusable(f"`kty` {shown(other)} is not one of RSA, EC, OKP")


def _build_jwk(public: dict[str, str], algorithm: str) -> Material:
    import jwt  # noqa: PLC0415 (loads cryptography: not before a token needs it)

    try:
        key: AllowedPublicKeys = jwt.PyJWK(public, algorithm).key
    except (jwt.PyJWTError, ValueError, TypeError):
        raise KeysUnusable("the published numbers make no valid key") from None
    return key


def _check_rsa_bits(bits: int) -> None:
    if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
        raise KeysUnusable(f"RSA key of {bits} bits; {MIN_RSA_BITS} to {MAX_RSA_BITS} are accepted")


def _text(member: Mapping[str, object], name: str) -> str:
    value = member.get(name)
    if not isinstance(value, str) or not value or len(value) > 2 * MAX_RSA_BITS:
        raise KeysUnusable(f"`{name}` is missing or no text")
    return value


def _octets(member: Mapping[str, object], name: str) -> bytes:
    text = _text(member, name).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise KeysUnusable(f"`{name}` is not base64url") from None
