"""Find out from settings and policy what a client of the S3 listener must be told, or why it would not be served."""

from __future__ import annotations

from signproxy.catalog.signer_grant import mount_of
from signproxy.cli.clients.connection import Mode
from signproxy.cli.clients.site import site_of
from signproxy.cli.clients.transparent import S3Site, Transparent
from signproxy.config.s3 import WILDCARDS, S3Identity
from signproxy.config.settings import Settings
from signproxy.errors import Finding, Invalid
from signproxy.policy.state import PolicyState


def s3_site_of(
    client: Transparent,
    settings: Settings,
    state: PolicyState,
    catalog: str | None = None,
    storage: str | None = None,
) -> S3Site:
    """Return what the client is told; without names, of the default catalog and its only storage. Raise Invalid."""
    s3 = settings.s3
    if not s3.enabled:
        problem = f"is off; {client.title} cannot have its requests signed ({client.why}), and is served there alone"
        raise Invalid([Finding("settings", "s3.enabled", problem)])
    if S3Identity.EMULATED not in s3.identities:
        problem = f"lacks `emulated`; {client.title} signs by itself, with keys that signproxy has to issue"
        raise Invalid([Finding("settings", "s3.identities", problem)])
    if not s3.public_url and (not s3.tcp or s3.port == 0):
        problem = "this key is missing; without a port that is known before, clients cannot be told where to go"
        raise Invalid([Finding("settings", "s3.public_url", problem)])
    if not s3.public_url and s3.host in WILDCARDS:
        problem = f"this key is missing; clients cannot be sent to {s3.host}"
        raise Invalid([Finding("settings", "s3.public_url", problem)])
    site = site_of(settings, state, Mode.FACADE if client.needs_catalog else Mode.DIRECT, catalog, storage)
    behind = site.catalog in settings.upstreams
    storages = state.catalogs[site.catalog].storages
    store = storages[storage] if storage is not None else next(iter(storages.values()))
    return S3Site(
        catalog=site.catalog,
        s3_url=s3.advertised_url,
        public_url=site.public_url,
        region=site.region,
        catalog_uri=mount_of(site.public_url, site.catalog).rstrip("/") if behind else "",
        bucket=next(iter(sorted(store.buckets)), "…"),
        key_seconds=s3.keys.max_seconds,
    )
