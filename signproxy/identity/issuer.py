"""Describe an issuer of JWTs: how its tokens are verified and what it may speak for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from signproxy.errors import Finding, SettingsInvalid, nearest
from signproxy.identity.key_url import KeysUnusable, KeyUrl, parse_key_url
from signproxy.identity.keys import ALGORITHMS, HMAC, MAX_KID, public_key
from signproxy.sealing import HeldSecret

STABLE_CLAIMS = frozenset({"sub", "oid", "client_id", "azp", "appid"})
"""Claims that an issuer never gives to another party later. All others can change hands and need the opt-in."""

MIN_SECRET = 32
"""Bytes for HS256. RFC 7518, section 3.2: a key is at least as long as the digest; so 48 and 64 for the others."""

_SECRET_BYTES = {"HS256": MIN_SECRET, "HS384": 48, "HS512": 64}

ISSUER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""What stands before the slash of every principal's name; without a slash of its own, so that no two can collide."""

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?|[0-9a-f:.]{2,45}")


class SharedSecret(HeldSecret):
    """A secret that issuer and signproxy share; never shown, never pickled."""

    __slots__ = ()


class PemKey(msgspec.Struct, frozen=True, gc=False):
    """A public key from a file; without a `kid` it may be meant by any token of the issuer."""

    pem: bytes
    kid: str | None = None


class PublicKeys(msgspec.Struct, frozen=True, gc=False):
    """Public keys that the operator lists."""

    keys: tuple[PemKey, ...]


class JwksUrl(msgspec.Struct, frozen=True, gc=False):
    """A JSON Web Key Set that is fetched from one URL."""

    url: str
    ca_file: str = ""
    """Trust this CA alone, instead of the system's."""
    token_file: str = ""
    """Send this file's token along: a cluster's API server shows its keys to no anonymous caller."""


class Discovery(msgspec.Struct, frozen=True, gc=False):
    """A JSON Web Key Set whose URL stands in `<issuer>/.well-known/openid-configuration`."""

    hosts: tuple[str, ...] = ()
    """Hosts beside the issuer's own on which the document may place the key set."""
    ca_file: str = ""
    token_file: str = ""


KeySource = SharedSecret | PublicKeys | JwksUrl | Discovery


