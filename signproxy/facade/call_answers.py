"""Turn an upstream's answer to a catalog call into what its caller gets."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple, assert_never

from signproxy.answers.reply import NO_CACHE, NO_STORE, Reply, lines_of, refusal
from signproxy.audit.event import Verdict
from signproxy.catalog.answer import plain_answer
from signproxy.catalog.call import AnswerChange, CallKind
from signproxy.catalog.call_body import Commit, Creation
from signproxy.catalog.client_properties import address_of
from signproxy.catalog.list_answer import list_answer
from signproxy.catalog.signer_grant import marked
from signproxy.catalog.storage_credential import StorageCredential
from signproxy.catalog.table_answer import Pieces, TableAnswer, read_table
from signproxy.catalog.travel import back
from signproxy.catalog.upstream_answer import UpstreamAnswer
from signproxy.catalog.upstream_error import error_of
from signproxy.catalog.upstream_fault import reason_of_status
from signproxy.catalog.upstream_spec import Effect
from signproxy.errors import Reason, Refused
from signproxy.facade.asking import AdmittedCall
from signproxy.facade.call_scope import check_call
from signproxy.facade.grants import Granting, signs
from signproxy.facade.seen import Seen
from signproxy.gate.gate import Gate
from signproxy.gate.outcome import Outcome
from signproxy.gate.request import AskedFor, CatalogAddress
from signproxy.gate.turns import in_pieces
from signproxy.gate.work import of_call, of_list
from signproxy.inventory.learned.alarms import SightingRefusal
from signproxy.inventory.learned.chosen_places import may_be_s3
from signproxy.inventory.learned.claims import is_astray, outside_declared
from signproxy.inventory.learned.sighting import Live, Loaded, Staged, TableFacts
from signproxy.model import NamedTable
from signproxy.policy.catalog import Authorizer, Catalog, Delegation
from signproxy.vending.vending import Vending, check_unchanged, find_vendable

_UNSERVED = frozenset({Reason.LOCATION_DISPUTED, Reason.LOCATION_OUTSIDE_ROOTS, Reason.LOCATION_UNVOUCHED})
"""Why none of a table's files, or of those below one of its paths, would be signed."""


_VENDS = (Delegation.VENDED_CREDENTIALS,)
_KEYLESS = (400, 403)
"""Statuses of what no second try would change: the table has no keys, or has none for this caller."""


