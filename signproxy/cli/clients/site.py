"""Find out from settings and policy what a client must be told of a catalog, or why it would not be served."""

from __future__ import annotations

from collections.abc import Iterable

from signproxy.cli.clients.connection import Mode, Site
from signproxy.config.settings import Settings
from signproxy.documents import path_of
from signproxy.errors import Finding, Invalid, nearest
from signproxy.policy.catalog import Catalog, CatalogKind
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage, StorageKind, Style

_COMMAND_LINE = "command line"


def site_of(
    settings: Settings, state: PolicyState, mode: Mode, catalog: str | None = None, storage: str | None = None
) -> Site:
    """Return what a client is told; without names, of the default catalog and its only storage. Raise Invalid."""
    found = _catalog(state, catalog)
    _must_sign(state, found)
    if mode is Mode.FACADE and found.name not in settings.upstreams:
        problem = "this key is missing: nothing is behind the facade; name the catalog's URI here, or use --mode direct"
        raise Invalid([Finding("settings", path_of("upstreams", found.name), problem)])
    store = _storage(found, storage)
    endpoint = None if store.kind is StorageKind.AWS else store.endpoints[0]
    return Site(
        catalog=found.name,
        public_url=_public_url(settings),
        region=store.region,
        s3_endpoint="" if endpoint is None else f"{endpoint.scheme}://{endpoint.authority}",
        path_style=endpoint is not None and Style.PATH in endpoint.styles,
    )


def _catalog(state: PolicyState, name: str | None) -> Catalog:
    asked = state.default_catalog if name is None else name
    catalog = state.catalogs.get(asked) or state.catalog_of_prefix(asked)
    if catalog is None:
        problem = f"the policy has no catalog {asked!r}" if asked else "is needed: the policy has no default catalog"
        raise Invalid([Finding(_COMMAND_LINE, "--catalog", problem + _hint(asked, state.catalogs))])
    return catalog


def _must_sign(state: PolicyState, catalog: Catalog) -> None:
    """Refuse what each of the client's sign requests would be refused for."""
    of_catalog = path_of("catalogs", catalog.name)
    if not state.remote_signing:
        problem = "remote signing is off for the whole system; the policy must say `remote_signing: true`"
        raise Invalid([Finding("policy", "remote_signing", problem)])
    if not catalog.remote_signing:
        problem = "remote signing is off for this catalog; the policy must say `remote_signing: true` there"
        raise Invalid([Finding("policy", f"{of_catalog}.remote_signing", problem)])
    if catalog.kind is CatalogKind.EXTERNAL and not catalog.allow_external:
        problem = "external catalogs do not sign; the policy must say `allow_external: true` there"
        raise Invalid([Finding("policy", f"{of_catalog}.kind", problem)])


def _storage(catalog: Catalog, name: str | None) -> Storage:
    storages = catalog.storages
    if name is None and len(storages) == 1:
        return next(iter(storages.values()))
    storage = storages.get(name or "")
    if storage is None:
        problem = f"catalog {catalog.name!r} has no storage {name!r}"
        if name is None:
            problem = f"is needed: catalog {catalog.name!r} has {len(storages)} storages, and a client is told of one"
        raise Invalid([Finding(_COMMAND_LINE, "--storage", problem + _hint(name or "", storages))])
    return storage


def _public_url(settings: Settings) -> str:
    if not settings.public_url and settings.listen.port == 0:
        problem = "this key is missing; listen.port 0 is another port at each start"
        raise Invalid([Finding("settings", "public_url", problem)])
    return settings.advertised_url


def _hint(name: str, known: Iterable[str]) -> str:
    return nearest(name, known) or f"; known: {', '.join(known) or 'none'}"
