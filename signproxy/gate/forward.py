"""Judge what comes to the S3 listener: find volume or table by location, classify, resolve, decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.begun import Waiting, begin
from signproxy.gate.buckets import shown
from signproxy.gate.bulk_delete import Deletable, judge_bulk
from signproxy.gate.context import application_in
from signproxy.gate.forwarded import BucketsShown, Passed, StoreBucket, Together
from signproxy.gate.observing import OBSERVABLE, observed, unguarded
from signproxy.gate.passage import Passage
from signproxy.gate.reach import Reach
from signproxy.gate.scope import check_carried
from signproxy.gate.turns import in_pieces, one_at_a_time, read_in_pieces
from signproxy.inventory.learned.asked import Found
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.inventory.resolver import TableResolver
from signproxy.model import BY_LOCATION, Allow, Authority, Deny, Subject
from signproxy.policy.buckets import Reached
from signproxy.policy.catalog import Catalog, Table
from signproxy.policy.containment import addressed
from signproxy.policy.decide import decide
from signproxy.policy.decide_bucket import decide_bucket
from signproxy.policy.decide_volume import decide_volume
from signproxy.policy.neighbours import Neighbours, neighbours
from signproxy.policy.standing import Standing
from signproxy.policy.state import PolicyState
from signproxy.s3.forwarded import (
    FORWARDED,
    ForwardWire,
    KeyRules,
    Rules,
    classify_forwarded,
    decoded_key,
    key_check,
    list_prefix,
)
from signproxy.s3.key import check_key
from signproxy.s3.operation import Operation
from signproxy.s3.request import ObjectRef, S3Request

_QUESTIONS = 8
"""Rounds of questions for one request; a copy has two places, and a bulk delete as many as it likes."""

TABLE_RULES = Rules()
"""What is open in a table, and where nothing is known to lie."""

# Tuples and names of their own: looking a member up in its class, or in a set, calls Python code.
_OF_BUCKET = (Operation.HEAD_BUCKET, Operation.GET_BUCKET_LOCATION)
_STRICT = KeyRules.STRICT

_OF_THE_CALLER = frozenset({Reason.NOT_IN_SCOPE, Reason.CEILING, Reason.READ_RESTRICTED})
_OF_A_COPY_SOURCE = _OF_THE_CALLER | {Reason.METADATA_PROTECTED, Reason.METADATA_SEALED}
"""What is told of a copy source as it is; every other refusal is that of a source outside."""

_FORBIDDEN = 403
_BAD = 400


class _Case(NamedTuple):
    """A request, the policy that it is judged by, and the catalogs that its bucket may mean."""

    passage: Passage
    subject: Subject
    wire: ForwardWire
    state: PolicyState
    reached: tuple[Reached, ...]


class _Judged(NamedTuple):
    """A decision, where it fell, and which keys may be addressed there."""

    decision: Allow | Deny
    catalog: str
    table_uuid: str
    keys: KeyRules


class _Question(Exception):
    """An upstream has to be asked before the request can be judged."""

    def __init__(self, answer: Awaitable[object]) -> None:
        super().__init__()
        self.answer = answer


class ForwardGate:
    """The gate of the transparent way. The state is read once per attempt, so a reload never splits one."""

    __slots__ = ("_learned", "_reach", "_resolver", "_state")

    def __init__(self, state: Callable[[], PolicyState], resolver: TableResolver, learned: LearnedResolver) -> None:
        self._state = state
        self._resolver = resolver
        self._learned = learned
        self._reach = Reach()

    async def judge(self, passage: Passage, subject: Subject, wire: ForwardWire) -> Passed | BucketsShown:
        """Return what may be forwarded; waits only where a table must be asked for, or for long work. Raise Refused.

        What was waited for may have changed everything: what follows is judged by the policy then in force.
        """
        passage.asked = wire
        passage.method = wire.method
        if not passage.application:
            passage.application = application_in(wire.headers)
        if not wire.bucket:
            async with one_at_a_time():
                return await in_pieces(shown(passage, self._begin(passage), subject, wire))
        if wire.body and wire.deletes is None:
            async with one_at_a_time():
                wire = replace(wire, deletes=await read_in_pieces(wire.body, FORWARDED))
        for _ in range(_QUESTIONS + 1):
            try:
                passed: Passed | None
                if wire.body is None:
                    passed = self._judged(self._case(passage, subject, wire))
                else:
                    passed = await self._by_body(passage, subject, wire)
            except _Question as question:
                answer = question.answer
            else:
                if passed is not None:
                    return passed
                continue
            await passage.waits_for(answer)
        raise Refused(Reason.UPSTREAM_UNAVAILABLE, "every answer leads to another question")

    async def buckets(
        self, passage: Passage, subject: Subject, wire: ForwardWire, told: Sequence[StoreBucket]
    ) -> BucketsShown:
        """Return the buckets to show once stores told of theirs, by the policy now in force. Raise Refused."""
        state = self._state()
        passage.judged_by(state)
        async with one_at_a_time():
            return await in_pieces(shown(passage, state, subject, wire, told))

    def neighbours(self, passage: Passage, subject: Subject, wire: ForwardWire) -> tuple[Passed, Neighbours] | None:
        """Judge a request by the policy now in force; return for which others that holds, where it does."""
        state = self._state()
        try:
            catalogs = [place.catalog for place in self._reach.of(state, subject, wire.bucket)]
            if any(catalog.learning is not None for catalog in catalogs):
                # What an upstream said of a table may end at any time.
                return None
            judged = begin(self.judge(passage, subject, wire))
        except Refused:
            return None
        if isinstance(judged, Waiting):
            judged.close()
            return None
        if not isinstance(judged, Passed) or judged.observed is not None:
            return None
        request = judged.forwardable.request
        if wire.raw_key != request.key or judged.forwardable.target != request.canonical_path:
            # An escaped slash is one of the key's, and none of the path's.
            return None
        found = neighbours(catalogs, request)
        return None if found is None else (judged, found)

    async def _by_body(self, passage: Passage, subject: Subject, wire: ForwardWire) -> Passed | None:
        """Judge a request by its body, which takes a while. One at a time: others have their turn in between.

        None where the policy changed meanwhile: what was granted when it began may be revoked.
        """
        async with one_at_a_time():
            case = self._case(passage, subject, wire)
            try:
                passed = await self._bulk(case)
            except Refused as refused:
                if not _is_excused(case, refused.reason):
                    raise
                passed = observed(passage, subject, case.reached[0].storage, wire, refused)
            return _settled(case, passed) if self._state() is case.state else None

    def _begin(self, passage: Passage) -> PolicyState:
        state = self._state()
        passage.judged_by(state)
        passage.deny = None
        return state

    def _case(self, passage: Passage, subject: Subject, wire: ForwardWire) -> _Case:
        state = self._begin(passage)
        reached = self._reach.of(state, subject, wire.bucket)
        passage.catalog = reached[0].catalog.name
        return _Case(passage, subject, wire, state, reached)

    def _judged(self, case: _Case) -> Passed:
        try:
            passed = self._enforced(case)
        except Refused as refused:
            if not _is_excused(case, refused.reason):
                raise
            passed = observed(case.passage, case.subject, case.reached[0].storage, case.wire, refused)
        return _settled(case, passed)

    def _enforced(self, case: _Case) -> Passed:
        """Judge the request as the policy has it. Raise Refused."""
        passage, wire = case.passage, case.wire
        forwardable = classify_forwarded(case.reached[0].storage, wire, _rules(case))
        passage.request = request = forwardable.request
        operation = request.operation
        if operation in _OF_BUCKET:
            return Passed(_of_bucket(case), forwardable)
        source = request.copy_source
        judged = self._decide(case, case.reached, request if source is None else replace(request, copy_source=None))
        passage.catalog, passage.table_uuid = judged.catalog, judged.table_uuid
        allow = _allowed(passage, judged)
        if source is not None:
            behind = self._source(case, request, source, allow)
            allow = replace(allow, authority=Together((allow.authority, behind)))
        return Passed(allow, forwardable)

    def _decide(self, case: _Case, reached: tuple[Reached, ...], request: S3Request) -> _Judged:
        """Judge what a request addresses for the volume, or the tables, that it lies in. Raise Refused."""
        state, subject = case.state, case.subject
        addressee = (addressed(request) or ("",))[0]
        for place in reached:
            catalog = place.catalog
            volume = catalog.volumes.find(request.bucket, addressee) if catalog.volumes else None
            if volume is not None:
                check_carried(subject.caller, volume.id)
                decision = decide_volume(state, catalog, subject, volume, request)
                return _Judged(decision, catalog.name, "", volume.rules.keys)
        unowned = ""
        for place in reached:
            catalog = place.catalog
            try:
                found = self._owners(case, catalog, request)
            except Refused as refused:
                # Of several catalogs with tables in one bucket, one owns the key.
                if refused.reason is not Reason.LOCATION_UNOWNED:
                    raise
                unowned = unowned or refused.detail
                continue
            if isinstance(found, Deny):
                return _Judged(found, catalog.name, "", _STRICT)
            owners, standing = found
            if subject.caller.scopes:
                for table in owners:
                    check_carried(subject.caller, table.id, table.uuid)
            decision = decide(state, catalog, subject, owners, request, standing)
            return _Judged(decision, catalog.name, owners[0].uuid if owners else "", _STRICT)
        raise Refused(Reason.LOCATION_UNOWNED, unowned or f"bucket {request.bucket!r}, key {addressee!r}")

    def _owners(
        self, case: _Case, catalog: Catalog, request: S3Request
    ) -> tuple[tuple[Table, ...], Standing | None] | Deny:
        """Return the tables that own what is addressed, as the table-less sign route finds them. Raise Refused."""
        learning = catalog.learning
        if learning is None:
            owners = self._resolver.resolve(catalog, BY_LOCATION, request)
            if not isinstance(owners, tuple):
                # Once it was asked for, the answer is known the next time.
                raise _Question(owners)
            return owners, None
        passage = case.passage
        found = self._learned.resolve(
            catalog, learning, case.subject, BY_LOCATION, request, passage.bearer, passage.carried
        )
        if isinstance(found, Found):
            return found.owners, found.standing
        if isinstance(found, Deny):
            return found
        raise _Question(found)

    def _source(self, case: _Case, request: S3Request, source: ObjectRef, target: Allow) -> Authority:
        """Judge the source of a copy as if it were read, in any table or volume of the same storage. Raise Refused."""
        read = replace(
            request,
            operation=Operation.GET_OBJECT,
            bucket=source.bucket,
            key=source.key,
            copy_source=None,
            conditional=False,
        )
        try:
            reached = self._reach.of(case.state, case.subject, source.bucket)
            judged = self._decide(case, reached, read)
            if judged.keys is KeyRules.STRICT:
                check_key(source.key)
        except Refused as refused:
            if refused.reason in _OF_A_COPY_SOURCE or refused.reason.status > _FORBIDDEN:
                raise
            raise _outside(case.passage, source, target, refused.detail) from None
        if isinstance(judged.decision, Allow):
            return judged.decision.authority
        if judged.decision.reason in _OF_A_COPY_SOURCE:
            raise _refused(case.passage, judged.decision)
        raise _outside(case.passage, source, target, judged.decision.detail)

    async def _bulk(self, case: _Case) -> Passed:
        """Judge the keys of a bulk delete; those that are refused do not keep the others back. Raise Refused."""
        passage = case.passage
        forwardable = classify_forwarded(case.reached[0].storage, case.wire, _rules(case))
        passage.request = request = forwardable.request
        catalogs = [reached.catalog for reached in case.reached]
        return await judge_bulk(
            passage, forwardable, catalogs, lambda keys: self._keys(case, replace(request, delete_keys=keys))
        )

    def _keys(self, case: _Case, request: S3Request) -> Deletable | Deny:
        """Judge keys of a bulk delete that lie in one place; what could not be found out ends the whole request."""
        try:
            judged = self._decide(case, case.reached, request)
            if isinstance(judged.decision, Deny):
                return judged.decision
            check = key_check(request.storage, judged.keys)
            for key in request.delete_keys:
                check(key)
        except Refused as refused:
            if refused.reason.status not in (_FORBIDDEN, _BAD):
                raise
            return Deny(refused.reason, refused.detail)
        return Deletable(judged.decision, judged.catalog, judged.table_uuid)


def _is_excused(case: _Case, reason: Reason) -> bool:
    """Whether a request passes although it is refused, because its caller is only observed."""
    return reason in OBSERVABLE and not case.subject.delegated and case.state.observes(case.subject.caller)


def _settled(case: _Case, passed: Passed) -> Passed:
    """Return what passes, whole where its caller is only observed, and have the passage know it."""
    passage, subject = case.passage, case.subject
    # Who is observed is looked up only where it makes a difference.
    narrowed = passed.refused or passed.allow.write_once
    if narrowed and not subject.delegated and case.state.observes(subject.caller):
        passed = unguarded(passage, subject, case.reached[0].storage, case.wire, passed)
    passage.allow = passed.allow
    if passed.observed is None:
        passage.deny = None
    return passed


def _rules(case: _Case) -> Rules:
    """Return what is open at the place that a request addresses, before it is known what it is."""
    wire = case.wire
    for reached in case.reached:
        if reached.catalog.volumes:
            break
    else:
        return TABLE_RULES
    held = [reached.catalog.volumes for reached in case.reached if reached.catalog.volumes]
    addressee = decoded_key(wire) if wire.raw_key else list_prefix(wire)
    for volumes in held:
        volume = volumes.find(wire.bucket, addressee)
        if volume is not None:
            return volume.rules
    return TABLE_RULES


def _allowed(passage: Passage, judged: _Judged) -> Allow:
    if isinstance(judged.decision, Deny):
        raise _refused(passage, judged.decision)
    return judged.decision


def _refused(passage: Passage, denial: Deny) -> Refused:
    passage.deny = denial
    return Refused(denial.reason, denial.detail)


def _outside(passage: Passage, source: ObjectRef, target: Allow, why: str) -> Refused:
    detail = f"source {f's3://{source.bucket}/{source.key}'!r}: {why}"
    return _refused(passage, Deny(Reason.COPY_SOURCE_OUTSIDE, detail, target.table, target.volume))


def _of_bucket(case: _Case) -> Allow:
    """Judge what is about a bucket alone: a caller who may know of it in one of the catalogs may. Raise Refused."""
    denial = None
    for reached in case.reached:
        decision = decide_bucket(case.state, reached.catalog, case.subject, case.wire.bucket)
        if isinstance(decision, Allow):
            case.passage.catalog = reached.catalog.name
            return decision
        denial = denial or decision
    raise _refused(case.passage, denial or Deny(Reason.NO_READ_DATA))
