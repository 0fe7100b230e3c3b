"""Tell who calls the S3 listener, by whichever of the ways that are switched on the request itself asks for.

What a request carries decides how it is judged, and nothing else is tried once that fails: a key that has ended is
refused, and not taken for a caller from within the pod.

    a signature, or a presigned URL, with a session token of ours,
    or with an access key id of ours that needs none                 a key that signproxy issued; fully verified
    `Authorization: Bearer`                                          a bearer token
    a signature around any other session token                       a bearer token, as SDKs can carry it
    nothing, or a signature by a key that was not issued here        the pod itself, where that is switched on
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Collection, Mapping, Sequence
from enum import Enum

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator, Known
from signproxy.identity.emulated import ACCESS_KEY_PREFIX, EmulatedKeys, is_session_token, is_whole_id
from signproxy.identity.pod_caller import Peer, PodIdentity
from signproxy.model import Principal, Subject
from signproxy.s3.faults import Fault, S3Refused
from signproxy.s3.presented import Presented, is_signature, read_authorization, read_presigned
from signproxy.s3.uri import is_canonical
from signproxy.s3.verify import DATE_HEADER, SeedSignature, Signatures, Verifier, verify

Headers = Sequence[tuple[str, str]]
"""Names in lower case, and values with their bytes as the characters of latin-1."""

REMEMBERED = 4_096
"""Keys that a signature has proved; about 3 KiB each."""

_BEARER = "bearer "
_PRESIGNED = "x-amz-"
_VERSION_2 = re.compile(r"(?:^|&)AWSAccessKeyId=")
_ID_SHOWN = 128
"""Characters, as many as the ids of AWS may have."""
_SINGLE = ("authorization", "host", "x-amz-security-token", "x-amz-content-sha256", "x-amz-date")
_HINT = "neither a signature nor a bearer token: the client's credential provider failed or is not configured"


class How(Enum):
    """How a caller showed who it is."""

    EMULATED = "emulated"
    BEARER = "bearer"
    POD = "pod"


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Who calls, and what is left of the request once that is known."""

    subject: Subject
    how: How
    raw_query: str | None
    """Without the parameters of a presigned URL; None where nothing is left, or there was none."""
    payload: str = ""
    """What a verified signature says of the body, in the words of `x-amz-content-sha256`; empty without one."""
    seed: SeedSignature | None = None
    """What signed chunks go on from; None where no signature was verified, so that none of theirs can be."""
    hoisted: tuple[tuple[str, str], ...] = ()
    """Headers that a presigned URL brought in its query, which the signature covers; names as spelled."""
    bearer: str = ""
    """The caller's own token, for its catalog; empty where its key was issued without."""

    def __repr__(self) -> str:
        return f"Caller({self.subject.caller!r}, {self.how!r}, ***)"


class _Proved(msgspec.Struct, frozen=True, gc=False):
    """A key whose secret a caller was seen to have."""

    verifier: Verifier
    known: Known
    bearer: str


class Shown(msgspec.Struct, frozen=True, gc=False):
    """What a caller showed with a request, so that the next one need only show the same."""

    known: Known
    signed: Collection[int] | None = None
    """The places of the headers that the signature covers and that are looked at; None where there is no signature."""
    signatures: Signatures | None = None
    """What the caller's signatures are verified with; None where a token is the proof."""

    def __repr__(self) -> str:
        return f"Shown({self.known.principal!r}, ***)"


