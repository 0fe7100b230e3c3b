"""Answer requests for keys: `GET …/tables/{table}/credentials`, by which Iceberg clients also refresh those they have.

Each request is judged anew, so a caller that lost its privileges gets no further keys.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.answers.api_way import ApiWay
from signproxy.answers.reply import NO_STORE, Reply, answer
from signproxy.catalog.call import CatalogCall
from signproxy.catalog.carried import APPLICATION_HEADER, QUERY_HEADER, word
from signproxy.catalog.names import decoded, name_problem, namespace_problem
from signproxy.catalog.storage_credential import CredentialsAnswer
from signproxy.errors import Reason, Refused
from signproxy.gate.calls import known_catalog
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement, OpenQuestion
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor
from signproxy.gate.vendable import Vendable
from signproxy.gate.work import Account
from signproxy.identity.authenticator import Authenticator
from signproxy.model import NAMESPACE_SEPARATOR, NamedTable, Subject
from signproxy.vending.scope import KnownPlaces
from signproxy.vending.vending import Vending, check_renewable, check_unchanged

_QUERY = re.compile(r"[!\"$-~]{0,16384}")
_PLAN = "planId"
_VIEWS = "referenced-by"
MAX_PLAN = 1024
MAX_VIEWS = 64


class VendRooms(NamedTuple):
    """What hands out keys, for one generation of settings."""

    gate: Gate
    authenticator: Authenticator
    vending: Vending
    for_upstream: bool
    """Whether a key holds its caller's own token, for an upstream."""
    known: KnownPlaces
    """The places of the tables that upstreams told of."""


class VendWay(ApiWay):
    """A request for the keys of a table."""

    call: CatalogCall
    _vendable: Vendable

    rooms: VendRooms

    def ask(self, subject: Subject | None) -> AskedFor:
        """Return which table keys are asked for. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self.lease.take(self.limits.waiting)
        headers, call = self.message.headers, self.call
        self.asked = AskedFor(
            self.address,
            NamedTable(call.namespace, call.name),
            bearer=self.bearer,
            application=word(headers.get(APPLICATION_HEADER)),
            query_id=word(headers.get(QUERY_HEADER)),
        )
        catalog = known_catalog(self.policy_of(self.rooms.gate), subject, self.address)
        self.asked = replace(self.asked, catalog=catalog.name)
        check_query(self.message.query)
        return self.asked

    def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement | OpenQuestion:
        """Say whether the caller may have keys, and what they may do. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        gate = self.rooms.gate
        self.policy_of(gate)
        found = gate.vend.judge(subject, asked)
        judgement = self.admitted(subject, asked, asked.catalog)
        if not isinstance(found, Vendable):
            return OpenQuestion(judgement, found)
        self._vendable = found
        return replace(judgement, allow=found.keys.allow, table_uuid=found.table.uuid)

    async def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Hand out the keys. Raise Refused."""
        subject, request = judgement.subject, self.request
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        vended = await self.rooms.vending.vend(
            self._vendable,
            Account(self.limits, subject.caller.name),
            subject.caller,
            self.bearer,
            request.event_id,
            time.time(),
        )
        gate = self.rooms.gate
        check_unchanged(gate, self._vendable, lambda: gate.vend.judge(subject, judgement.asked))
        check_renewable(vended, subject)
        outcome.vended = vended.handed
        reply = answer(CredentialsAnswer((vended.credential,)), request.request_id, NO_STORE)
        reply.known = True
        return self.finish(reply)


def check_query(query: str) -> None:
    """Refuse a query that is not the specification's. Raise Refused (ROUTE_MALFORMED).

    The id of a plan and the views that a table is read through change nothing: keys open what their caller may open
    without them.
    """
    if not _QUERY.fullmatch(query) or ";" in query:
        raise _malformed("is too long, or holds what no encoded query does")
    seen: set[str] = set()
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in (_PLAN, _VIEWS):
            continue
        if name in seen:
            raise _malformed(f"names {name!r} twice")
        seen.add(name)
        if name == _VIEWS:
            _check_views(value)
        elif not value or len(value) > MAX_PLAN:
            raise _malformed("names a plan that is none")


def _check_views(value: str) -> None:
    """Refuse what is no list of views: a comma between two of them, levels and name of each joined as in a path."""
    views = value.split(",")
    if len(views) > MAX_VIEWS:
        raise _malformed(f"names more than {MAX_VIEWS} views")
    for raw in views:
        namespace, separator, name = decoded(raw).rpartition(NAMESPACE_SEPARATOR)
        if not separator or namespace_problem(namespace) or name_problem(name):
            raise _malformed(f"names {raw!r}, which is no view")


def _malformed(problem: str) -> Refused:
    return Refused(Reason.ROUTE_MALFORMED, f"the query {problem}")
