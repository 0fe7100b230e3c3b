"""Make and read tokens that are good for one table: a caller's own token, sealed together with that limit.

Such a token is no authority. It says that its holder was given it by a caller whose own token is inside: that one is
judged anew, by issuers and keys as they are now, and grants are judged live like those of any other caller. Only
signproxy can take the caller's token out, which is what an upstream catalog is sent.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.model import Principal, TableScope
from signproxy.sealing import SealBroken, Sealer, SealFault

TABLE_TOKEN_PREFIX = "spt1."  # noqa: S105 - the beginning of tokens, and no token
"""What `sealing.Purpose.TABLE_TOKEN` begins with, and no other token does."""


class TableToken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a table token holds."""

    principal: str
    scope: TableScope
    expires_at: float
    """Unix time."""
    bearer: str
    """The token of the caller that it was made for."""

    def __repr__(self) -> str:
        return f"TableToken({self.principal!r}, {self.scope!r}, {self.expires_at!r}, ***)"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TableToken).decode

_REASONS = {
    SealFault.LONG: Reason.TOKEN_MALFORMED,
    SealFault.FORM: Reason.TOKEN_MALFORMED,
    SealFault.SECRET: Reason.TOKEN_KEY_UNKNOWN,
    SealFault.ALTERED: Reason.TOKEN_SIGNATURE,
}


class TableTokens(NamedTuple):
    """Makes and reads table tokens; there is one only where the operator switched them on."""

    sealer: Sealer
    seconds: float
    """How long a token lives at most."""

    def make(self, principal: Principal, bearer: str, scope: TableScope, now: float) -> str | None:
        """Return a token of the caller for a table; None where it would be of no use.

        That is where the caller's own is about to end, leaves no room in a header, or is good for another table:
        nothing that is made of a table token reaches further or lives longer than it does.
        """
        expires_at = min(principal.expires_at, now + self.seconds)
        if expires_at <= now or not _within(scope, principal.scope):
            return None
        try:
            return self.sealer.seal(_encode(TableToken(principal.name, scope, expires_at, bearer)))
        except SealBroken:
            return None

    def read(self, token: str, now: float) -> TableToken:
        """Return what the token holds; raise Refused (TOKEN_*) for one that was not made here, or has ended."""
        try:
            held = _decode(self.sealer.open(token))
        except SealBroken as broken:
            raise Refused(_REASONS[broken.fault], f"a table token, {broken}") from None
        except msgspec.MsgspecError:
            raise Refused(Reason.TOKEN_MALFORMED, "a table token of another version") from None
        if now >= held.expires_at:
            raise Refused(Reason.TOKEN_EXPIRED, f"a table token, {now - held.expires_at:.0f} s ago")
        # None is made; one that came to be by a fault of ours must not be unwrapped for ever.
        if is_table_token(held.bearer):
            raise Refused(Reason.TOKEN_MALFORMED, "a table token inside a table token")
        return held


def is_table_token(token: str) -> bool:
    """Whether the token claims to be a table token."""
    return token.startswith(TABLE_TOKEN_PREFIX)


def scoped(principal: Principal, held: TableToken) -> Principal:
    """Return the caller, limited to the token's table. Raise Refused if the token inside names another by now."""
    if principal.name != held.principal:
        raise Refused(Reason.TOKEN_CLAIM, f"a table token of {held.principal!r}, whose own names {principal.name!r}")
    expires_at = min(principal.expires_at, held.expires_at)
    return msgspec.structs.replace(principal, scope=held.scope, expires_at=expires_at)


def _within(scope: TableScope, limit: TableScope | None) -> bool:
    """Whether the scope reaches no further than the limit: the same table, by its UUID where the limit has one."""
    if limit is None:
        return True
    same_name = (scope.catalog, scope.namespace, scope.name) == (limit.catalog, limit.namespace, limit.name)
    return same_name and limit.uuid in ("", scope.uuid)
