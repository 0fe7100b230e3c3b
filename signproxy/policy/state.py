"""Hold the whole policy as one value that a request reads once: revision, switches, catalogs, buckets, principals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from signproxy.model import Principal
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.policy.rights import Rights
from signproxy.policy.volume import Volumes
from signproxy.s3.storage import Storage


class Reached(msgspec.Struct, frozen=True, gc=False):
    """A catalog in which a bucket has a meaning, and the storage that holds it there."""

    catalog: Catalog
    storage: Storage
    volumes: Volumes | None
    """The catalog's, where one of them lies in the bucket: of most buckets of tables none does."""


class Buckets:
    """Every bucket of every catalog. Built once for a policy, then only read."""

    def __init__(self, catalogs: Iterable[Catalog]) -> None:
        self._catalogs = tuple(catalogs)
        self._listed: dict[str, tuple[Reached, ...]] = {}
        for catalog in self._catalogs:
            for storage in catalog.storages.values():
                for bucket in storage.buckets:
                    volumes = catalog.volumes if any(catalog.volumes.in_bucket(bucket)) else None
                    self._listed[bucket] = (*self._listed.get(bucket, ()), Reached(catalog, storage, volumes))

    def of(self, bucket: str) -> tuple[Reached, ...]:
        """Return where a bucket is listed; where it is nowhere, the catalogs with a volume for buckets of its name."""
        listed = self._listed.get(bucket)
        if listed is not None:
            return listed
        reached = []
        for catalog in self._catalogs:
            volume = next(catalog.volumes.in_bucket(bucket), None)
            if volume is not None:
                reached.append(Reached(catalog, catalog.storages[volume.storage], catalog.volumes))
        return tuple(reached)

    def __len__(self) -> int:
        """Return how many buckets are listed."""
        return len(self._listed)

    def listed(self) -> Iterator[tuple[str, tuple[Reached, ...]]]:
        """Yield each bucket that a storage lists, and where."""
        yield from self._listed.items()


MAX_RIGHTS = 16_384
"""Principals whose rights are remembered: some 300 bytes each, more than ever are active at once."""

_RightsKey = tuple[str, str, str, tuple[str, ...]]


class PolicyState(msgspec.Struct, eq=False, weakref=True, kw_only=True):
    """An immutable policy. What it remembers besides is derived from it alone and dies with it."""

    rev: str
    epoch: int
    catalogs: dict[str, Catalog]
    remote_signing: bool = False
    default_catalog: str = ""
    principals: Mapping[str, tuple[str, ...]] = {}
    """Principal (`issuer/claim`, or the bare claim) -> its principal roles."""
    principal_roles: Mapping[str, Mapping[str, frozenset[int]]] = {}
    """Principal role -> catalog -> the catalog roles that it stands for."""
    delegations: Mapping[str, Mapping[str, tuple[Delegation, ...]]] = {}
    """Principal role -> catalog -> what its holders are offered, in place of what the catalog says."""
    single_issuer: bool = False
    observed: frozenset[str] = frozenset()
    """The principals with `mode: observe`, named as in `principals`."""
    loaded_at: float = 0.0
    """Unix time."""
    _buckets: Buckets | None = None
    _prefixes: dict[str, Catalog] = {}
    _remembered: dict[_RightsKey, Rights] = {}

    def __post_init__(self) -> None:
        self._prefixes = {prefix: catalog for catalog in self.catalogs.values() for prefix in catalog.prefixes}

    def __repr__(self) -> str:
        return f"PolicyState({self.rev!r})"

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

    def delegation_of(self, principal: Principal, catalog: Catalog) -> tuple[Delegation, ...]:
        """Return what a principal may be offered: all that its roles say, or what the catalog does where none says."""
        if not self.delegations:
            return catalog.delegation
        held = [self.delegations.get(role, {}) for role in self.principal_roles_of(principal) or ()]
        said = [each[catalog.name] for each in held if catalog.name in each]
        return tuple(dict.fromkeys([mode for modes in said for mode in modes])) if said else catalog.delegation

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
