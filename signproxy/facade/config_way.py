"""Answer what a client configures itself by: of its catalog's upstream, or of signproxy alone."""

from __future__ import annotations

import time
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.answers.api_way import ApiWay
from signproxy.answers.reply import JSON, Reply, answer, lines_of
from signproxy.audit.event import Kind
from signproxy.catalog.access_delegation import modes_offered
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.config_answer import client_config, config_answer
from signproxy.catalog.signer_grant import DELEGATION_HEADER
from signproxy.catalog.travel import question_headers
from signproxy.catalog.upstream import Question
from signproxy.catalog.upstream_paths import MAX_CONFIG
from signproxy.catalog.upstream_spec import Effect
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.facade.asking import AdmittedCall
from signproxy.facade.facade import Facade
from signproxy.facade.grants import signs
from signproxy.gate.calls import known_catalog
from signproxy.gate.gate import Gate
from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.identity.authenticator import Authenticator
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog, Delegation
from signproxy.s3.query import parse_query

_SIGNS = (Delegation.REMOTE_SIGNING,)

_CONFIG = CatalogCall(kind=CallKind.CONFIG, path="config")


class ConfigRooms(NamedTuple):
    """What tells clients how to configure themselves, for one generation of settings."""

    gate: Gate
    authenticator: Authenticator
    facade: Facade | None
    public_url: str
    listener: str
    """The URL of the S3 listener, for clients that sign by themselves; empty where they cannot be told one."""

    @property
    def for_upstream(self) -> bool:
        """Whether the caller's own token may be shown to an upstream."""
        return self.facade is not None


class ConfigWay(ApiWay):
    """`GET /v1/config`."""

    _catalog: Catalog
    _bound: Bound | None = None

    rooms: ConfigRooms
    _warehouse = ""

    def ask(self, subject: Subject | None) -> AskedFor:
        """Return which catalog is asked for. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self.lease.take(self.limits.waiting)
        warehouse = parse_query(self.message.query).get("warehouse") if self.message.query else None
        self.address = address = CatalogAddress(self.address.name, warehouse)
        facade = self.rooms.facade
        if facade is not None:
            address, self._warehouse = _warehouse(facade, address)
            self.asked = AskedFor(address, bearer=self.bearer)
            catalog, self._bound = facade.bound(self.policy_of(facade.gate), subject, address)
            if self._bound is not None:
                self.asked = replace(self.asked, catalog=catalog.name)
                call = _CONFIG.kind.word
                self.request = replace(self.request, kind=Kind.CATALOG, method=self.parsed.method, call=call)
                return self.asked
        self.asked = AskedFor(self.address, bearer=self.bearer)
        return self.asked

    def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement:
        """Say whether the caller may know of the catalog. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        self._catalog = known_catalog(self.policy_of(self.rooms.gate), subject, asked.address)
        return self.admitted(subject, asked, self._catalog.name)

    async def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Answer with the configuration. Raise Refused."""
        facade, bound, rooms, catalog = self.rooms.facade, self._bound, self.rooms, self._catalog
        delegation = self.message.headers.get(DELEGATION_HEADER, "")
        state, subject = rooms.gate.state, judgement.subject
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        signing = signs(state, catalog)
        if facade is not None and bound is not None:
            reply = await self._of_upstream(facade, bound, judgement, outcome, delegation)
            reply.known = True
            return self.finish(reply)
        config = client_config(
            catalog,
            rooms.public_url,
            signing=signing,
            delegation=delegation,
            listener=rooms.listener,
            offered=state.delegation_of(subject.caller, catalog),
        )
        return self.finish(answer(config, self.request.request_id))

    async def _of_upstream(
        self, facade: Facade, bound: Bound, judgement: Judgement, outcome: Outcome, delegation: str
    ) -> Reply:
        subject, catalog, warehouse = judgement.subject, self._catalog, self._warehouse
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        authorization = await bound.upstream.authorization(self.bearer, subject.caller.expires_at)
        sent, more = self.message.headers.items(), bound.upstream.spec.headers
        headers = question_headers(sent, more, self.request.request_id, authorization)
        target = bound.paths.config_target_of(warehouse) if warehouse else bound.paths.config_target
        question = Question("GET", target, headers, within=bound.upstream.spec.times.answer)
        async with await bound.upstream.ask(question) as answered:
            if answered.status >= 400:
                asking = AdmittedCall(catalog, bound, subject, self.bearer, self.request, _CONFIG, None, Effect.NONE)
                return await facade.answers.of(asking, answered, time.monotonic(), outcome)
            if answered.status != 200:
                raise answered.invalid(f"status {answered.status} to a request for the configuration")
            content = await answered.whole(MAX_CONFIG)
            if not warehouse:
                bound.paths.note(content)
            elif not await bound.paths.leads_here(content, authorization, self.request.request_id):
                detail = f"warehouse {warehouse!r} of the upstream is another one than that of {catalog.name!r}"
                raise Refused(Reason.CATALOG_UNKNOWN, detail)
            state = facade.gate.state
            signing, offered = signs(state, catalog), state.delegation_of(subject.caller, catalog)
            modes = modes_offered(offered, bound.upstream.spec.offer, delegation) if signing and offered else ()
            own = client_config(
                catalog,
                facade.granting.public_url,
                signing=signing,
                delegation=delegation,
                listener="" if modes[:1] == _SIGNS else facade.granting.listener_for(state, catalog),
                offered=offered,
            )
            content = config_answer(content, own)
        return Reply(200, f"{JSON}{lines_of((), self.request.request_id)}", content)


def _warehouse(facade: Facade, address: CatalogAddress) -> tuple[CatalogAddress, str]:
    """Return the catalog that is asked for, and a warehouse that it does not answer to: the upstream may know it.

    Only where the path fixes the catalog. The upstream's own warehouse is the catalog's: clients keep the one that
    they had without signproxy.
    """
    name, warehouse = address.name, address.prefix
    bound = None if name is None else facade.upstreams.of(name)
    if name is None or bound is None or not warehouse:
        return address, ""
    known = facade.gate.state.catalog_of_prefix(warehouse)
    if known is not None and known.name == name:
        return address, ""
    return CatalogAddress(name), "" if warehouse == bound.upstream.spec.warehouse else warehouse
