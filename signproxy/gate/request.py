"""Name what came: a request as it arrived, and what it asks for in its caller's own words. None of it is believed."""

from __future__ import annotations

import re
from time import perf_counter_ns, time

import msgspec

from signproxy.audit.event import Kind
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.asked import SealedContext
from signproxy.model import NamedTable, Target
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.request import WireRequest


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request as it arrived, whatever becomes of it."""

    kind: Kind
    event_id: str
    request_id: str
    remote_ip: str
    user_agent: str
    # No reference to the policy itself: a transfer may last for hours, and would keep all its tables.
    policy_rev: str
    """Of the policy at arrival: the event of a request that is never judged names it."""
    policy_epoch: int
    wall: float
    started_ns: int
    method: str = ""
    call: str = ""
    """The kind of a catalog call; an S3 request has its operation."""


_REQUEST_ID = re.compile(r"[A-Za-z0-9._\-]{1,128}")


def read_request_id(given: str | None, own: str) -> str:
    """Return the caller's request id if it is fit to be echoed and logged, else our own."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return own


def arrived(  # noqa: PLR0913, PLR0917 - a request has this many parts, and names would cost each of them
    kind: Kind,
    event_id: str,
    in_force: PolicyState,
    request_id: str | None = None,
    remote_ip: str = "",
    user_agent: str = "",
    method: str = "",
    call: str = "",
) -> Request:
    """Return a request that arrives now; `request_id` is the one that its client gives it."""
    return Request(
        kind,
        event_id,
        event_id if request_id is None else read_request_id(request_id, event_id),
        remote_ip,
        user_agent,
        in_force.rev,
        in_force.epoch,
        time(),
        perf_counter_ns(),
        method,
        call,
    )


class CatalogAddress(msgspec.Struct, frozen=True, gc=False):
    """How a route names its catalog: by its mount, by a prefix, by both, or not at all."""

    name: str | None = None
    prefix: str | None = None


class AskedFor(msgspec.Struct, frozen=True, gc=False):
    """What a request asks for, as far as it says so itself."""

    address: CatalogAddress = CatalogAddress()
    target: Target | NamedTable | None = None
    """The table that the route names; of a catalog call also a namespace, or a view."""
    wire: WireRequest | None = None
    """The S3 request that is to be signed."""
    forward: ForwardWire | None = None
    """The S3 request that is to be forwarded."""
    bearer: str = ""
    """The caller's own token, where an upstream may have to be asked; never recorded."""
    application: str = ""
    """The client's own word, as `query_id` is; only recorded."""
    query_id: str = ""
    carried: SealedContext | None = None
    catalog: str = ""
    """The catalog of the address, where its name is known before anything is judged."""


NOTHING_ASKED = AskedFor()


def find_catalog(state: PolicyState, address: CatalogAddress) -> Catalog:
    """Return the catalog, whichever caller asks. Raise Refused."""
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