class Issuer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An issuer that the operator trusts; raises SettingsInvalid if it could not be trusted as written."""

    name: str
    """Stands before the slash of its principals' names."""
    issuer: str
    """The exact `iss` of its tokens, byte by byte."""
    audiences: tuple[str, ...]
    algorithms: tuple[str, ...]
    keys: KeySource
    principal_claim: str = "sub"
    mutable_claims_accepted: bool = False
    """The operator accepts that the principal claim can come to name another party."""
    roles_claim: str = ""
    """A claim, or a path such as `realm_access.roles`, with principal roles; empty: tokens bring no roles."""
    roles: tuple[str, ...] = ()
    """The principal roles that it may speak for; others in the token are dropped."""
    catalogs: tuple[str, ...] | None = None
    """The catalogs that it may speak for; None: all."""
    kubernetes: bool = False
    """Its tokens are projected service-account tokens; their pod is kept for the audit."""

    def __post_init__(self) -> None:
        where = f"identity.issuers.{self.name}" if ISSUER_NAME.fullmatch(self.name) else "identity.issuers"
        findings = tuple(Finding("", f"{where}.{field}", problem) for field, problem in self._faults())
        if findings:
            raise SettingsInvalid(findings)

    def discovery_url(self) -> KeyUrl:
        """Return where the issuer's OpenID configuration is; raise KeysUnusable if `issuer` is no URL."""
        # OpenID Connect Discovery, section 4: a terminating slash is taken off before the path is added.
        return parse_key_url(self.issuer.removesuffix("/") + "/.well-known/openid-configuration")

    def _faults(self) -> Iterator[tuple[str, str]]:
        if not ISSUER_NAME.fullmatch(self.name):
            yield "name", f"{self.name!a} is no name: letters, digits, '.', '_' and '-', at most 63"
        if not self.issuer or not self.issuer.isprintable():
            yield "issuer", "is empty or holds characters that cannot be printed"
        if not self.audiences or not all(self.audiences):
            yield "audiences", "lists no audience; a token for any other service would be accepted"
        yield from self._algorithm_faults()
        yield from self._key_faults()
        yield from self._claim_faults()

    def _algorithm_faults(self) -> Iterator[tuple[str, str]]:
        if not self.algorithms:
            yield "algorithms", "lists no algorithm"
        for algorithm in self.algorithms:
            if algorithm.lower() == "none":
                yield "algorithms", "`none` is never accepted: such a token is not signed"
            elif algorithm not in ALGORITHMS:
                yield "algorithms", f"{algorithm!a} is unknown{nearest(algorithm, sorted(ALGORITHMS))}"
        symmetric = HMAC.intersection(self.algorithms)
        # RFC 8725, section 2.1: with both, a public key can be passed off as the shared secret.
        if symmetric and not isinstance(self.keys, SharedSecret):
            yield "algorithms", f"{', '.join(sorted(symmetric))} cannot stand beside public keys"
        if isinstance(self.keys, SharedSecret) and symmetric != frozenset(self.algorithms):
            yield "algorithms", "a shared secret serves HS256, HS384 and HS512 alone"

    def _key_faults(self) -> Iterator[tuple[str, str]]:
        match self.keys:
            case SharedSecret():
                yield from self._secret_faults(self.keys)
            case PublicKeys():
                yield from self._pem_faults(self.keys)
            case JwksUrl():
                try:
                    parse_key_url(self.keys.url)
                except KeysUnusable as problem:
                    yield "jwks_url", str(problem)
            case Discovery():
                try:
                    self.discovery_url()
                except KeysUnusable as problem:
                    yield "issuer", f"keys cannot be discovered: {problem}"
                for host in self.keys.hosts:
                    if not _HOST.fullmatch(host):
                        yield "jwks_hosts", f"{host!a} is no host in lower case without scheme and port"

    def _secret_faults(self, secret: SharedSecret) -> Iterator[tuple[str, str]]:
        needed = max((_SECRET_BYTES.get(algorithm, MIN_SECRET) for algorithm in self.algorithms), default=MIN_SECRET)
        if (length := len(secret.reveal())) < needed:
            yield "secret_file", f"is {length} bytes long; the listed algorithms need {needed}"
        if secret.is_key:
            yield "secret_file", "is a key, not a secret"

    def _pem_faults(self, public: PublicKeys) -> Iterator[tuple[str, str]]:
        if not public.keys:
            yield "key_file", "lists no key"
        served: set[str] = set()
        for index, pem in enumerate(public.keys):
            try:
                algorithms = public_key(pem.pem, pem.kid).algorithms
            except KeysUnusable as problem:
                yield f"key_file[{index}]", str(problem)
                continue
            served |= algorithms
            if algorithms.isdisjoint(self.algorithms):
                yield f"key_file[{index}]", f"serves {', '.join(sorted(algorithms))}, of which none is listed"
            if pem.kid is not None and not 0 < len(pem.kid) <= MAX_KID:
                yield f"key_file[{index}].kid", f"is empty or longer than {MAX_KID} characters"
        unserved = (ALGORITHMS - HMAC).intersection(self.algorithms) - served
        if served and unserved:
            yield "algorithms", f"no key serves {', '.join(sorted(unserved))}"

    def _claim_faults(self) -> Iterator[tuple[str, str]]:
        if not self.principal_claim:
            yield "principal_claim", "is empty"
        elif self.principal_claim not in STABLE_CLAIMS and not self.mutable_claims_accepted:
            problem = f"{self.principal_claim!a} can come to name another party"
            yield "principal_claim", f"{problem}; use `sub`, or accept it with `mutable_claims_accepted: true`"
        if self.kubernetes and self.principal_claim != "sub":
            yield "principal_claim", "a service account is named by `sub` alone"
        if bool(self.roles_claim) != bool(self.roles):
            yield "roles", "`roles_claim` and `roles` go together: only listed roles are taken from the claim"
        if not all(self.roles):
            yield "roles", "lists an empty role"
