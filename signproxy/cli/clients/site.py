"""Find out from settings and policy what a client must be told of a catalog or the S3 listener, or what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from signproxy.catalog.signer_grant import mount_of
from signproxy.cli.clients.connection import Mode, Site
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.config.addresses import WILDCARDS
from signproxy.config.s3 import S3Identity
from signproxy.config.settings import Settings
from signproxy.documents import path_of
from signproxy.errors import Finding, Invalid, nearest
from signproxy.policy.catalog import Catalog, CatalogKind
from signproxy.policy.state import PolicyState
from signproxy.s3.storage import Storage, StorageKind, Style


def site_of(
    settings: Settings, state: PolicyState, mode: Mode, catalog: str | None = None, storage: str | None = None
) -> Site:
    """Return what a client is told; without names, of the default catalog and its only storage. Raise Invalid."""
    found = _catalog(state, catalog)
    _must_sign(state, found)
    if mode is Mode.FACADE and found.name not in settings.upstreams:
        problem = "this key is missing: nothing is behind the facade; name the catalog's URI here, or use --mode direct"
        raise _lacking("settings", path_of("upstreams", found.name), problem)
    store = _storage(found, storage)
    endpoint = None if store.kind is StorageKind.AWS else store.endpoints[0]
    return Site(
        catalog=found.name,
        public_url=_public_url(settings),
        region=store.region,
        s3_endpoint="" if endpoint is None else f"{endpoint.scheme}://{endpoint.authority}",
        path_style=endpoint is not None and Style.PATH in endpoint.styles,
    )


def s3_site_of(
    client: Transparent, settings: Settings, state: PolicyState, catalog: str | None = None, storage: str | None = None
) -> S3Site:
    """Return what a client of the S3 listener is told; without names, as `site_of` does. Raise Invalid."""
    s3, title = settings.s3, client.known.title
    unsigned = f"is off; {title} cannot have its requests signed ({client.known.why}), and is served there alone"
    without_keys = f"lacks `emulated`; {title} signs by itself, with keys that signproxy has to issue"
    portless = "this key is missing; without a port that is known before, clients cannot be told where to go"
    _refuse_first(
        "settings",
        (not s3.enabled, "s3.enabled", unsigned),
        (S3Identity.EMULATED not in s3.identities, "s3.identities", without_keys),
        (not s3.public_url and (not s3.tcp or s3.port == 0), "s3.public_url", portless),
        (
            not s3.public_url and s3.host in WILDCARDS,
            "s3.public_url",
            f"this key is missing; clients cannot be sent to {s3.host}",
        ),
    )
    site = site_of(settings, state, Mode.FACADE if client.known.needs_catalog else Mode.DIRECT, catalog, storage)
    behind = site.catalog in settings.upstreams
    store = _storage(state.catalogs[site.catalog], storage)
    return S3Site(
        catalog=site.catalog,
        s3_url=s3.advertised_url,
        public_url=site.public_url,
        region=site.region,
        catalog_uri=mount_of(site.public_url, site.catalog).rstrip("/") if behind else "",
        bucket=next(iter(sorted(store.buckets)), "…"),
        key_seconds=s3.keys.max_seconds,
    )


def _catalog(state: PolicyState, name: str | None) -> Catalog:
    asked = state.default_catalog if name is None else name
    catalog = state.catalogs.get(asked) or state.catalog_of_prefix(asked)
    if catalog is None:
        problem = f"the policy has no catalog {asked!r}" if asked else "is needed: the policy has no default catalog"
        raise _lacking("command line", "--catalog", problem + _hint(asked, state.catalogs))
    return catalog


def _must_sign(state: PolicyState, catalog: Catalog) -> None:
    """Refuse what each of the client's sign requests would be refused for."""
    of_catalog = path_of("catalogs", catalog.name)
    of_system = "remote signing is off for the whole system; the policy must say `remote_signing: true`"
    here = "remote signing is off for this catalog; the policy must say `remote_signing: true` there"
    external = "external catalogs do not sign; the policy must say `allow_external: true` there"
    is_external = catalog.kind is CatalogKind.EXTERNAL and not catalog.allow_external
    _refuse_first(
        "policy",
        (not state.remote_signing, "remote_signing", of_system),
        (not catalog.remote_signing, f"{of_catalog}.remote_signing", here),
        (is_external, f"{of_catalog}.kind", external),
    )


def _storage(catalog: Catalog, name: str | None) -> Storage:
    storages = catalog.storages
    if name is None and len(storages) == 1:
        return next(iter(storages.values()))
    storage = storages.get(name or "")
    if storage is None:
        problem = f"catalog {catalog.name!r} has no storage {name!r}"
        if name is None:
            problem = f"is needed: catalog {catalog.name!r} has {len(storages)} storages, and a client is told of one"
        raise _lacking("command line", "--storage", problem + _hint(name or "", storages))
    return storage


def _public_url(settings: Settings) -> str:
    if not settings.public_url and settings.listen.port == 0:
        problem = "this key is missing; listen.port 0 is another port at each start"
        raise _lacking("settings", "public_url", problem)
    return settings.advertised_url


def _hint(name: str, known: Iterable[str]) -> str:
    return nearest(name, known) or f"; known: {', '.join(known) or 'none'}"


def _refuse_first(source: str, *cases: tuple[bool, str, str]) -> None:
    """Raise Invalid for the first case that is so, with its path and its problem."""
    for holds, path, problem in cases:
        if holds:
            raise _lacking(source, path, problem)


def _lacking(source: str, path: str, problem: str) -> Invalid:
    return Invalid([Finding(source, path, problem)])
