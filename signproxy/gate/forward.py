"""Judge what comes to the S3 listener: find volume or table by location, classify, resolve, decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.attempt import Attempt, Reach
from signproxy.gate.buckets import shown
from signproxy.gate.bulk_delete import Deletable, judge_bulk
from signproxy.gate.forwarded import Passed, StoreBucket, Together
from signproxy.gate.judgement import Denied, Judged, Judgement, OpenQuestion
from signproxy.gate.observing import observed, unguarded
from signproxy.gate.request import AskedFor
from signproxy.gate.scope import check_carried
from signproxy.gate.turns import in_pieces, one_at_a_time, read_in_pieces
from signproxy.inventory.learned.asked import Found
from signproxy.inventory.learned.learned_resolver import LearnedResolver
from signproxy.inventory.learned.unquestioned import Unquestioned
from signproxy.model import BY_LOCATION, Allow, Authority, Deny, Subject
from signproxy.policy.catalog import Catalog
from signproxy.policy.containment import addressed
from signproxy.policy.decide import decide
from signproxy.policy.decide_volume import decide_bucket, decide_volume
from signproxy.policy.neighbours import Neighbours, neighbours
from signproxy.policy.resolver import TableResolver
from signproxy.policy.rights import Standing
from signproxy.policy.state import PolicyState, Reached
from signproxy.policy.table import Table
from signproxy.s3.forward_wire import ForwardWire, decoded_key, list_prefix
from signproxy.s3.forwarded import FORWARDED, classify_forwarded, key_check
from signproxy.s3.key import check_key
from signproxy.s3.operation import Operation
from signproxy.s3.request import ObjectRef, S3Request
from signproxy.s3.rules import KeyRules, Rules

_TIMES = 8
"""How often a bulk delete is judged anew because the policy changed while it was judged."""

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


class _Verdict(NamedTuple):
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

    def judge(self, subject: Subject, asked: AskedFor) -> Judged | Awaitable[Judged]:
        """Say by the policy in force what may be forwarded, or shown; awaitable for what is read or judged for long."""
        wire = asked.forward
        assert wire is not None  # noqa: S101 - nothing else is forwarded
        if not wire.bucket:
            return self._buckets(subject, asked, wire, None)
        if wire.body is not None:
            return self._by_body(subject, asked, wire)
        attempt = Attempt(self._state(), subject, asked, wire)
        try:
            self._reach.begin(attempt)
            try:
                passed = self._enforced(attempt)
            except Refused as refused:
                passed = observed(attempt, refused)
            return _passes(attempt, passed)
        except (_Question, Refused) as error:
            return _unpassed(attempt, error)

    def buckets(self, judged: Judgement, told: Sequence[StoreBucket]) -> Awaitable[Judgement]:
        """Return the buckets to show once stores told of theirs, by the policy now in force."""
        wire, subject = judged.asked.forward, judged.subject
        assert wire is not None  # noqa: S101 - it was judged before
        assert subject is not None  # noqa: S101 - as above
        return self._buckets(subject, judged.asked, wire, told)

    def neighbours(self, subject: Subject, asked: AskedFor) -> tuple[Judgement, Neighbours, Unquestioned | None] | None:
        """Judge a request by the policy now in force; return for which others that holds, where it does.

        Where the table was learned it holds as long as the third value does: an upstream's word may end at any time.
        """
        wire = asked.forward
        assert wire is not None  # noqa: S101 - it was forwarded
        try:
            reached = self._reach.of(self._state(), subject, wire.bucket)
        except Refused:
            return None
        is_learned = any(place.catalog.learning is not None for place in reached)
        if wire.body is not None or (is_learned and len(reached) > 1):
            # Of several catalogs each would have to be asked again whether the key is none of its.
            return None
        judged = self.judge(subject, asked)
        if isinstance(judged, OpenQuestion) and isinstance(judged.answer, Coroutine):
            judged.answer.close()
        if not isinstance(judged, Judgement) or not isinstance(judged.passed, Passed):
            return None
        passed = judged.passed
        request = passed.forwardable.request
        if passed.observed is not None or wire.raw_key != request.key:
            return None
        if passed.forwardable.target != request.canonical_path:
            # An escaped slash is one of the key's, and none of the path's.
            return None
        found = neighbours(reached, request)
        if found is None or not is_learned or passed.allow.table is None:
            return None if found is None else (judged, found, None)
        table = self._learned.unquestioned(reached[0].catalog, subject, request.bucket, request.key)
        return None if table is None else (judged, found, table)

    async def _buckets(
        self, subject: Subject, asked: AskedFor, wire: ForwardWire, told: Sequence[StoreBucket] | None
    ) -> Judgement:
        async with one_at_a_time():
            attempt = Attempt(self._state(), subject, asked, wire)
            try:
                return attempt.judgement(await in_pieces(shown(attempt, told)))
            except Refused as refused:
                return attempt.judgement(refused=refused.with_traceback(None))

    async def _by_body(self, subject: Subject, asked: AskedFor, wire: ForwardWire) -> Judged:
        """Judge a request by its body, which takes a while. One at a time: others have their turn in between.

        It is judged anew where the policy changed meanwhile: what was granted when it began may be revoked.
        """
        if wire.body and wire.deletes is None:
            async with one_at_a_time():
                wire = replace(wire, deletes=await read_in_pieces(wire.body, FORWARDED))
            asked = replace(asked, forward=wire)
        attempt = Attempt(self._state(), subject, asked, wire)
        for _ in range(_TIMES):
            async with one_at_a_time():
                attempt = Attempt(self._state(), subject, asked, wire)
                try:
                    self._reach.begin(attempt)
                    try:
                        passed = await self._bulk(attempt)
                    except Refused as refused:
                        passed = observed(attempt, refused)
                    judged = _passes(attempt, passed)
                except (_Question, Refused) as error:
                    return _unpassed(attempt, error)
                if self._state() is attempt.state:
                    return judged
        return attempt.judgement(refused=Refused(Reason.UPSTREAM_UNAVAILABLE, "the policy changes all the time"))

    def _enforced(self, attempt: Attempt) -> Passed:
        """Judge the request as the policy has it. Raise Refused."""
        forwardable = classify_forwarded(attempt.reached[0].storage, attempt.wire, _rules(attempt))
        attempt.request = request = forwardable.request
        operation = request.operation
        if operation in _OF_BUCKET:
            return Passed(_of_bucket(attempt), forwardable)
        source = request.copy_source
        judged = self._decide(
            attempt, attempt.reached, request if source is None else replace(request, copy_source=None)
        )
        attempt.catalog, attempt.table_uuid = judged.catalog, judged.table_uuid
        allow = judged.decision
        if isinstance(allow, Deny):
            raise Denied(allow, judged.catalog)
        if source is not None:
            behind = self._source(attempt, request, source, allow)
            allow = replace(allow, authority=Together((allow.authority, behind)))
        return Passed(allow, forwardable)

    def _decide(self, attempt: Attempt, reached: tuple[Reached, ...], request: S3Request) -> _Verdict:
        """Judge what a request addresses for the volume, or the tables, that it lies in. Raise Refused."""
        state, subject = attempt.state, attempt.subject
        for place in reached:
            if place.volumes is None:
                continue
            catalog, volume = place.catalog, place.volumes.find(request.bucket, _addressee(request))
            if volume is not None:
                check_carried(subject.caller, volume.id)
                decision = decide_volume(state, catalog, subject, volume, request)
                return _Verdict(decision, catalog.name, "", volume.rules.keys)
        unowned = ""
        # As `scopes` would say, which has to be made.
        is_limited = subject.caller.scope is not None or subject.caller.key_scope is not None
        for place in reached:
            catalog = place.catalog
            try:
                found = self._owners(attempt, catalog, request)
            except Refused as refused:
                # Of several catalogs with tables in one bucket, one owns the key.
                if refused.reason is not Reason.LOCATION_UNOWNED:
                    raise
                unowned = unowned or refused.detail
                continue
            if isinstance(found, Deny):
                return _Verdict(found, catalog.name, "", _STRICT)
            owners, standing = found
            if is_limited:
                for table in owners:
                    check_carried(subject.caller, table.id, table.uuid)
            decision = decide(state, catalog, subject, owners, request, standing)
            return _Verdict(decision, catalog.name, owners[0].uuid if owners else "", _STRICT)
        raise Refused(Reason.LOCATION_UNOWNED, unowned or f"bucket {request.bucket!r}, key {_addressee(request)!r}")

    def _owners(
        self, attempt: Attempt, catalog: Catalog, request: S3Request
    ) -> tuple[tuple[Table, ...], Standing | None] | Deny:
        """Return the tables that own what is addressed, as the table-less sign route finds them. Raise Refused."""
        learning = catalog.learning
        if learning is None:
            owners = self._resolver.resolve(catalog, BY_LOCATION, request)
            if not isinstance(owners, tuple):
                # Once it was asked for, the answer is known the next time.
                raise _Question(owners)
            return owners, None
        asked = attempt.asked
        found = self._learned.resolve(
            catalog, learning, attempt.subject, BY_LOCATION, request, asked.bearer, asked.carried
        )
        if isinstance(found, Found):
            return found.owners, found.standing
        if isinstance(found, Deny):
            return found
        raise _Question(found)

    def _source(self, attempt: Attempt, request: S3Request, source: ObjectRef, target: Allow) -> Authority:
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
            reached = self._reach.of(attempt.state, attempt.subject, source.bucket)
            judged = self._decide(attempt, reached, read)
            if judged.keys is KeyRules.STRICT:
                check_key(source.key)
        except Refused as refused:
            if refused.reason in _OF_A_COPY_SOURCE or refused.reason.status > _FORBIDDEN:
                raise
            raise _outside(source, target, refused.detail) from None
        if isinstance(judged.decision, Allow):
            return judged.decision.authority
        if judged.decision.reason in _OF_A_COPY_SOURCE:
            raise Denied(judged.decision)
        raise _outside(source, target, judged.decision.detail)

    async def _bulk(self, attempt: Attempt) -> Passed:
        """Judge the keys of a bulk delete; those that are refused do not keep the others back. Raise Refused."""
        forwardable = classify_forwarded(attempt.reached[0].storage, attempt.wire, _rules(attempt))
        attempt.request = request = forwardable.request
        return await judge_bulk(
            attempt, forwardable, lambda keys: self._keys(attempt, replace(request, delete_keys=keys))
        )

    def _keys(self, attempt: Attempt, request: S3Request) -> Deletable | Deny:
        """Judge keys of a bulk delete that lie in one place; what could not be found out ends the whole request."""
        try:
            judged = self._decide(attempt, attempt.reached, request)
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


def _passes(attempt: Attempt, passed: Passed) -> Judgement:
    """Return the judgement of what passed, whole where its caller is only observed. Raise Refused."""
    if passed.refused or passed.allow.write_once:
        passed = unguarded(attempt, passed)
    return attempt.judgement(passed, deny=passed.observed)


def _unpassed(attempt: Attempt, error: _Question | Refused) -> Judged:
    """Return what is to be asked, or why nothing may be served."""
    if isinstance(error, _Question):
        return OpenQuestion(attempt.judgement(), error.answer)
    return attempt.judgement(refused=error.with_traceback(None))


def _rules(attempt: Attempt) -> Rules:
    """Return what is open at the place that a request addresses, before it is known what it is."""
    wire = attempt.wire
    for place in attempt.reached:
        if place.volumes is not None:
            volume = place.volumes.find(wire.bucket, decoded_key(wire) if wire.raw_key else list_prefix(wire))
            if volume is not None:
                return volume.rules
    return TABLE_RULES


def _addressee(request: S3Request) -> str:
    """Return the first key that a request addresses, or the prefix of a list."""
    return (addressed(request) or ("",))[0]


def _outside(source: ObjectRef, target: Allow, why: str) -> Denied:
    detail = f"source {f's3://{source.bucket}/{source.key}'!r}: {why}"
    return Denied(Deny(Reason.COPY_SOURCE_OUTSIDE, detail, target.table, target.volume))


def _of_bucket(attempt: Attempt) -> Allow:
    """Judge what is about a bucket alone: a caller who may know of it in one of the catalogs may. Raise Refused."""
    denial = None
    for reached in attempt.reached:
        decision = decide_bucket(attempt.state, reached.catalog, attempt.subject, attempt.wire.bucket)
        if isinstance(decision, Allow):
            attempt.catalog = reached.catalog.name
            return decision
        denial = denial or decision
    raise Denied(denial or Deny(Reason.NO_READ_DATA))