class CallAnswers(NamedTuple):
    """Answers by the settings in force."""

    gate: Gate
    granting: Granting
    seen: Seen
    vending: Vending

    async def of(self, asking: AdmittedCall, answer: UpstreamAnswer, asked_at: float, outcome: Outcome) -> Reply:
        """Return the reply to a call, and say in the outcome what it is; `asked_at` is `time.monotonic()` from before.

        Raise Refused for an answer that is none.
        """
        outcome.status = status = answer.status
        if status == 304 and asking.conditional:
            return self._reply(asking, answer, b"", etag=answer.headers.get("ETag", ""))
        if status >= 400:
            return await self._error(asking, answer, asked_at, outcome)
        if status >= 300:
            raise answer.invalid(f"status {status}")
        change = asking.call.kind.change
        if status == 204 or change is AnswerChange.EMPTY:
            await self.seen.done(asking)
            return self._reply(asking, answer, b"")
        content = await answer.whole()
        if asking.account is not None and asking.effect is Effect.NONE:
            # What is changed already is told of, whatever it costs.
            asking.account.charge(of_call(len(content)))
        try:
            return await self._changed(asking, answer, change, content, asked_at, outcome)
        except Refused as refused:
            if refused.reason is Reason.UPSTREAM_INVALID:
                raise answer.invalid(refused.detail) from None
            raise

    async def _changed(
        self,
        asking: AdmittedCall,
        answer: UpstreamAnswer,
        change: AnswerChange,
        content: bytes,
        asked_at: float,
        outcome: Outcome,
    ) -> Reply:
        match change:
            case AnswerChange.SIGNER:
                return await self._table(asking, answer, content, asked_at, outcome)
            case AnswerChange.LEARNED:
                return await self._commit(asking, answer, content, asked_at, outcome)
            case AnswerChange.FILTERED:
                gate, catalog, subject = self.gate, asking.catalog, asking.subject
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
        return self._reply(asking, answer, content)

    async def _table(
        self, asking: AdmittedCall, answer: UpstreamAnswer, content: bytes, asked_at: float, outcome: Outcome
    ) -> Reply:
        call, catalog, subject, body = asking.call, asking.catalog, asking.subject, asking.body
        created = body if isinstance(body, Creation) else None
        table = read_table(content, call.namespace, call.name if created is None else created.name)
        facts, grant = table.facts, asking.grant
        if call.kind is CallKind.LOAD_TABLE and subject.caller.scope is not None:
            check_call(subject.caller.scope, call.kind, facts.uuid)
        # Of any other answer a client could go on using what was meant for this call alone.
        is_kept = call.kind is CallKind.LOAD_TABLE and Delegation.VENDED_CREDENTIALS not in asking.modes
        etag = answer.headers.get("ETag", "") if is_kept else ""
        doubt = await self._unvouched(asking, facts) if answer.status == 200 else None
        if answer.status != 200:
            await self.seen.doubt(asking)
        elif doubt is not None:
            await self.seen.tell(Live(catalog.name, facts, vouched=False), sent=asked_at)
        elif created is not None and created.staged:
            until = self.granting.contexts.until(time.time())
            staged = Staged(catalog.name, facts, subject.caller.name, until, table.restricted)
            doubt = await self.seen.made(asking, staged)
            grant = self.granting.of_staged(grant, staged)
        elif call.kind is CallKind.LOAD_TABLE:
            await self._answered(asking, table, asked_at)
            placed = is_astray(facts) and await self._judged(asking, facts) is None
            doubt = await self.seen.tell(Live(catalog.name, facts, etag, placed=placed), asked=asked_at)
        else:
            # The caller that made a table has yet to load it, where the upstream's word on that is what counts. A table
            # that is registered was there before, and what the upstream keeps from whom, it tells when it is loaded.
            made = call.kind is CallKind.CREATE_TABLE and catalog.authorizer is Authorizer.POLICY
            if table.restricted or made:
                await self._answered(asking, table, asked_at)
            doubt = await self.seen.made(asking, Live(catalog.name, facts, placed=True), asked_at)
            doubt = doubt or outside_declared(catalog, facts)
        if created is not None and doubt is not None and self._is_unserved(catalog, facts, doubt):
            return self._not_served(asking, created, doubt, outcome)
        outcome.detail = _unbelieved(doubt)
        vended = None
        if not table.restricted:
            grant = self.granting.of_table(grant, catalog, facts, subject, asking.bearer)
        if asking.modes[:1] == _VENDS and answer.status == 200 and doubt is None and not table.restricted:
            vended = await self._vended(asking, facts, outcome)
        store = address_of(catalog, facts.location)
        if vended is not None:
            grant = None
        elif store is not None and grant is None:
            store = store.through(self.granting.listener_for(self.gate.state, catalog))
        pieces = table.with_grant(store, grant, vended)
        return self._reply(asking, answer, b"", pieces, etag=etag)

    async def _vended(self, asking: AdmittedCall, facts: TableFacts, outcome: Outcome) -> StorageCredential | None:
        """Return keys for a table that is believed to lie where it does, if its caller may have any.

        They are for the table as the gate finds it, and not for what the answer says of it. A caller who may not read
        its files gets none, as it would get no signature. Raise Refused where none can be made now, so that a client
        does not take it for a table without keys; but not of a change, which is made already.
        """
        catalog, subject = asking.catalog, asking.subject
        asked = AskedFor(CatalogAddress(catalog.name), NamedTable(facts.namespace, facts.name), bearer=asking.bearer)
        try:
            vendable = await find_vendable(self.gate, subject, asked, facts.uuid)
            event_id, now = asking.request.event_id, time.time()
            vended = await self.vending.vend(vendable, asking.account, subject.caller, asking.bearer, event_id, now)
            check_unchanged(self.gate, vendable, lambda: self.gate.vend.judge(subject, asked))
        except Refused as refused:
            if asking.effect is Effect.NONE and refused.reason.status not in _KEYLESS:
                raise
            outcome.detail = f"no keys: {refused}"
            return None
        outcome.vended = vended.handed
        return vended.credential

    def _is_unserved(self, catalog: Catalog, facts: TableFacts, doubt: SightingRefusal) -> bool:
        # The policy's table of this name may be another one than the upstream's.
        never = doubt.reason in _UNSERVED or catalog.table(facts.namespace, facts.name) is not None
        # A table in no store of S3 is none of signproxy's.
        return never and may_be_s3(facts.location) and signs(self.gate.state, catalog)

    def _not_served(self, asking: AdmittedCall, created: Creation, doubt: SightingRefusal, outcome: Outcome) -> Reply:
        """Say that nothing would be signed for a table, before anything is written into it."""
        reason = Reason.LOCATION_CONFLICT if created.staged else Reason.TABLE_NOT_SERVED
        outcome.status, outcome.detail = reason.status, _unbelieved(doubt)
        outcome.verdict, outcome.reason = Verdict.DENY, reason
        return refusal(Refused(reason), asking.request.request_id)

    async def _commit(
        self, asking: AdmittedCall, answer: UpstreamAnswer, content: bytes, asked_at: float, outcome: Outcome
    ) -> Reply:
        call, catalog = asking.call, asking.catalog
        table = read_table(content, call.namespace, call.name)
        doubt: SightingRefusal | None = None
        if answer.status == 200:
            if table.restricted:
                # The specification has none here; an upstream that sends some means them.
                await self._answered(asking, table, asked_at)
            vouched = await self._unvouched(asking, table.facts) is None
            doubt = await self.seen.tell(Live(catalog.name, table.facts, vouched=vouched), sent=asked_at)
        else:
            await self.seen.doubt(asking)
        outcome.detail = _unbelieved(doubt)
        return self._reply(asking, answer, b"", table.of_commit())

    async def _unvouched(self, asking: AdmittedCall, facts: TableFacts) -> SightingRefusal | None:
        """Return why a place that the caller chose is not believed; the upstream's own choices are not looked at."""
        moved = (
            asking.call.kind is CallKind.UPDATE_TABLE
            and isinstance(asking.body, Commit)
            and not asking.body.creates
            and asking.before != facts.location
        )
        # A commit that moves a table without saying so met another table under its name than was there before.
        return await self._judged(asking, facts) if asking.chosen or moved else None

    async def _judged(self, asking: AdmittedCall, facts: TableFacts) -> SightingRefusal | None:
        """Return why neither the upstream's layout, nor the table's history, nor the policy vouches for its place."""
        return await self.seen.choices.believes(asking, facts)

    async def _answered(self, asking: AdmittedCall, table: TableAnswer, asked_at: float) -> None:
        await self.seen.answered(asking, Loaded(table.facts, table.restricted), asked_at)

    async def _error(self, asking: AdmittedCall, answer: UpstreamAnswer, asked_at: float, outcome: Outcome) -> Reply:
        """Pass on what the upstream refuses or fails with; its status is what clients act on."""
        status, is_head = answer.status, asking.call.kind.method == "HEAD"
        error = error_of(status, b"" if is_head else await answer.problem())
        if status == 404 and (is_head or error.type):
            # Without a type it is some proxy's page, and says nothing of the table.
            await self.seen.gone(asking, asked_at)
        if status in (401, 403, 419) or (status == 404 and error.type):
            self.seen.denied(asking, asked_at)
        if status >= 500 and asking.effect is Effect.CHANGE:
            await self.seen.doubt(asking)
        # An upstream's own 404 or 409 is an answer like any other: it was not signproxy that refused.
        if status in (401, 403, 419):
            outcome.verdict, outcome.reason = Verdict.DENY, reason_of_status(status)
        elif status >= 500:
            outcome.verdict, outcome.reason = Verdict.ERROR, reason_of_status(status)
        outcome.detail = f"the upstream answered {status} {error.type}".rstrip()
        return self._reply(asking, answer, error.body)

    def _reply(
        self, asking: AdmittedCall, answer: UpstreamAnswer, content: bytes, pieces: Pieces = (), *, etag: str = ""
    ) -> Reply:
        headers = back(answer.headers)
        if content or pieces:
            headers.append(("Content-Type", "application/json"))
        own = marked(etag, asking.variant) if etag else None
        if own is not None:
            headers.append(("ETag", own))
        # No cache on the way may keep an answer with keys in it.
        cache = NO_STORE if Delegation.VENDED_CREDENTIALS in asking.modes else NO_CACHE
        return Reply(answer.status, lines_of(headers, asking.request.request_id, cache), content, pieces=pieces)


def _unbelieved(doubt: SightingRefusal | None) -> str:
    return "" if doubt is None else f"not believed: {doubt.reason.code}, {doubt.detail}"
