"""Answer catalog calls from the upstream of their catalog, and change only what must be.

A call is admitted before anything is asked, and what its answer says of a table is taken in before the caller gets it,
so that the next sign request finds it.
"""

from __future__ import annotations

import asyncio
import re
import time

from aiohttp import web

from signproxy.answers.bodies import MAX_CALL, Arriving, read_whole
from signproxy.answers.reply import Reply
from signproxy.answers.wire import JSON, lines_of, refusal
from signproxy.audit.event import Kind
from signproxy.catalog.access import DELEGATION_HEADER, is_offered
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import (
    CallBody,
    Commit,
    Creation,
    NamespaceCreation,
    Pace,
    Renaming,
    Transaction,
    commas_in,
    read_body,
    reads_body,
)
from signproxy.catalog.carried import APPLICATION_HEADER, QUERY_HEADER, CarriedContext, word
from signproxy.catalog.chosen_locations import ChosenLocations, may_choose, read_chosen
from signproxy.catalog.client_config import client_config
from signproxy.catalog.config_answer import config_answer
from signproxy.catalog.etag import unmarked
from signproxy.catalog.needs import needs, needs_beforehand
from signproxy.catalog.travel import onward
from signproxy.catalog.upstream import Body, Question, Whole
from signproxy.catalog.upstream_paths import MAX_CONFIG
from signproxy.catalog.upstream_spec import Effect
from signproxy.catalog.upstreams import Bound, Upstreams
from signproxy.errors import Reason, Refused
from signproxy.facade.call_answers import Asking, CallAnswers
from signproxy.facade.call_scope import check_call
from signproxy.facade.grants import Granting, signs
from signproxy.facade.seen import Seen
from signproxy.facade.token_calls import answer_tokens
from signproxy.gate import work
from signproxy.gate.calls import CallPlace
from signproxy.gate.gate import CatalogAddress, Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.gate.turns import YieldTimer, in_pieces
from signproxy.identity.authenticator import Authenticator
from signproxy.model import NamedTable, Subject
from signproxy.policy.catalog import Catalog
from signproxy.telemetry.families import CounterFamily
from signproxy.telemetry.log import get_logger

_log = get_logger("signproxy.server")

_CHANGE_NOTHING = frozenset(
    {
        CallKind.LIST_NAMESPACES,
        CallKind.LOAD_NAMESPACE,
        CallKind.NAMESPACE_EXISTS,
        CallKind.LIST_TABLES,
        CallKind.LOAD_TABLE,
        CallKind.TABLE_EXISTS,
        CallKind.LIST_VIEWS,
        CallKind.LOAD_VIEW,
        CallKind.VIEW_EXISTS,
        # These may be made again, whatever became of the first.
        CallKind.REPORT_METRICS,
        CallKind.PLAN_TABLE,
        CallKind.FETCH_PLAN,
        CallKind.CANCEL_PLAN,
        CallKind.FETCH_TASKS,
    }
)
"""Once the answer to any other call is lost, its outcome is unknown."""

_COMMITS = frozenset({CallKind.UPDATE_TABLE, CallKind.COMMIT_TRANSACTION})

_NOT_SENT = frozenset({Reason.UPSTREAM_UNAVAILABLE, Reason.BODY_TIMEOUT, Reason.CLIENT_GONE})
_UNKNOWN_STATE = frozenset({Reason.UPSTREAM_TIMEOUT, Reason.UPSTREAM_INVALID})
_NO_CREDENTIALS = b'{"storage-credentials":[]}'

_QUERY = re.compile(r"[!\"$-~]{0,16384}")
"""Printable ASCII without `#`, behind which nothing would be sent."""


