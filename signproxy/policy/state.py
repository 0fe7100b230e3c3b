"""Hold the whole policy as one value that a request reads once: revision, switches, catalogs, principals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from signproxy.model import Principal
from signproxy.policy.buckets import Buckets
from signproxy.policy.catalog import Catalog
from signproxy.policy.rights import Rights

MAX_RIGHTS = 16_384
"""Principals whose rights are remembered: some 300 bytes each, more than ever are active at once."""

_RightsKey = tuple[str, str, str, tuple[str, ...]]


class PolicyState:
    """An immutable policy. What it remembers besides is derived from it alone and dies with it."""

    __slots__ = (
        "__weakref__",
        "_buckets",
        "_prefixes",
        "_remembered",
        "catalogs",
        "default_catalog",
        "epoch",
        "loaded_at",
        "observed",
        "principal_roles",
        "principals",
        "remote_signing",
        "rev",
        "single_issuer",
    )

    def __init__(  # noqa: PLR0913  (a value; its parts are given by name)
        self,
        *,
        rev: str,
        epoch: int,
        catalogs: Iterable[Catalog],
        remote_signing: bool = False,
        default_catalog: str = "",
        principals: Mapping[str, tuple[str, ...]] | None = None,
        principal_roles: Mapping[str, Mapping[str, frozenset[int]]] | None = None,
        single_issuer: bool = False,
        observed: frozenset[str] = frozenset(),
        loaded_at: float = 0.0,
    ) -> None:
        self.rev = rev
        self.epoch = epoch
        self.remote_signing = remote_signing
        self.default_catalog = default_catalog
        self.catalogs: dict[str, Catalog] = {catalog.name: catalog for catalog in catalogs}
        self.principals: Mapping[str, tuple[str, ...]] = {} if principals is None else principals
        """Principal (`issuer/claim`, or the bare claim) -> its principal roles."""
        self.principal_roles: Mapping[str, Mapping[str, frozenset[int]]] = (
            {} if principal_roles is None else principal_roles
        )
        """Principal role -> catalog -> the catalog roles that it stands for."""
        self.single_issuer = single_issuer
        self.observed = observed
        """The principals with `mode: observe`, named as in `principals`."""
        self.loaded_at = loaded_at
        """Unix time."""
        self._buckets: Buckets | None = None
        self._prefixes = {prefix: catalog for catalog in self.catalogs.values() for prefix in catalog.prefixes}
        self._remembered: dict[_RightsKey, Rights] = {}

    def catalog_of_prefix(self, prefix: str) -> Catalog | None:
        """Return the catalog that answers to a prefix."""
        return self._prefixes.get(prefix)

    @property
    def buckets(self) -> Buckets:
        """Every bucket that something may be forwarded to."""
        if self._buckets is None:
            self._buckets = Buckets(self.catalogs.values())
        return self._buckets

    def observes(self, principal: Principal) -> bool:
        """Whether what the policy refuses to a principal is served all the same, and only recorded."""
        return bool(self.observed) and self._name_of(principal) in self.observed

    def rights(self, principal: Principal, catalog: Catalog) -> Rights | None:
        """Return a principal's rights in a catalog; None where neither the policy nor a role knows it."""
        key = (principal.name, principal.issuer, catalog.name, principal.roles)
        rights = self._remembered.get(key)
        if rights is None:
            rights = self._rights(principal, catalog)
            if rights is not None:
                if len(self._remembered) >= MAX_RIGHTS:
                    # Starting over costs a microsecond per principal; an order of use would cost each request.
                    self._remembered.clear()
                self._remembered[key] = rights
        return rights

    def principal_roles_of(self, principal: Principal) -> tuple[str, ...] | None:
        """Return the principal roles of the policy's entry and of the token; None where there is neither.

        A role that the policy does not know stands for nothing, so it does not make its bearer known.
        """
        declared = self._declared(principal)
        brought = tuple(role for role in principal.roles if role in self.principal_roles)
        if declared is None:
            return brought or None
        return declared + tuple(role for role in brought if role not in declared)

    def _declared(self, principal: Principal) -> tuple[str, ...] | None:
        """Return the roles of the policy's entry for a principal, `issuer/claim` before the bare claim."""
        return self.principals.get(self._name_of(principal))

    def _name_of(self, principal: Principal) -> str:
        """Return the name that the policy has for a principal: the full one, unless only its claim is declared."""
        name = principal.name
        if name in self.principals or not self.single_issuer:
            return name
        claim = name.removeprefix(f"{principal.issuer}/")
        # A claim that holds a slash could pose as `issuer/claim` of an issuer that is gone.
        return name if "/" in claim else claim

    def _rights(self, principal: Principal, catalog: Catalog) -> Rights | None:
        names = self.principal_roles_of(principal)
        if names is None:
            return None
        roles: frozenset[int] = frozenset()
        for name in names:
            roles |= self.principal_roles.get(name, {}).get(catalog.name, frozenset())
        mask = 0
        for role in roles:
            mask |= catalog.grants.get(role, 0)
        return Rights(roles, mask)
