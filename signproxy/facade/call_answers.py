"""Turn an upstream's answer to a catalog call into what its caller gets."""

from __future__ import annotations

import time
from functools import partial
from typing import assert_never

import msgspec

from signproxy.answers import wire
from signproxy.answers.reply import Reply
from signproxy.audit.event import Verdict
from signproxy.catalog.answer import CHANGES, AnswerChange, TableAnswer, list_answer, plain_answer, read_table
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import CallBody, Commit, Creation
from signproxy.catalog.etag import marked
from signproxy.catalog.signer_grant import SignerGrant
from signproxy.catalog.store_address import address_of
from signproxy.catalog.table_answer import Pieces
from signproxy.catalog.travel import back
from signproxy.catalog.upstream_answer import UpstreamAnswer
from signproxy.catalog.upstream_error import error_of
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstream_spec import Effect
from signproxy.catalog.upstreams import Bound
from signproxy.errors import Reason, Refused
from signproxy.facade.call_scope import check_call
from signproxy.facade.grants import Granting, signs
from signproxy.facade.seen import Seen
from signproxy.gate.gate import Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.gate.turns import in_pieces
from signproxy.gate.work import Account, of_call, of_list
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.chosen_places import may_be_s3
from signproxy.inventory.learned.claims import is_astray, outside_declared
from signproxy.inventory.learned.sighting import Loaded, Staged, TableFacts
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.learning import Authorizer

_UNSERVED = frozenset({Reason.LOCATION_DISPUTED, Reason.LOCATION_OUTSIDE_ROOTS, Reason.LOCATION_UNVOUCHED})
"""Why none of a table's files, or of those below one of its paths, would be signed."""


class Asking(msgspec.Struct, frozen=True):
    """A call that was admitted: whose it is, and what it is about."""

    passage: Passage
    subject: Subject
    bearer: str
    """The caller's own token."""
    catalog: Catalog
    bound: Bound
    call: CatalogCall
    body: CallBody | None
    grant: SignerGrant | None
    """What the caller is told of the signer, but for what differs from table to table."""
    variant: str
    """What tells answers to this caller from others."""
    effect: Effect
    conditional: bool = False
    """It was asked for only if it is another one than the caller has."""
    dropped: str | None = None
    """The UUID of the table that is to be dropped, where it was known before."""
    chosen: bool = False
    """Its caller chose a place; what the upstream made of that is judged once more."""
    before: str | None = None
    """Where the table was that a commit is about; None where there was none, or nothing is committed."""
    account: Account | None = None
    """Where the work of its answer is charged; None where that has a bound of its own."""


