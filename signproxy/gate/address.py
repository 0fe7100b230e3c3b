"""Find the catalog that a route names, for a caller who may know of it."""

from __future__ import annotations

import msgspec

from signproxy.errors import Reason, Refused
from signproxy.gate.passage import Passage
from signproxy.model import Subject
from signproxy.policy.admission import refuse_stranger
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState


class CatalogAddress(msgspec.Struct, frozen=True, gc=False):
    """How a route names its catalog: by its mount, by a prefix, by both, or not at all."""

    name: str | None = None
    prefix: str | None = None


def known_catalog(passage: Passage, state: PolicyState, subject: Subject, address: CatalogAddress) -> Catalog:
    """Return the catalog if the subject may know of it; raise Refused."""
    passage.judged_by(state)
    catalog = _find(state, address)
    passage.catalog = catalog.name
    denial = refuse_stranger(state, catalog, subject)
    if denial is not None:
        raise Refused(denial.reason, denial.detail)
    return catalog


def _find(state: PolicyState, address: CatalogAddress) -> Catalog:
    if address.prefix is not None:
        catalog = state.catalog_of_prefix(address.prefix)
        if catalog is not None and address.name is not None and catalog.name != address.name:
            raise Refused(Reason.CATALOG_UNKNOWN, f"prefix {address.prefix!r} is not of catalog {address.name!r}")
    else:
        catalog = state.catalogs.get(state.default_catalog if address.name is None else address.name)
    if catalog is None:
        asked = address.prefix or address.name or state.default_catalog or "(no default catalog)"
        raise Refused(Reason.CATALOG_UNKNOWN, f"{asked!r}")
    return catalog
