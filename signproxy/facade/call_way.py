"""Pass a catalog call on to the upstream of its catalog, and change only what must be.

A call is admitted before anything is asked, and what its answer says of a table is taken in before the caller gets it,
so that the next sign request finds it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.answers.api_way import ApiWay
from signproxy.answers.bodies import MAX_CALL, Arriving, read_whole
from signproxy.answers.reply import Reply
from signproxy.catalog.call import AnswerChange, CallKind, CatalogCall
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
from signproxy.catalog.carried import APPLICATION_HEADER, QUERY_HEADER, word
from signproxy.catalog.chosen_locations import ChosenLocations, may_choose, read_chosen
from signproxy.catalog.needs import needs, needs_beforehand
from signproxy.catalog.signer_grant import unmarked
from signproxy.catalog.travel import question_headers
from signproxy.catalog.upstream import Body, Question, Whole
from signproxy.catalog.upstream_spec import Effect
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.facade.asking import AdmittedCall
from signproxy.facade.call_scope import check_call
from signproxy.facade.facade import Facade
from signproxy.gate import work
from signproxy.gate.calls import CallPlace, admit_call
from signproxy.gate.judgement import Judgement
from signproxy.gate.order import STATE_UNKNOWN
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor
from signproxy.gate.turns import YieldTimer, in_pieces
from signproxy.model import NamedTable, Subject
from signproxy.policy.admission import refuse_closed
from signproxy.policy.catalog import Delegation
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

_JUDGED_BY_BODY = frozenset(kind for kind in CallKind if reads_body(kind) or may_choose(kind))

_NOT_SENT = frozenset({Reason.UPSTREAM_UNAVAILABLE, Reason.BODY_TIMEOUT, Reason.CLIENT_GONE})

_QUERY = re.compile(r"[!\"$-~]{0,16384}")
"""Printable ASCII without `#`, behind which nothing would be sent."""


class _Read(NamedTuple):
    """A call as its body has it."""

    bound: Bound
    body: Body | None
    """What is sent on."""
    said: CallBody | None
    chosen: tuple[ChosenLocations, ...]
    """The places that it chooses."""


class CallWay(ApiWay):
    """A call of a catalog."""

    call: CatalogCall
    _read: _Read
    _admitted: AdmittedCall

    rooms: Facade

    async def ask(self, subject: Subject | None) -> AskedFor:
        """Return what the call is about: a body that says so is read, and charged before. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        facade, call, headers = self.rooms, self.call, self.message.headers
        self.lease.take(self.limits.waiting)
        catalog, bound = facade.bound(self.policy_of(facade.gate), subject, self.address)
        self.asked = asked = AskedFor(self.address, bearer=self.bearer, catalog=catalog.name)
        if bound is None:
            raise Refused(Reason.ROUTE_UNKNOWN, f"catalog {catalog.name!r} has no upstream")
        application, query_id = word(headers.get(APPLICATION_HEADER)), word(headers.get(QUERY_HEADER))
        self.asked = asked = replace(asked, application=application, query_id=query_id)
        if not _QUERY.fullmatch(self.message.query):
            raise Refused(Reason.ROUTE_MALFORMED, "the query is too long, or holds what no encoded query does")
        if call.kind in _JUDGED_BY_BODY:
            self._bill = work.CallBill(work.Account(self.limits, subject.caller.name))
            self.asked = replace(asked, target=_target(call, None))
            self._admit_beforehand(subject)
            body, said, chosen = await self._read_body()
            self._read = _Read(bound, body, said, chosen)
        else:
            said = None
            self._read = _Read(bound, Arriving(self.parsed) if call.kind.method == "POST" else None, None, ())
        self.asked = replace(asked, target=_target(call, said))
        return self.asked

    def _admit_beforehand(self, subject: Subject) -> None:
        """Refuse a caller whose call no body would make permitted, before the body is read. Raise Refused."""
        needed = needs_beforehand(self.call)
        for number, need in enumerate(needed, 1):
            try:
                place = CallPlace(need.namespace, need.name, need.made)
                admit_call(self.policy_of(self.rooms.gate), subject, self.address, need.privileges, place)
            except Refused:
                if number == len(needed):
                    raise
            else:
                return

    async def _read_body(self) -> tuple[Body, CallBody | None, tuple[ChosenLocations, ...]]:
        """Return the body to send on, what it names, and the places that it chooses. Reading it is charged before."""
        message, call, bill = self.parsed, self.call, self._bill
        # What is announced is charged before it is read: to be refused afterwards costs as much.
        announced = min(message.content_length or 0, MAX_CALL)
        bill.body(announced)
        content = await read_whole(message, MAX_CALL)
        # A packed body is as long as what it unpacks to.
        bill.body(max(0, len(content) - announced))
        bill.commas(commas_in(call.kind, content))
        async with work.turn_of(len(content)):
            pace = Pace(bill)
            read = await in_pieces(read_body(call, content, pace))
            return Whole(content), read.said, await in_pieces(read_chosen(call, read, pace))

    async def judge(self, subject: Subject | None, asked: AskedFor) -> Judgement:
        """Say whether the call may be made, and find what has to be known of its tables before. Raise Refused."""
        assert subject is not None  # noqa: S101 - a caller of this way has shown a token
        facade, call, read = self.rooms, self.call, self._read
        gate, seen, said = facade.gate, facade.seen, read.said
        needed = deque(needs(call, self.message.query, said))
        turn = YieldTimer() if len(needed) > 1 else None
        while True:
            need = needed.popleft()
            state, place = self.policy_of(gate), CallPlace(need.namespace, need.name, need.made)
            catalog = admit_call(state, subject, self.address, need.privileges, place)
            if turn is None or not needed:
                break
            await turn.pause()
        effect = Effect.NONE if call.kind in _CHANGE_NOTHING else Effect.CHANGE
        asking = AdmittedCall(catalog, read.bound, subject, asked.bearer, self.request, call, said, effect)
        before = dropped = None
        scope = subject.caller.scope
        if scope is not None:
            check_call(scope, call.kind, None)
            if (call.name and call.kind is not CallKind.LOAD_TABLE) or isinstance(said, Transaction):
                # By name alone it would be good for whatever takes the name of its table. A load's answer says itself.
                check_call(scope, call.kind, await seen.uuid_now(asking, scope))
        if read.chosen:
            await seen.choices.check(asking, read.chosen, self._bill.add)
            if refuse_closed(gate.state, catalog) is None:
                await seen.conflicts.check(asking, read.chosen)
        if call.kind in _COMMITS and isinstance(said, Commit | Transaction):
            commits = (said,) if isinstance(said, Commit) else said.commits
            before = await seen.choices.check_commits(asking, commits, self._bill.add)
        if call.kind is CallKind.DROP_TABLE:
            # Of the table as it was before: another may have its name once the answer is there.
            dropped = await seen.removable(asking)
        self._admitted = replace(asking, dropped=dropped, chosen=bool(read.chosen), before=before)
        return self.admitted(subject, asked, catalog.name)

    async def serve(self, judgement: Judgement, outcome: Outcome) -> Reply:
        """Make the call, and answer with what becomes of it. Raise Refused."""
        facade, call, admitted_call, bound = self.rooms, self.call, self._admitted, self._read.bound
        catalog, subject, headers = admitted_call.catalog, admitted_call.subject, self.message.headers
        authorization = await bound.upstream.authorization(self.bearer, subject.caller.expires_at)
        target = await bound.paths.target(call.path, self.message.query, authorization, self.request.request_id)
        state, granting = facade.gate.state, facade.granting
        modes: tuple[Delegation, ...] = ()
        if call.kind.change is AnswerChange.SIGNER:
            modes = granting.modes(state, catalog, bound.upstream.spec.offer, subject, headers)
        grant = granting.offered(modes, catalog, judgement.asked, headers)
        variant = granting.variant(grant, state, self.request.wall)
        sent = question_headers(headers.items(), bound.upstream.spec.headers, self.request.request_id, authorization)
        body = self._read.body
        if isinstance(body, Whole):
            # What was judged was read as UTF-8: a charset would have the upstream read something else.
            sent = [(name, value) for name, value in sent if name.lower() != "content-type"]
            sent.append(("Content-Type", "application/json"))
        # What a client kept may hold keys that have ended since, whatever became of the table.
        is_kept = call.kind is CallKind.LOAD_TABLE and Delegation.VENDED_CREDENTIALS not in modes
        kept = headers.get("If-None-Match") if is_kept else None
        known = None if kept is None else unmarked(kept, variant)
        if known is not None:
            sent.append(("If-None-Match", known))
        asking = replace(
            admitted_call,
            modes=modes,
            grant=grant,
            variant=variant,
            conditional=known is not None,
            account=work.Account(self.limits, subject.caller.name),
        )
        question = Question(call.kind.method, target, sent, asking.effect, body)
        ask = self._ask if asking.effect is Effect.NONE else self._change
        return self._known(await ask(asking, question, outcome))

    def _known(self, reply: Reply) -> Reply:
        """Return an answer as it goes out; the caller of one that is no refusal is known, whatever its status."""
        reply.known = True
        return self.finish(reply)

    async def _ask(self, asking: AdmittedCall, question: Question, outcome: Outcome) -> Reply:
        asked_at = time.monotonic()
        async with await asking.bound.upstream.ask(question) as answer:
            return await self.rooms.answers.of(asking, answer, asked_at, outcome)

    async def _change(self, asking: AdmittedCall, question: Question, outcome: Outcome) -> Reply:
        """Make a call that changes something. If it fails once it was sent, no caller is told that it was not made."""
        seen = self.rooms.seen
        try:
            return await self._ask(asking, question, outcome)
        except asyncio.CancelledError:
            seen.later.begin(seen.doubt(asking))
            raise
        except Refused as refused:
            if refused.reason in _NOT_SENT:
                raise
            await seen.doubt(asking)
            if refused.reason in STATE_UNKNOWN:
                raise
            raise Refused(Reason.UPSTREAM_TIMEOUT, f"once it was sent: {refused}") from None
        except Exception:  # noqa: BLE001 - the order's own wrapper would say that the call may be made again
            _log.exception("call failed after it was sent", request_id=self.request.request_id)
            await seen.doubt(asking)
            raise Refused(Reason.UPSTREAM_TIMEOUT, "a fault of signproxy's own; the log holds the trace") from None


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