class Facade:
    """The catalogs that have an upstream, as their clients see them."""

    def __init__(
        self,
        *,
        gate: Gate,
        granting: Granting,
        authenticator: Authenticator,
        upstreams: Upstreams,
        seen: Seen,
        recorder: Recorder,
        calls: CounterFamily,
    ) -> None:
        self._gate = gate
        self._granting = granting
        self._authenticator = authenticator
        self._upstreams = upstreams
        self._seen = seen
        self._recorder = recorder
        self._answers = CallAnswers(gate, granting, seen, recorder)
        self._calls = calls

    def carried(self, context: str, subject: Subject, now: float) -> CarriedContext:
        """Return what a sign request brought back, to be opened once it is needed."""
        return self._granting.contexts.carried(context, subject.caller.name, now)

    def count(self, call: str, status: int) -> None:
        """Count a call that was answered."""
        self._calls.labels(call, f"{status // 100}xx").inc()

    async def config(
        self,
        passage: Passage,
        subject: Subject,
        address: CatalogAddress,
        request: web.BaseRequest,
    ) -> Reply | None:
        """Answer `GET /v1/config`, the warehouse being in the address; None, and no event, without an upstream."""
        address, warehouse = self._warehouse(address)
        found = self._bound(passage, subject, address)
        if found is None:
            return None
        catalog, bound = found
        passage.kind, passage.method, passage.call = Kind.CATALOG, request.method, _CONFIG.kind.name.lower()
        authorization = await bound.upstream.authorization(passage.bearer, subject.caller.expires_at)
        headers = self._headers(passage, request, bound, authorization)
        target = bound.paths.config_target_of(warehouse) if warehouse else bound.paths.config_target
        question = Question("GET", target, headers, within=bound.upstream.spec.times.answer)
        delegation = request.headers.get(DELEGATION_HEADER, "")
        async with await bound.upstream.ask(question) as answer:
            asking = Asking(passage, subject, passage.bearer, catalog, bound, _CONFIG, None, None, "", Effect.NONE)
            if answer.status >= 400:
                return await self._answers.of(asking, answer, time.monotonic())
            if answer.status != 200:
                raise answer.invalid(f"status {answer.status} to a request for the configuration")
            content = await answer.whole(MAX_CONFIG)
            if not warehouse:
                bound.paths.note(content)
            elif not await bound.paths.leads_here(content, authorization, passage.request_id):
                detail = f"warehouse {warehouse!r} of the upstream is another one than that of {catalog.name!r}"
                raise Refused(Reason.CATALOG_UNKNOWN, detail)
            state = self._gate.state
            signing = signs(state, catalog)
            offered = signing and is_offered(bound.upstream.spec.offer, delegation)
            own = client_config(
                catalog,
                self._granting.public_url,
                signing=signing,
                delegation=delegation,
                listener=self._granting.listener_for(signing=signing, offered=offered),
            )
            content = config_answer(content, own)
        self._recorder.passed(passage, 200)
        return Reply(200, f"{JSON}{lines_of((), passage.request_id)}", content)

    async def answer(
        self,
        passage: Passage,
        subject: Subject,
        address: CatalogAddress,
        call: CatalogCall,
        request: web.BaseRequest,
        account: work.Account,
    ) -> Reply:
        """Answer any other call. Raise Refused."""
        found = self._bound(passage, subject, address)
        if found is None:
            raise Refused(Reason.ROUTE_UNKNOWN, f"catalog {passage.catalog!r} has no upstream")
        catalog, bound = found
        passage.application = word(request.headers.get(APPLICATION_HEADER))
        passage.query_id = word(request.headers.get(QUERY_HEADER))
        query = request.raw_path.partition("?")[2]
        _check_query(query)
        bill = work.CallBill(account)
        body, said, chosen = await self._said(passage, subject, address, call, request, bill)
        passage.target = _target(call, said)
        turn = YieldTimer()
        for need in needs(call, query, said):
            await turn.pause()
            catalog = self._gate.admit_call(passage, subject, address, need.privileges, CallPlace(*need.place))
        if call.kind is CallKind.LOAD_CREDENTIALS:
            # Keys that the upstream made would be thrown away.
            self._recorder.passed(passage, 200)
            return Reply(200, f"{JSON}{lines_of((), passage.request_id)}", _NO_CREDENTIALS)
        authorization = await bound.upstream.authorization(passage.bearer, subject.caller.expires_at)
        if subject.caller.scope is not None:
            check_call(subject.caller.scope, call.kind, None)
            if (call.name and call.kind is not CallKind.LOAD_TABLE) or isinstance(said, Transaction):
                # By name alone it would be good for whatever takes the name of its table. A load's answer says itself.
                uuid = await self._seen.uuid_now(catalog, subject.caller.scope, subject, passage.bearer)
                check_call(subject.caller.scope, call.kind, uuid)
        if chosen:
            await self._seen.choices.check(catalog, bound, subject, passage.bearer, chosen, bill.add)
            if signs(self._gate.state, catalog):
                await self._seen.conflicts.check(catalog, subject, passage.bearer, chosen)
        before: str | None = None
        if call.kind in _COMMITS and isinstance(said, Commit | Transaction):
            commits = (said,) if isinstance(said, Commit) else said.commits
            before = await self._seen.choices.check_commits(catalog, bound, subject, passage.bearer, commits, bill.add)
        target = await bound.paths.target(call.path, query, authorization, passage.request_id)
        state, headers = self._gate.state, request.headers
        grant = self._granting.offered(state, catalog, bound.upstream.spec.offer, passage, headers)
        variant = self._granting.variant(grant, state, passage.wall)
        sent = self._headers(passage, request, bound, authorization)
        if isinstance(body, Whole):
            # What was judged was read as UTF-8: a charset would have the upstream read something else.
            sent = [(name, value) for name, value in sent if name.lower() != "content-type"]
            sent.append(("Content-Type", "application/json"))
        known = unmarked(headers.get("If-None-Match", ""), variant) if call.kind is CallKind.LOAD_TABLE else None
        if known is not None:
            sent.append(("If-None-Match", known))
        asking = Asking(
            passage,
            subject,
            passage.bearer,
            catalog,
            bound,
            call,
            said,
            grant,
            variant,
            Effect.NONE if call.kind in _CHANGE_NOTHING else Effect.CHANGE,
            known is not None,
            # Of the table as it was before: another may have its name once the answer is there.
            await self._seen.removable(catalog, call, subject, passage.bearer),
            bool(chosen),
            before,
            account,
        )
        question = Question(call.kind.method, target, sent, asking.effect, body)
        return await (self._ask(asking, question) if asking.effect is Effect.NONE else self._change(asking, question))

    def _admit_beforehand(self, passage: Passage, subject: Subject, address: CatalogAddress, call: CatalogCall) -> None:
        """Refuse a caller whose call no body would make permitted, before the body is read. Raise Refused."""
        passage.target = _target(call, None)
        needed = needs_beforehand(call)
        for number, need in enumerate(needed, 1):
            try:
                self._gate.admit_call(passage, subject, address, need.privileges, CallPlace(*need.place))
            except Refused:
                if number == len(needed):
                    raise
            else:
                passage.deny = None
                return

    async def _said(
        self,
        passage: Passage,
        subject: Subject,
        address: CatalogAddress,
        call: CatalogCall,
        request: web.BaseRequest,
        bill: work.CallBill,
    ) -> tuple[Body | None, CallBody | None, tuple[ChosenLocations, ...]]:
        """Return the body to send on, what it names, and the places that it chooses. Reading it is charged before."""
        if not (reads_body(call.kind) or may_choose(call.kind)):
            return Arriving(request) if call.kind.method == "POST" else None, None, ()
        self._admit_beforehand(passage, subject, address, call)
        # What is announced is charged before it is read: to be refused afterwards costs as much.
        announced = min(request.content_length or 0, MAX_CALL)
        bill.body(announced)
        content = await read_whole(request, MAX_CALL)
        # A packed body is as long as what it unpacks to.
        bill.body(max(0, len(content) - announced))
        bill.commas(commas_in(call.kind, content))
        async with work.turn_of(len(content)):
            pace = Pace(bill)
            read = await in_pieces(read_body(call, content, pace))
            return Whole(content), read.said, await in_pieces(read_chosen(call, read, pace))

    async def tokens(self, passage: Passage, address: CatalogAddress, request: web.BaseRequest) -> Reply:
        """Answer `POST /v1/oauth/tokens`. Raise Refused."""
        return await answer_tokens(
            passage,
            address,
            request,
            state=self._gate.state,
            upstreams=self._upstreams,
            authenticator=self._authenticator,
            recorder=self._recorder,
        )

    async def _ask(self, asking: Asking, question: Question) -> Reply:
        asked_at = time.monotonic()
        async with await asking.bound.upstream.ask(question) as answer:
            return await self._answers.of(asking, answer, asked_at)

    async def _change(self, asking: Asking, question: Question) -> Reply:
        """Make a call that changes something. If it fails once it was sent, no caller is told that it was not made."""
        passage = asking.passage
        try:
            return await self._ask(asking, question)
        except asyncio.CancelledError:
            self._seen.later.begin(self._seen.doubt(asking.catalog, asking.call, asking.body))
            raise
        except Refused as refused:
            if refused.reason in _NOT_SENT:
                raise
            await self._seen.doubt(asking.catalog, asking.call, asking.body)
            if refused.reason in _UNKNOWN_STATE:
                raise
            # The trail took no event, and counts what it did not take.
            passage.closed = True
            return refusal(Refused(Reason.UPSTREAM_TIMEOUT), passage.request_id)
        except Exception:  # noqa: BLE001 - the handler's own wrapper would say that the call may be made again
            _log.exception("call failed after it was sent", request_id=passage.request_id)
            await self._seen.doubt(asking.catalog, asking.call, asking.body)
            raise Refused(Reason.UPSTREAM_TIMEOUT, "a fault of signproxy's own; the log holds the trace") from None

    def _bound(self, passage: Passage, subject: Subject, address: CatalogAddress) -> tuple[Catalog, Bound] | None:
        """Return the catalog if the caller may know of it, and its upstream."""
        catalog = self._gate.admit_call(passage, subject, address, 0)
        bound = self._upstreams.of(catalog.name)
        return None if bound is None or catalog.learning is None else (catalog, bound)

    def _warehouse(self, address: CatalogAddress) -> tuple[CatalogAddress, str]:
        """Return the catalog that is asked for, and a warehouse that it does not answer to: the upstream may know it.

        Only where the path fixes the catalog. The upstream's own warehouse is the catalog's: clients keep the one that
        they had without signproxy.
        """
        name, warehouse = address.name, address.prefix
        bound = None if name is None else self._upstreams.of(name)
        if name is None or bound is None or not warehouse:
            return address, ""
        known = self._gate.state.catalog_of_prefix(warehouse)
        if known is not None and known.name == name:
            return address, ""
        return CatalogAddress(name), "" if warehouse == bound.upstream.spec.warehouse else warehouse

    def _headers(
        self, passage: Passage, request: web.BaseRequest, bound: Bound, authorization: str | None
    ) -> list[tuple[str, str]]:
        sent = onward(request.headers.items(), bound.upstream.spec.headers)
        # What is read here is not to be unpacked first.
        sent += [("Accept-Encoding", "identity"), ("X-Request-ID", passage.request_id)]
        if authorization is not None:
            sent.append(("Authorization", authorization))
        return sent


_CONFIG = CatalogCall(kind=CallKind.CONFIG, path="config")


def _check_query(query: str) -> None:
    if not _QUERY.fullmatch(query):
        raise Refused(Reason.ROUTE_MALFORMED, "the query is too long, or holds what no encoded query does")


def _target(call: CatalogCall, body: CallBody | None) -> NamedTable | None:
    """Return what the event names: the table or view, or a namespace alone."""
    match body:
        case Creation(name):
            return NamedTable(call.namespace, name)
        case NamespaceCreation(namespace):
            return NamedTable(namespace, "")
        case Renaming(source):
            return NamedTable(*source)
        case _:
            return NamedTable(call.namespace, call.name) if call.namespace else None