class S3Callers:
    """Tells who calls. What it remembers ends with it: each generation of settings has its own."""

    def __init__(
        self,
        keys: EmulatedKeys | None,
        authenticator: Authenticator,
        *,
        bearer: bool,
        pod: PodIdentity | None,
        regions: frozenset[str] | None = None,
    ) -> None:
        """A way that is not given is no way in. `regions` are those that a signature may be for; None for any."""
        self._keys = keys
        self._authenticator = authenticator
        self._bearer = bearer
        self._pod = pod
        self._regions = regions
        # Only what a signature has proved: a caller without the secret of a key of ours can add nothing.
        self._proved: OrderedDict[tuple[str, str], _Proved] = OrderedDict()

    def identify(
        self, method: str, target: str, headers: Headers, peer: Peer, now: float, named: Mapping[str, str] | None = None
    ) -> Caller | Awaitable[Caller]:
        """Return the caller of a request; an awaitable only where an issuer's keys must be asked for first.

        `target` is the request's own, byte for byte; names of headers are in lower case. `named` are the headers by
        name, where their reader made sure that those that count are there once. Raise Refused.
        """
        path, mark, query = target.partition("?")
        raw_query = query if mark else None
        if named is None:
            named = _by_name(headers)
        authorization = named.get("authorization")
        if authorization is not None and authorization[: len(_BEARER)].lower() == _BEARER:
            return self._by_bearer(authorization[len(_BEARER) :].strip(" "), raw_query)
        if query and _PRESIGNED in query.lower():
            presigned = read_presigned(query, named)
            if presigned is not None:
                presented, rest = presigned
                if not _is_issued(presented):
                    # Of a bearer token no signature would be a proof, and a URL stands in logs and histories.
                    raise _unknown(presented, "a presigned URL without the session token of a key")
                return self._by_key(presented, method, path, query, rest, headers, now)
        if authorization is not None:
            presented = read_authorization(authorization, named)
            token = presented.session_token
            if _is_issued(presented):
                return self._by_key(presented, method, path, raw_query, raw_query, headers, now)
            if token:
                return self._by_bearer(token, raw_query)
            if presented.access_key_id.startswith(ACCESS_KEY_PREFIX):
                raise _unknown(presented, "a key without its session token")
            if self._pod is None:
                raise _unknown(presented, "a key that was not issued here, without a session token")
        if self._pod is None:
            raise _anonymous(query)
        found, token = self._pod.identify(headers, peer)
        return self._caller(found, How.POD, raw_query, token)

    def shown(self, caller: Caller, method: str, path: str, headers: Headers, named: Mapping[str, str]) -> Shown | None:
        """Return what a caller who was just identified has shown; None where each request is looked at as a whole.

        `path` is the request's, which has no query; no name is there twice. Raise Refused for a caller refused by now.
        """
        authorization = named.get("authorization", "")
        folder = path[: path.rfind("/") + 1]
        if caller.how is How.POD or caller.hoisted or not authorization or not is_canonical(path):
            return None
        if authorization[: len(_BEARER)].lower() == _BEARER:
            return self._shown_by(authorization[len(_BEARER) :].strip(" "), caller, None)
        presented = read_authorization(authorization, named)
        if caller.how is How.BEARER:
            return self._shown_by(presented.session_token, caller, ())
        proved = self._proved.get((presented.access_key_id, presented.session_token))
        if proved is None or DATE_HEADER not in presented.signed_headers:
            return None
        signatures = Signatures(presented, proved.verifier, method, folder, headers)
        return Shown(proved.known, signatures.places, signatures)

    def _shown_by(self, token: str, caller: Caller, signed: Collection[int] | None) -> Shown | None:
        # Of a token for one table the caller's own is another one, and each may end for itself.
        if token != caller.bearer:
            return None
        found = self._authenticator.authenticate(token)
        if isinstance(found, Principal):
            # What vouched for the caller may be gone since: then this is another principal, or none.
            return Shown(self._authenticator.known(found), signed) if found is caller.subject.caller else None
        found.close()
        return None

    def again(
        self, shown: Shown, name: str, amz_date: str, signature: str, changed: Mapping[int, str], now: float
    ) -> bool:
        """Whether a request that shows the same again is still the caller's; `Signatures.hold` says what may differ."""
        if self._authenticator.again(shown.known) is None:
            return False
        if shown.signatures is not None:
            return shown.signatures.hold(name, amz_date, signature, changed, now)
        # Around a token that is the proof itself, a signature need only be one by its form.
        return shown.signed is None or is_signature(signature)

    def _by_key(
        self,
        presented: Presented,
        method: str,
        path: str,
        raw_query: str | None,
        rest: str | None,
        headers: Headers,
        now: float,
    ) -> Caller:
        """Return the holder of a key, once its secret is proved."""
        keys = self._keys
        if keys is None:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, "keys are switched off")
        parts = presented.access_key_id, presented.session_token
        proved = self._proved.get(parts)
        subject = None if proved is None else self._authenticator.again(proved.known)
        if proved is not None and subject is not None:
            bearer = proved.bearer
            seed = verify(presented, proved.verifier, method, path, raw_query, headers, now, regions=self._regions)
        else:
            held = keys.open(presented.access_key_id, presented.session_token, now)
            known, bearer = self._authenticator.known(held.principal), held.bearer
            subject = known.subject
            verifier = Verifier(presented.access_key_id, held.secret)
            seed = verify(presented, verifier, method, path, raw_query, headers, now, regions=self._regions)
            self._remember(parts, _Proved(verifier, known, bearer))
        return Caller(subject, How.EMULATED, rest, presented.payload, seed, presented.hoisted, bearer)

    def _by_bearer(self, token: str, raw_query: str | None) -> Caller | Awaitable[Caller]:
        if not self._bearer:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, "bearer tokens are switched off")
        return self._caller(self._authenticator.authenticate(token), How.BEARER, raw_query, token)

    def _caller(
        self, found: Principal | Awaitable[Principal], how: How, raw_query: str | None, token: str
    ) -> Caller | Awaitable[Caller]:
        if isinstance(found, Principal):
            return Caller(
                self._authenticator.known(found).subject,
                how,
                raw_query,
                bearer=self._authenticator.upstream_bearer(token),
            )
        return self._later(found, how, raw_query, token)

    async def _later(self, found: Awaitable[Principal], how: How, raw_query: str | None, token: str) -> Caller:
        principal = await found
        return Caller(
            self._authenticator.known(principal).subject,
            how,
            raw_query,
            bearer=self._authenticator.upstream_bearer(token),
        )

    def _remember(self, parts: tuple[str, str], proved: _Proved) -> None:
        self._proved.pop(parts, None)
        if len(self._proved) >= REMEMBERED:
            self._proved.popitem(last=False)
        self._proved[parts] = proved


