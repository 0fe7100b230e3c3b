"""Issue S3 keys that are good at signproxy alone, and know them again: nothing of them is kept anywhere.

A key has the three parts that every S3 client takes. Its id is random; its secret is derived from the id, by a key that
only those know who share the operator's secrets; its session token is the sealed word of who holds it, what it is good
for, and until when, and names the id that it belongs to. Such a key is no authority: what vouched for its holder has to
do so still, and grants are judged live like those of any other caller.

Clients that take an id and a secret only are given a key of two parts: its id is the sealed word itself, which then
names no id. Parts of the one kind are nothing to the other.
"""

from __future__ import annotations

import base64
import os
from enum import Enum
from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.model import KeyScope, Pod, Principal, TableScope
from signproxy.s3.presented import MAX_ACCESS_KEY_ID
from signproxy.sealing import Deriver, SealBroken, Sealer

ACCESS_KEY_PREFIX = "SPK1"
"""What the ids of these keys begin with, and none of AWS' do."""

SESSION_TOKEN_PREFIX = "spk1."  # noqa: S105 - the beginning of tokens, and no token
"""What `sealing.Purpose.S3_KEY` begins with, and no bearer token does."""

_WHOLE_PREFIX = f"{ACCESS_KEY_PREFIX}."
"""What an id that holds the sealed word begins with, in place of `SESSION_TOKEN_PREFIX`; no random one has the dot."""

_ID_BYTES = 10
"""16 characters of base32: an id is as long as those of AWS, which some clients check."""

_SECRET_BYTES = 30
"""240 bits in 40 characters, as AWS' secrets have."""


class Parts(Enum):
    """How many parts a key is handed out in."""

    THREE = "id, secret and session token"
    TWO = "id and secret"


class IssuedKey(msgspec.Struct, frozen=True, gc=False):
    """A key as its holder gets it."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    """Empty for a key of two parts."""
    expires_at: float
    """Unix time."""

    def __repr__(self) -> str:
        return f"IssuedKey({self.access_key_id!r}, ***, {self.expires_at!r})"


class KeyHolder(msgspec.Struct, frozen=True, gc=False):
    """Who holds a key, limited to what it is good for, and the secret that proves it."""

    principal: Principal
    secret: str
    expires_at: float
    bearer: str = ""
    """The token that it was issued for, where a catalog may have to be asked in the holder's name."""

    def __repr__(self) -> str:
        return f"KeyHolder({self.principal!r}, ***, {self.expires_at!r})"


