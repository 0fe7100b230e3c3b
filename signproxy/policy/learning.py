"""Say what a policy leaves to an upstream catalog, and what it says of the tables that are learned from there."""

from __future__ import annotations

from enum import Enum

import msgspec

from signproxy.model import TableId
from signproxy.policy.location import Location
from signproxy.policy.places import PlaceTree
from signproxy.policy.table import Grants, MetadataLevel, Namespace, Overwrite, Place


class TablesFrom(Enum):
    """Where a catalog's tables are known from."""

    DECLARED = "declared"
    UPSTREAM = "upstream"


class Authorizer(Enum):
    """Whose word a caller's rights are."""

    POLICY = "policy"
    CATALOG = "catalog"
    BOTH = "both"


class Listing(msgspec.Struct, frozen=True, gc=False):
    """What the policy says of a table whose location the upstream tells."""

    id: TableId
    metadata: MetadataLevel
    overwrite: Overwrite
    places: tuple[Place, ...]
    """Its own, wherever the upstream says that it lies, and no other table's."""
    uuid: str
    """Where it is given, the listing is of this table alone, and of no other of its name."""


class Learning(msgspec.Struct, frozen=True, gc=False):
    """Everything that a catalog with `tables: upstream` has besides. Built whole, then only read."""

    authorizer: Authorizer
    roots: tuple[Location, ...]
    """A table's locations lie below one of them."""
    caller_locations: tuple[Location, ...]
    """Places below which callers may choose where their tables and namespaces lie."""
    metadata: MetadataLevel
    overwrite: Overwrite
    nowhere: Namespace
    """Stands for a namespace that neither it nor one above was granted anything on."""
    listings: dict[str, Listing]
    """By the key of the table."""
    grants: dict[str, Grants]
    """Key of a table that is not declared -> what was granted on it and on its namespaces, merged.

    They are made with the policy and live as long, as the rights of a principal expect of grants.
    """
    reserved: PlaceTree[Listing]
    """The places of the listings."""
