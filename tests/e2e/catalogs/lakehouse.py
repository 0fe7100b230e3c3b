"""Put signproxy beside catalogs that know nothing of it, or before them, with users whom all of them believe."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signproxy.cli.clients import Client, Connection, Mode
from tests.e2e.catalogs.authority import IDP, Authority, run_authority
from tests.e2e.catalogs.seam import CatalogKind, RunningCatalog, Site
from tests.e2e.clients.rig import Rig, run_rig
from tests.e2e.server import STORAGE
from tests.e2e.stores import RunningStore
from tests.e2e.stores.direct import Owner

WRITER, ANALYST = "etl", "analyst"
"""The users: one may do everything, the other may read one table."""
PRINCIPALS = frozenset({f"{IDP}/{WRITER}", f"{IDP}/{ANALYST}"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a test needs of a catalog."""

    kind: CatalogKind
    namespaces: tuple[str, ...]
    tables: tuple[str, ...]
    """Those that are made in each namespace: without a facade, the policy has to know them."""
    readable: str = ""
    """The one of each namespace that the analyst may read."""
    once: bool = False
    """Whether the objects of its tables are written once."""
    authorizer: str = ""
    """Who decides what callers may do; the policy by default."""
    delegation: tuple[str, ...] = ()
    """What callers are offered; the default where it says nothing."""


@dataclass(frozen=True, slots=True)
class Lakehouse:
    """Catalogs, a signproxy that reads of their tables in its policy or in their answers, and the authority."""

    rig: Rig
    authority: Authority
    catalogs: Mapping[str, RunningCatalog]
    mode: Mode

    def connection(
        self,
        client: Client,
        catalog: str,
        version: str,
        *,
        name: str = "",
        token: str = "",
        origin: str = "",
        application: str = "",
        query_id: str = "",
    ) -> Connection:
        """Return how a client reaches a catalog, as `signproxy client-config` is told it."""
        running, direct = self.catalogs[catalog], self.mode is Mode.DIRECT
        return Connection(
            client=client,
            site=self.rig.site(catalog, origin=origin),
            mode=self.mode,
            version=version,
            name=name,
            token=token,
            catalog_uri=running.uri if direct else "",
            warehouse=running.warehouse if direct else "",
            application=application,
            query_id=query_id,
        )

    def way(self, catalog: str) -> str:
        """Return how the catalog is reached, as the matrix has it."""
        running = self.catalogs[catalog]
        how = "past the catalog" if self.mode is Mode.DIRECT else "through the facade"
        return f"{how}, {running.name} {running.version}"


@contextmanager
def run_lakehouse(
    directory: Path,
    store: RunningStore,
    bucket: str,
    mode: Mode,
    plans: Mapping[str, Plan],
    *,
    context: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    binding: Mapping[str, Any] | None = None,
) -> Iterator[Lakehouse]:
    """Run the catalogs and signproxy around a store until the block ends; `context` adds to that section of it.

    `binding` adds to what the settings say of the storage.
    """
    directory.mkdir(parents=True, exist_ok=True)
    facade = mode is Mode.FACADE
    with ExitStack() as stack:
        authority = stack.enter_context(run_authority())
        with closing(Owner(store)) as owner:
            owner.must("PUT", bucket)
        catalogs = {}
        for name, plan in plans.items():
            (directory / name).mkdir()
            # What a facade has to keep from its clients, a catalog without one must not say.
            site = Site(store, bucket, f"warehouse/{name}", authority, hands_out_keys=facade)
            catalogs[name] = stack.enter_context(plan.kind.run(directory / name, site))
            for namespace in plan.namespaces:
                made = {"namespace": [namespace], "properties": {}}
                catalogs[name].must("POST", "namespaces", authority.token(WRITER), made)
        issuers = {IDP: authority.issuer_settings(directory)}
        settings = {**(settings or {}), "identity": {"issuers": issuers}}
        if facade:
            sealed = directory / "context-secret"
            sealed.write_text(secrets.token_hex(32))
            settings["context"] = {"secret_files": [str(sealed)], **(context or {})}
            settings["upstreams"] = {
                name: {"uri": catalog.uri, "warehouse": catalog.warehouse} for name, catalog in catalogs.items()
            }
        policy = _policy(mode, plans, {name: catalog.site.warehouse for name, catalog in catalogs.items()})
        rig = stack.enter_context(run_rig(directory, store, bucket, policy, settings=settings, binding=binding))
        yield Lakehouse(rig, authority, catalogs, mode)


def _policy(mode: Mode, plans: Mapping[str, Plan], warehouses: Mapping[str, str]) -> dict[str, Any]:
    """Return a policy without its storages."""
    facade = mode is Mode.FACADE
    signing = ["TABLE_REMOTE_SIGN"]
    # Without a facade it is not known that a table was dropped, and Spark itself reads the metadata of what it purges.
    writing = ["CATALOG_MANAGE_CONTENT"] if facade else [*signing, "TABLE_WRITE_DATA", "TABLE_FULL_METADATA"]
    return {
        "default_catalog": next(iter(plans)),
        "catalogs": {
            name: {
                "storages": [STORAGE],
                "remote_signing": True,
                "roots": [warehouses[name]],
                **({"overwrite": "forbid"} if plan.once else {}),
                **({"tables": "upstream"} if facade else {}),
                **({"authorizer": plan.authorizer} if plan.authorizer else {}),
                **({"delegation": list(plan.delegation)} if plan.delegation else {}),
            }
            for name, plan in plans.items()
        },
        "catalog_roles": {name: ["writer", "reader"] for name in plans},
        "principal_roles": {
            "writers": {name: ["writer"] for name in plans},
            "readers": {name: ["reader"] for name in plans},
        },
        "principals": {f"{IDP}/{WRITER}": {"roles": ["writers"]}, f"{IDP}/{ANALYST}": {"roles": ["readers"]}},
        "tables": [
            {
                "catalog": name,
                "namespace": namespace,
                "name": table,
                "location": f"{warehouses[name]}/{namespace}/{table}",
            }
            for name, plan in plans.items()
            if not facade
            for namespace in plan.namespaces
            for table in plan.tables
        ],
        "grants": [
            *({"catalog": name, "role": "writer", "privileges": writing} for name in plans),
            *(
                {
                    "catalog": name,
                    "role": "reader",
                    "namespace": namespace,
                    "table": plan.readable,
                    "privileges": [*signing, "TABLE_READ_DATA"],
                }
                for name, plan in plans.items()
                if plan.readable
                for namespace in plan.namespaces
            ),
        ],
    }