class _Word(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a session token holds, or an id that needs none."""

    access_key_id: str
    """Empty where it stands in the id itself."""
    kid: str
    """Of the key that the secret is derived with."""
    issued_at: float
    expires_at: float
    mark: str
    """Of the issuer or token that vouched for the principal."""
    name: str
    issuer: str
    subject: str
    roles: tuple[str, ...]
    catalogs: tuple[str, ...] | None
    pod: Pod | None
    scope: TableScope | None
    key_scope: KeyScope | None
    bearer: str

    def __repr__(self) -> str:
        return f"_Word({self.access_key_id!r}, {self.name!r}, ***)"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Word).decode


class EmulatedKeys(NamedTuple):
    """Issues keys and opens them."""

    sealer: Sealer
    deriver: Deriver
    vouching: Authenticator
    max_seconds: float
    """How long a key lives at most, those that were issued under another limit included."""

    def issue(
        self,
        principal: Principal,
        scope: KeyScope | None,
        seconds: float,
        now: float,
        bearer: str = "",
        *,
        parts: Parts = Parts.THREE,
    ) -> IssuedKey:
        """Return a key for a principal just found by other means than a key; it reaches no further than the principal.

        `bearer` is the caller's own token where a catalog is asked with that one; sealed, so that no client finds it in
        the key. Raise Refused for a token that ends already, for a scope beyond the principal's own, and where no
        issuer or token vouches for the principal any more.
        """
        if principal.expires_at <= now:
            # Within the leeway of the clocks: nothing may be derived from it.
            raise Refused(Reason.TOKEN_EXPIRED, f"{now - principal.expires_at:.0f} s ago")
        # Keys that make keys would never end.
        if principal.key_scope is not None:
            raise Refused(Reason.NOT_IN_SCOPE, "a key is not issued on the word of a key")
        if scope is not None and principal.scope is not None and not _within(scope, principal.scope):
            raise Refused(Reason.NOT_IN_SCOPE, "the token is good for another table than the key was asked for")
        mark = self.vouching.mark(principal)
        if not mark:
            raise Refused(Reason.TOKEN_ISSUER_UNKNOWN, f"nothing vouches for {principal.name!r} any more")
        # What is made of a token lives no longer than it does.
        expires_at = min(now + min(seconds, self.max_seconds), principal.expires_at)
        access_key_id = ""
        if parts is Parts.THREE:
            access_key_id = ACCESS_KEY_PREFIX + base64.b32encode(os.urandom(_ID_BYTES)).decode()
        kid = self.deriver.kid
        holder = principal.name, principal.issuer, principal.subject, principal.roles, principal.catalogs, principal.pod
        word = _Word(access_key_id, kid, now, expires_at, mark, *holder, principal.scope, scope, bearer)
        try:
            session_token = self.sealer.seal(_encode(word))
        except SealBroken as broken:
            raise Refused(Reason.TOKEN_CLAIM, f"too much for a key: {broken}") from None
        if not access_key_id:
            access_key_id, session_token = _WHOLE_PREFIX + session_token.removeprefix(SESSION_TOKEN_PREFIX), ""
            if len(access_key_id) > MAX_ACCESS_KEY_ID:
                told = f"too much for a key without a session token: an id of {len(access_key_id)} characters"
                raise Refused(Reason.TOKEN_CLAIM, told)
        return IssuedKey(access_key_id, self._secret(kid, access_key_id), session_token, expires_at)

    def open(self, access_key_id: str, session_token: str, now: float) -> KeyHolder:
        """Return who holds a key, as issuers and settings are now; a key of two parts has an empty session token.

        Raise Refused (ACCESS_KEY_UNKNOWN, KEY_EXPIRED) for parts that were not issued here and as one key, for a key
        that has ended, and for one whose holder nothing vouches for any more. Whether a caller has its secret is left
        to the signature.
        """
        whole = not session_token and is_whole_id(access_key_id)
        sealed = SESSION_TOKEN_PREFIX + access_key_id.removeprefix(_WHOLE_PREFIX) if whole else session_token
        holds = "access key id" if whole else "session token"
        try:
            word = _decode(self.sealer.open(sealed))
        except SealBroken as broken:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, f"the {holds} is {broken}") from None
        except msgspec.MsgspecError:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, f"a {holds} of another version") from None
        if not access_key_id or word.access_key_id != ("" if whole else access_key_id):
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, f"the {holds} is that of another key")
        expires_at = min(word.expires_at, word.issued_at + self.max_seconds)
        if now >= expires_at:
            raise Refused(Reason.KEY_EXPIRED, f"{now - expires_at:.0f} s ago; a key of {word.name!r}")
        holder = word.name, word.issuer, word.subject, expires_at, word.roles, word.catalogs, word.pod
        principal = Principal(*holder, word.scope, word.key_scope)
        try:
            principal = self.vouching.standing(principal, word.mark)
        except Refused as refused:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, refused.detail) from None
        if now >= principal.expires_at:
            raise Refused(Reason.KEY_EXPIRED, f"with the token of {word.name!r} that it was issued for")
        return KeyHolder(principal, self._secret(word.kid, access_key_id), principal.expires_at, word.bearer)

    def _secret(self, kid: str, access_key_id: str) -> str:
        derived = self.deriver.derive(kid, access_key_id.encode())
        if derived is None:
            raise Refused(Reason.ACCESS_KEY_UNKNOWN, "its secret was derived from one that is not known here")
        return base64.urlsafe_b64encode(derived[:_SECRET_BYTES]).decode()


def is_session_token(token: str) -> bool:
    """Whether a session token claims to be one of a key that was issued here."""
    return token.startswith(SESSION_TOKEN_PREFIX)


def is_whole_id(access_key_id: str) -> bool:
    """Whether an access key id claims to say by itself who holds it."""
    return access_key_id.startswith(_WHOLE_PREFIX)


def _within(scope: KeyScope, limit: TableScope) -> bool:
    """Whether a scope is that table. UUIDs need no look: the token's own still counts beside the key's."""
    return (scope.catalog, scope.namespace, scope.table) == (limit.catalog, limit.namespace, limit.name)