class CallAnswers:
    """Answers by the settings in force."""

    __slots__ = ("_gate", "_granting", "_recorder", "_seen")

    def __init__(self, gate: Gate, granting: Granting, seen: Seen, recorder: Recorder) -> None:
        self._gate = gate
        self._granting = granting
        self._seen = seen
        self._recorder = recorder

    async def of(self, asking: Asking, answer: UpstreamAnswer, asked_at: float) -> Reply:
        """Return the reply to a call, recorded; `asked_at` is `time.monotonic()` from before it was made.

        Raise Refused: an answer that is none, or a trail that does not take the event.
        """
        status = answer.status
        if status == 304 and asking.conditional:
            self._recorder.passed(asking.passage, status)
            return self._reply(asking, answer, b"", etag=answer.headers.get("ETag", ""))
        if status >= 400:
            return await self._error(asking, answer, asked_at)
        if status >= 300:
            raise answer.invalid(f"status {status}")
        change = CHANGES[asking.call.kind]
        if status == 204 or change is AnswerChange.EMPTY:
            await self._seen.done(asking.catalog, asking.call, asking.body, asking.subject, asking.dropped)
            self._recorder.passed(asking.passage, status)
            return self._reply(asking, answer, b"")
        content = await answer.whole()
        if asking.account is not None and asking.effect is Effect.NONE:
            # What is changed already is told of, whatever it costs.
            asking.account.charge(of_call(len(content)))
        try:
            return await self._changed(asking, answer, change, content, asked_at)
        except Refused as refused:
            if refused.reason is Reason.UPSTREAM_INVALID:
                raise answer.invalid(refused.detail) from None
            raise

    async def _changed(
        self, asking: Asking, answer: UpstreamAnswer, change: AnswerChange, content: bytes, asked_at: float
    ) -> Reply:
        match change:
            case AnswerChange.SIGNER:
                return await self._table(asking, answer, content, asked_at)
            case AnswerChange.LEARNED:
                return await self._commit(asking, answer, content, asked_at)
            case AnswerChange.FILTERED:
                gate, catalog, subject = self._gate, asking.catalog, asking.subject
                if asking.account is not None:
                    asking.account.charge(of_list(content))
                visible = partial(gate.may_see, catalog, subject)
                content = await in_pieces(list_answer(content, visible))
            case AnswerChange.FIELDS:
                content = plain_answer(asking.call.kind, content)
            case AnswerChange.MERGED | AnswerChange.EMPTY:
                raise ValueError(f"no answer of {asking.call.kind.name} is changed so")
            case _:
                assert_never(change)
        self._recorder.passed(asking.passage, answer.status)
        return self._reply(asking, answer, content)

    async def _table(self, asking: Asking, answer: UpstreamAnswer, content: bytes, asked_at: float) -> Reply:
        call, catalog, subject, body = asking.call, asking.catalog, asking.subject, asking.body
        created = body if isinstance(body, Creation) else None
        table = read_table(content, call.namespace, call.name if created is None else created.name)
        facts, grant = table.facts, asking.grant
        if call.kind is CallKind.LOAD_TABLE and subject.caller.scope is not None:
            check_call(subject.caller.scope, call.kind, facts.uuid)
        # Of any other answer a client could go on using what was meant for this call alone.
        etag = answer.headers.get("ETag", "") if call.kind is CallKind.LOAD_TABLE else ""
        refusal = await self._unvouched(asking, facts) if answer.status == 200 else None
        if answer.status != 200:
            await self._seen.doubt(catalog, call, body)
        elif refusal is not None:
            await self._seen.changed(catalog, facts, asked_at, vouched=False)
        elif created is not None and created.staged:
            now = time.time()
            until = self._granting.staged_until(now)
            staged = Staged(catalog.name, facts, subject.caller.name, until, table.restricted)
            refusal = await self._seen.staged(staged, catalog, subject, asking.bearer)
            grant = self._granting.of_staged(grant, staged)
        elif call.kind is CallKind.LOAD_TABLE:
            await self._answered(asking, table, asked_at)
            placed = is_astray(facts) and await self._judged(asking, facts) is None
            refusal = await self._seen.read(catalog, facts, etag, asked_at, placed=placed)
        else:
            # The caller that made a table has yet to load it, where the upstream's word on that is what counts. A table
            # that is registered was there before, and what the upstream keeps from whom, it tells when it is loaded.
            made = call.kind is CallKind.CREATE_TABLE and catalog.authorizer is Authorizer.POLICY
            if table.restricted or made:
                await self._answered(asking, table, asked_at)
            refusal = await self._seen.made(catalog, facts, asked_at, subject, asking.bearer)
            refusal = refusal or outside_declared(catalog, facts)
        if created is not None and refusal is not None and self._is_unserved(catalog, facts, refusal):
            return self._not_served(asking, created, refusal)
        if not table.restricted:
            grant = self._granting.of_table(grant, catalog, facts, subject, asking.bearer)
        store = address_of(catalog, facts.location)
        if store is not None:
            signing = signs(self._gate.state, catalog)
            store = store.through(self._granting.listener_for(signing=signing, offered=grant is not None))
        pieces = table.with_grant(store, grant)
        self._recorder.passed(asking.passage, answer.status, _unbelieved(refusal))
        return self._reply(asking, answer, b"", pieces, etag=etag)

    def _is_unserved(self, catalog: Catalog, facts: TableFacts, refusal: SightingRefusal) -> bool:
        # The policy's table of this name may be another one than the upstream's.
        never = refusal.reason in _UNSERVED or catalog.table(facts.namespace, facts.name) is not None
        # A table in no store of S3 is none of signproxy's.
        return never and may_be_s3(facts.location) and signs(self._gate.state, catalog)

    def _not_served(self, asking: Asking, created: Creation, refusal: SightingRefusal) -> Reply:
        """Say that nothing would be signed for a table, before anything is written into it."""
        reason = Reason.LOCATION_CONFLICT if created.staged else Reason.TABLE_NOT_SERVED
        self._recorder.passed(asking.passage, reason.status, _unbelieved(refusal), Verdict.DENY, reason)
        return wire.refusal(Refused(reason), asking.passage.request_id)

    async def _commit(self, asking: Asking, answer: UpstreamAnswer, content: bytes, asked_at: float) -> Reply:
        call, catalog = asking.call, asking.catalog
        table = read_table(content, call.namespace, call.name)
        refusal: SightingRefusal | None = None
        if answer.status == 200:
            if table.restricted:
                # The specification has none here; an upstream that sends some means them.
                await self._answered(asking, table, asked_at)
            vouched = await self._unvouched(asking, table.facts) is None
            refusal = await self._seen.changed(catalog, table.facts, asked_at, vouched=vouched)
        else:
            await self._seen.doubt(catalog, call, asking.body)
        self._recorder.passed(asking.passage, answer.status, _unbelieved(refusal))
        return self._reply(asking, answer, b"", table.of_commit())

    async def _unvouched(self, asking: Asking, facts: TableFacts) -> SightingRefusal | None:
        """Return why a place that the caller chose is not believed; the upstream's own choices are not looked at."""
        moved = (
            asking.call.kind is CallKind.UPDATE_TABLE
            and isinstance(asking.body, Commit)
            and not asking.body.creates
            and asking.before != facts.location
        )
        # A commit that moves a table without saying so met another table under its name than was there before.
        return await self._judged(asking, facts) if asking.chosen or moved else None

    async def _judged(self, asking: Asking, facts: TableFacts) -> SightingRefusal | None:
        """Return why neither the upstream's layout, nor the table's history, nor the policy vouches for its place."""
        return await self._seen.choices.believes(asking.catalog, asking.bound, asking.subject, asking.bearer, facts)

    async def _answered(self, asking: Asking, table: TableAnswer, asked_at: float) -> None:
        loaded = Loaded(table.facts, table.restricted)
        await self._seen.answered(asking.catalog, loaded, asking.subject, asking.bearer, asked_at)

    async def _error(self, asking: Asking, answer: UpstreamAnswer, asked_at: float) -> Reply:
        """Pass on what the upstream refuses or fails with; its status is what clients act on."""
        status, call, catalog = answer.status, asking.call, asking.catalog
        is_head = call.kind.method == "HEAD"
        error = error_of(status, b"" if is_head else await answer.problem())
        if status == 404 and (is_head or error.type):
            # Without a type it is some proxy's page, and says nothing of the table.
            await self._seen.gone(catalog, call, asked_at)
        if status in (401, 403, 419) or (status == 404 and error.type):
            self._seen.denied(catalog, call, asking.subject, asking.bearer, asked_at)
        if status >= 500 and asking.effect is Effect.CHANGE:
            await self._seen.doubt(catalog, call, asking.body)
        verdict, reason = Verdict.ALLOW, Reason.ALLOWED
        if status in (401, 403, 419):
            verdict, reason = Verdict.DENY, reason_of_status(status)
        elif status >= 500:
            verdict, reason = Verdict.ERROR, reason_of_status(status)
        detail = f"the upstream answered {status} {error.type}".rstrip()
        self._recorder.passed(asking.passage, status, detail, verdict, reason)
        return self._reply(asking, answer, error.body)

    def _reply(
        self, asking: Asking, answer: UpstreamAnswer, content: bytes, pieces: Pieces = (), *, etag: str = ""
    ) -> Reply:
        headers = back(answer.headers)
        if content or pieces:
            headers.append(("Content-Type", "application/json"))
        own = marked(etag, asking.variant) if etag else None
        if own is not None:
            headers.append(("ETag", own))
        return Reply(answer.status, wire.lines_of(headers, asking.passage.request_id), content, pieces=pieces)


def _unbelieved(refusal: SightingRefusal | None) -> str:
    return "" if refusal is None else f"not believed: {refusal.reason.code}, {refusal.detail}"
