"""Load a table from its upstream because a sign request needs it, with the caller's token."""

from __future__ import annotations

from typing import NamedTuple

from signproxy.catalog.call import table_path
from signproxy.catalog.table_answer import read_table
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstream_spec import ServiceToken
from signproxy.catalog.upstreams import Upstreams
from signproxy.errors import Reason, Refused
from signproxy.inventory.learned.sighting import Loaded
from signproxy.inventory.learned.vouchers import AsksAs
from signproxy.model import Subject

_NOT_FOR_CALLER = frozenset({403, 404})
"""The upstream need not say which of the two it is, and signproxy does not tell the caller."""

_REQUEST_ID = "signproxy-load"


class UpstreamLoader(NamedTuple):
    """Asks upstreams for tables; an `inventory.learned.TableLoader`."""

    upstreams: Upstreams

    def asks_as(self, catalog: str) -> AsksAs:
        """Return as whom the upstream of a catalog is asked."""
        bound = self.upstreams.of(catalog)
        service = bound is not None and isinstance(bound.upstream.spec.forwarding, ServiceToken)
        return AsksAs.SERVICE if service else AsksAs.CALLER

    async def load(self, catalog: str, namespace: str, name: str, subject: Subject, bearer: str) -> Loaded | None:
        """Return what the upstream says of a table; None where there is none for this caller. Raise Refused."""
        bound = self.upstreams.of(catalog)
        if bound is None:
            raise Refused(Reason.UPSTREAM_UNAVAILABLE, f"catalog {catalog!r} has no upstream")
        # Without old snapshots: locations are all that is wanted. A name such as `..` would lead elsewhere.
        path, query = table_path(namespace, name), "snapshots=refs"
        async with await bound.look_up(path, query, bearer, subject.caller.expires_at, _REQUEST_ID) as answer:
            if answer.status == 200:
                table = read_table(await answer.whole(), namespace, name)
                return Loaded(table.facts, table.restricted)
            if answer.status in _NOT_FOR_CALLER:
                return None
            raise Refused(reason_of_status(answer.status), f"table {name!r}: status {answer.status} of the upstream")
