"""Turn an upstream's answer to a catalog call into what its caller gets."""

from __future__ import annotations

import time
from typing import assert_never

import msgspec

from signproxy.audit.event import Verdict
from signproxy.catalog.answer import CHANGES, Change, list_answer, plain_answer, read_table
from signproxy.catalog.call import CallKind, CatalogCall
from signproxy.catalog.call_body import CallBody, Creation
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
from signproxy.gate.gate import Gate
from signproxy.gate.passage import Passage
from signproxy.gate.recorder import Recorder
from signproxy.inventory.alarms import Refusal
from signproxy.inventory.sighting import Staged
from signproxy.model import Subject
from signproxy.policy.catalog import Catalog
from signproxy.server.grants import Granting
from signproxy.server.reply import Reply
from signproxy.server.seen import Seen
from signproxy.server.wire import lines_of


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
            return await self._error(asking, answer)
        if status >= 300:
            raise answer.invalid(f"status {status}")
        change = CHANGES[asking.call.kind]
        if status == 204 or change is Change.EMPTY:
            await self._seen.done(asking.catalog, asking.call, asking.body, asking.subject, asking.dropped)
            self._recorder.passed(asking.passage, status)
            return self._reply(asking, answer, b"")
        content = await answer.whole()
        try:
            return await self._changed(asking, answer, change, content, asked_at)
        except Refused as refused:
            if refused.reason is Reason.UPSTREAM_INVALID:
                raise answer.invalid(refused.detail) from None
            raise

    async def _changed(
        self, asking: Asking, answer: UpstreamAnswer, change: Change, content: bytes, asked_at: float
    ) -> Reply:
        match change:
            case Change.SIGNER:
                return await self._table(asking, answer, content, asked_at)
            case Change.LEARNED:
                return await self._commit(asking, answer, content)
            case Change.FILTERED:
                gate, catalog, subject = self._gate, asking.catalog, asking.subject
                content = list_answer(content, lambda namespace, name: gate.may_see(catalog, subject, namespace, name))
            case Change.FIELDS:
                content = plain_answer(asking.call.kind, content)
            case Change.MERGED | Change.EMPTY:
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
        # Of any other answer a client could go on using what was meant for this call alone.
        etag = answer.headers.get("ETag", "") if call.kind is CallKind.LOAD_TABLE else ""
        refusal: Refusal | None = None
        if answer.status != 200:
            await self._seen.doubt(catalog, call, body)
        elif created is not None and created.staged:
            now = time.time()
            staged = Staged(catalog.name, facts, subject.caller.name, self._granting.staged_until(now))
            refusal = await self._seen.staged(staged)
            grant = self._granting.of_staged(grant, staged)
        elif call.kind is CallKind.LOAD_TABLE:
            refusal = await self._seen.loaded(catalog, facts, etag, asked_at, subject, asking.bearer)
        else:
            refusal = await self._seen.live(catalog, facts, etag)
        grant = self._granting.of_table(grant, catalog, facts, subject, asking.bearer)
        pieces = table.with_grant(address_of(catalog, facts.location), grant)
        self._recorder.passed(asking.passage, answer.status, _unbelieved(refusal))
        return self._reply(asking, answer, b"", pieces, etag=etag)

    async def _commit(self, asking: Asking, answer: UpstreamAnswer, content: bytes) -> Reply:
        call, catalog = asking.call, asking.catalog
        table = read_table(content, call.namespace, call.name)
        refusal: Refusal | None = None
        if answer.status == 200:
            refusal = await self._seen.live(catalog, table.facts, "")
        else:
            await self._seen.doubt(catalog, call, asking.body)
        self._recorder.passed(asking.passage, answer.status, _unbelieved(refusal))
        return self._reply(asking, answer, b"", table.of_commit())

    async def _error(self, asking: Asking, answer: UpstreamAnswer) -> Reply:
        """Pass on what the upstream refuses or fails with; its status is what clients act on."""
        status, call, catalog = answer.status, asking.call, asking.catalog
        is_head = call.kind.method == "HEAD"
        error = error_of(status, b"" if is_head else await answer.problem())
        if status == 404 and (is_head or error.type):
            # Without a type it is some proxy's page, and says nothing of the table.
            await self._seen.gone(catalog, call)
        if status in (401, 403, 404, 419):
            self._seen.denied(catalog, call, asking.subject, asking.bearer)
        if status >= 500 and asking.effect is Effect.CHANGE:
            await self._seen.doubt(catalog, call, asking.body)
        verdict, reason = Verdict.ALLOW, Reason.ALLOWED
        if status in (401, 403, 419):
            verdict, reason = Verdict.DENY, reason_of_status(status)
        elif status >= 500:
            verdict, reason = Verdict.ERROR, Reason.UPSTREAM_UNAVAILABLE
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
        return Reply(answer.status, lines_of(headers, asking.passage.request_id), content, pieces=pieces)


def _unbelieved(refusal: Refusal | None) -> str:
    return "" if refusal is None else f"not believed: {refusal.reason.code}, {refusal.detail}"
