"""Name the values that rooms pass to each other: who asks, for what, and what was decided."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec

from signproxy.errors import Reason

NAMESPACE_SEPARATOR = "\x1f"


class Pod(msgspec.Struct, frozen=True, gc=False):
    """The Kubernetes pod that a projected service-account token names; kept for the audit."""

    namespace: str
    name: str
    uid: str
    node: str = ""


class TableScope(msgspec.Struct, frozen=True, gc=False):
    """The one table that a token is good for."""

    catalog: str
    namespace: str
    """Levels joined by U+001F."""
    name: str
    uuid: str = ""
    """Empty where the token was handed out for a name alone."""


class Ceiling(Enum):
    """The most that a subject may do, whatever is granted."""

    NONE = "none"
    READ_ONLY = "read_only"


class KeyScope(msgspec.Struct, frozen=True, gc=False):
    """What an emulated key is good for: a catalog, a namespace with everything below it, or one table."""

    catalog: str
    namespace: str = ""
    """Levels joined by U+001F; empty for the whole catalog."""
    table: str = ""
    """Empty for the whole namespace."""
    uuid: str = ""
    """Of the table; empty where the key was issued for a name alone."""
    ceiling: Ceiling = Ceiling.NONE
    """The most that its holder may do by it."""


class Principal(msgspec.Struct, frozen=True, gc=False):
    """A caller whose token was verified. `name` is `<issuer>/<claim>`."""

    name: str
    issuer: str
    subject: str
    expires_at: float
    """Unix time after which nothing derived from this value may be used."""
    roles: tuple[str, ...] = ()
    """Principal roles that the token brings, already cut to what its issuer may speak for."""
    catalogs: tuple[str, ...] | None = None
    """Catalogs its issuer may speak for; None where the issuer is not limited."""
    pod: Pod | None = None
    scope: TableScope | None = None
    """The table that its token is limited to; None for every other token."""
    key_scope: KeyScope | None = None
    """What its emulated key is limited to; None where it is not."""

    @property
    def scopes(self) -> tuple[KeyScope, ...]:
        """Everything that limits it, as if it all were the scopes of keys; nothing where nothing does."""
        token, key = self.scope, self.key_scope
        of_token = () if token is None else (KeyScope(token.catalog, token.namespace, token.name, token.uuid),)
        return of_token if key is None else (*of_token, key)


class Subject(msgspec.Struct, frozen=True, gc=False):
    """On whose rights a request is judged: the caller, or an effective principal reached through a chain."""

    caller: Principal
    effective: Principal
    chain: tuple[str, ...] = ()
    ceiling: Ceiling = Ceiling.NONE

    @classmethod
    def of(cls, caller: Principal) -> Subject:
        """Return the subject of a caller who acts on its own rights, as far as what it showed reaches."""
        scope = caller.key_scope
        return cls(caller, caller) if scope is None else cls(caller, caller, ceiling=scope.ceiling)

    @property
    def delegated(self) -> bool:
        return self.caller is not self.effective

    @property
    def owner(self) -> str:
        """Who may have staged or dropped a table; empty where the caller acts on another's rights."""
        return "" if self.delegated else self.caller.name


class TableId(msgspec.Struct, frozen=True, gc=False):
    """A table's full name. `namespace` holds its levels joined by U+001F, as on the wire."""

    catalog: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return ".".join((self.catalog, *self.namespace.split(NAMESPACE_SEPARATOR), self.name))


class VolumeId(msgspec.Struct, frozen=True, gc=False):
    """A volume's full name."""

    catalog: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}/{self.name}"


class NamedTable(msgspec.Struct, frozen=True, gc=False):
    """The target of a table-scoped route: the table that the path names."""

    namespace: str
    name: str


class ByLocation(msgspec.Struct, frozen=True, gc=False):
    """The target of a table-less route: whichever table owns the addressed keys."""


Target = NamedTable | ByLocation
BY_LOCATION = ByLocation()


class Authority(Protocol):
    """What stands behind an `Allow`: a rule of the policy, later an upstream catalog's answer."""

    @property
    def rule_id(self) -> str: ...


class Allow(msgspec.Struct, frozen=True, gc=False):
    """The request may be served; `table` is the table it was judged for, if it was judged for one."""

    table: TableId | None
    authority: Authority
    write_once: bool = False
    """`overwrite: forbid`: the way must guard the write with a signed `If-None-Match: *`."""
    unsafe_storage: bool = False
    """The operator accepted by name that the store does not check unsigned headers."""
    volume: VolumeId | None = None
    """The volume it was judged for, where that is no table. What concerns a bucket alone is judged for neither."""


class Deny(msgspec.Struct, frozen=True, gc=False):
    """The request is refused; `detail` is for the operator alone."""

    reason: Reason
    detail: str = ""
    table: TableId | None = None
    volume: VolumeId | None = None


class SessionScope(msgspec.Struct, frozen=True, gc=False):
    """What a credential may be used for, so that a provider can narrow it."""

    storage: str
    bucket: str
    table: TableId | None = None