def _anonymous(query: str) -> Refused:
    if _VERSION_2.search(query):
        told = "a presigned URL of Signature Version 2"
        return S3Refused(Reason.AUTHORIZATION_MALFORMED, Fault.SIGNATURE_VERSION, detail=told)
    return Refused(Reason.ANONYMOUS_REQUEST, _HINT)


def _unknown(presented: Presented, told: str) -> Refused:
    # No id that is issued here with a session token is longer, and one without holds what a token holds.
    fact = presented.access_key_id if len(presented.access_key_id) <= _ID_SHOWN else ""
    return S3Refused(Reason.ACCESS_KEY_UNKNOWN, Fault.KEY_UNKNOWN, fact, detail=told)


def _is_issued(presented: Presented) -> bool:
    """Whether a signature claims to be by a key that was issued here. Raise Refused for the parts of two kinds."""
    token = presented.session_token
    if is_whole_id(presented.access_key_id):
        if token:
            # There is no telling which of the two counts.
            told = "a session token beside a key that has none"
            raise S3Refused(Reason.ACCESS_KEY_UNKNOWN, Fault.TOKEN_INVALID, detail=told)
        return True
    return is_session_token(token)


def _by_name(headers: Headers) -> Mapping[str, str]:
    named = dict(headers)
    if len(named) != len(headers):
        _check_single(headers)
    return named


def _check_single(headers: Headers) -> None:
    """Refuse what counts here and is there twice: there is no telling which one counts."""
    names = [name for name, _ in headers]
    for name in _SINGLE:
        if names.count(name) > 1:
            raise Refused(Reason.AUTHORIZATION_MALFORMED, f"{name} is given {names.count(name)} times")
