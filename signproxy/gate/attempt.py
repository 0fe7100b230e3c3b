"""Begin to judge a request to the S3 listener: find the catalogs that its bucket may mean, and fill an attempt."""

from __future__ import annotations

from time import perf_counter_ns

import msgspec

from signproxy.errors import Reason, Refused, anew
from signproxy.gate.forwarded import BucketsShown, Passed
from signproxy.gate.judgement import Denied, Judgement
from signproxy.gate.request import AskedFor
from signproxy.model import Deny, Principal, Subject
from signproxy.policy.admission import refuse_closed, refuse_stranger
from signproxy.policy.catalog import Catalog
from signproxy.policy.state import PolicyState, Reached
from signproxy.s3.forward_wire import ForwardWire
from signproxy.s3.forwarded import bucket_unknown
from signproxy.s3.request import S3Request

_KEPT = 4096
"""Callers and buckets; each some 300 bytes, and the values that it keeps alive."""

_ORDER = (
    Reason.ENDPOINT_UNKNOWN,
    Reason.CATALOG_NOT_FOR_ISSUER,
    Reason.NOT_IN_SCOPE,
    Reason.PRINCIPAL_UNKNOWN,
    Reason.REMOTE_SIGNING_OFF,
    Reason.CATALOG_FEDERATED,
)
"""How far a catalog came before it was refused; of several the furthest is told."""


class Attempt(msgspec.Struct, gc=False):
    """An attempt to judge a request to the S3 listener: filled from the front, and left as a `Judgement`.

    A request is judged by one policy, or once more as a whole.
    """

    state: PolicyState
    subject: Subject
    asked: AskedFor
    wire: ForwardWire
    decided_ns: int = msgspec.field(default_factory=perf_counter_ns)
    reached: tuple[Reached, ...] = ()
    """The catalogs that its bucket may mean."""
    catalog: str = ""
    table_uuid: str = ""
    operation: str = ""
    request: S3Request | None = None
    beyond: Deny | None = None
    """Why a key of a bulk delete is refused that is not let pass for a caller that is only observed, either."""
    deny: Deny | None = None
    """Why a part of it is refused."""

    def judgement(
        self, passed: Passed | BucketsShown | None = None, *, deny: Deny | None = None, refused: Refused | None = None
    ) -> Judgement:
        """Return what was found, with what may be served, or why nothing may."""
        catalog = self.catalog
        if isinstance(refused, Denied):
            deny, catalog = refused.deny, refused.catalog or catalog
        elif refused is not None:
            # A part of it was refused by the policy before the whole was refused for its grammar.
            deny = self.deny
        return Judgement(
            self.subject, self.asked, self.state.rev, self.state.epoch, self.decided_ns, perf_counter_ns(), catalog,
            self.request, passed.allow if isinstance(passed, Passed) else None, deny, refused, self.table_uuid, passed,
            self.operation,
        )  # fmt: skip


class _Found(msgspec.Struct, frozen=True, gc=False):
    """Everything that a search depends on, and what it found. Holding the values keeps their identities from reuse."""

    state: PolicyState
    caller: Principal
    effective: Principal
    reached: tuple[Reached, ...]


class Reach:
    """The search, and what it found for the very same values before."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], _Found] = {}

    def begin(self, attempt: Attempt) -> None:
        """Note in an attempt which catalogs its bucket may mean. Raise Refused."""
        attempt.reached = reached = self.of(attempt.state, attempt.subject, attempt.wire.bucket)
        attempt.catalog = reached[0].catalog.name

    def of(self, state: PolicyState, subject: Subject, bucket: str) -> tuple[Reached, ...]:
        """Return the catalogs, at least one, all of which keep the bucket in one storage. Raise Refused."""
        caller, effective = subject.caller, subject.effective
        key = (id(caller), id(effective), bucket)
        found = self._found.get(key)
        if found is not None and found.state is state and found.caller is caller and found.effective is effective:
            return found.reached
        reached = _search(state, subject, bucket)
        if len(self._found) >= _KEPT:
            self._found.clear()
        self._found[key] = _Found(state, caller, effective, reached)
        return reached


def _search(state: PolicyState, subject: Subject, bucket: str) -> tuple[Reached, ...]:
    if not state.remote_signing:
        raise Refused(Reason.REMOTE_SIGNING_OFF, "off for the whole system")
    furthest = bucket_unknown(bucket, "no storage lists it, and no volume is for it")
    reached: list[Reached] = []
    for candidate in state.buckets.of(bucket):
        refusal = refusal_of(state, candidate.catalog, subject)
        if refusal is None:
            reached.append(candidate)
        elif _ORDER.index(refusal.reason) > _ORDER.index(furthest.reason):
            furthest = refusal
    if not reached:
        raise anew(furthest)
    if any(other.storage is not reached[0].storage for other in reached):
        claims = ", ".join(f"{other.storage.name!r} of catalog {other.catalog.name!r}" for other in reached)
        raise Refused(Reason.ENDPOINT_UNKNOWN, f"bucket {bucket!r} is claimed by {claims}")
    return tuple(reached)


def refusal_of(state: PolicyState, catalog: Catalog, subject: Subject) -> Refused | None:
    """Return why nothing is forwarded for a subject in a catalog, if that is so."""
    denial = refuse_stranger(state, catalog, subject) or refuse_closed(state, catalog)
    return None if denial is None else Refused(denial.reason, denial.detail)
