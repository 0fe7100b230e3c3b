"""Make the event of a request of the three values that say all of it: what came, what was judged, what became of it."""

from __future__ import annotations

import hashlib
from time import time

from signproxy.audit.encode import cut
from signproxy.audit.event import MAX_CONTEXT_BYTES, AuditEvent, to_the_second
from signproxy.gate.forwarded import Passed
from signproxy.gate.judgement import Judgement
from signproxy.gate.outcome import HandedOut, Outcome, StoreOutcome
from signproxy.gate.request import NOTHING_ASKED, Request
from signproxy.model import NamedTable, Subject
from signproxy.s3.request import S3Request

_APART = 1_000_000_000
"""Nanoseconds from the decision to the event; an event that follows sooner says nothing more of the decision's time."""
APP_MARK = " app/"
"""Behind it the AWS SDKs put what AWS_SDK_UA_APP_ID says; that holds no space."""


def event_of(request: Request, judgement: Judgement, outcome: Outcome, now: int) -> AuditEvent:
    """Return the event of a request; `now` is when it ended."""
    elapsed = now - judgement.decided_ns
    event = AuditEvent(
        event_id=request.event_id,
        kind=request.kind,
        request_id=request.request_id,
        remote_ip=request.remote_ip,
        user_agent=request.user_agent,
        catalog=judgement.catalog,
        decision=outcome.verdict,
        reason=outcome.reason._value_.code,
        policy_rev=judgement.policy_rev,
        policy_epoch=judgement.policy_epoch,
        # A call costs each request more than the comparison.
        decided_at=decided_at(elapsed) if elapsed >= _APART else "",
        http_status=outcome.status,
        total_us=(now - request.started_ns) // 1000,
    )
    # Python makes a dictionary of more than fifteen arguments by name, which costs more than all of this.
    event.detail = outcome.detail
    event.access_key_id = outcome.access_key_id
    event.expires_at = outcome.expires_at
    event.stamped = outcome.stamped
    event.cacheable = outcome.cacheable
    asked = judgement.asked
    event.application = asked.application and bounded(asked.application)
    if asked.query_id:
        event.query_id = bounded(asked.query_id)
    call = request.call or judgement.operation
    if call:
        event.call = call
        event.method = request.method
    subject = judgement.subject or outcome.subject
    if subject is not None:
        caller = subject.caller
        event.principal = caller.name
        event.issuer = caller.issuer
        event.roles = caller.roles
        if caller.pod is not None or caller is not subject.effective:
            _more_of_who(event, subject)
    s3 = judgement.request
    if s3 is not None:
        operation = s3.operation
        event.bucket = s3.bucket
        event.key = s3.key
        event.method = s3.method
        event.s3_op = s3.named or operation.s3_name
        event.access = operation.access_name
        if not s3.key:
            _many_keys(event, s3)
    judged = judgement.allow or judgement.deny
    if judged is not None and judged.table is not None:
        event.table_uuid = judgement.table_uuid
        event.namespace = judged.table.namespace
        event.table = judged.table.name
    elif judged is not None and judged.volume is not None:
        event.volume = judged.volume.name
    elif isinstance(asked.target, NamedTable):
        event.namespace = asked.target.namespace
        event.table = asked.target.name
    if outcome.vended is not None:
        _as_vended(event, outcome.vended)
    if isinstance(outcome, StoreOutcome):
        _at_the_store(event, outcome)
    return event


def as_passed(event: AuditEvent, passed: Passed) -> None:
    """Say what of a request was not served, or would not have been."""
    if passed.observed is not None:
        event.observed = passed.observed.reason.code
        event.detail = event.detail or passed.observed.detail
    event.refused_keys = len(passed.refused)


def bare_event_of(request: Request, judgement: Judgement, outcome: Outcome, now: int) -> AuditEvent:
    """Return what can be said of any request."""
    bare = Judgement(
        judgement.subject, NOTHING_ASKED, judgement.policy_rev, judgement.policy_epoch, judgement.decided_ns
    )
    return event_of(request, bare, Outcome(status=outcome.status, verdict=outcome.verdict, reason=outcome.reason), now)


def decided_at(elapsed_ns: int) -> str:
    """Return when it was so long ago, as events have it; empty where `ts` itself says it to the second."""
    if elapsed_ns < _APART:
        return ""
    at = time() - elapsed_ns / 1e9
    second = int(at)
    return f"{to_the_second(second)}.{int((at - second) * 1_000_000):06d}Z"


def _as_vended(event: AuditEvent, vended: HandedOut) -> None:
    event.access_key_id = vended.access_key_id
    event.access = vended.access
    event.expires_at = vended.expires_at
    event.prefixes = vended.prefixes
    event.policy_sha256 = vended.policy_digest
    event.session_name = vended.session_name


def _at_the_store(event: AuditEvent, outcome: StoreOutcome) -> None:
    event.upstream_repeats = max(outcome.requests - 1, 0)
    event.upstream_status = outcome.upstream_status
    event.upstream_request_id = outcome.upstream_request_id
    event.upstream_result = outcome.completed
    event.payload = outcome.payload
    event.checksum = outcome.checksum
    event.bytes_in = outcome.bytes_in
    event.bytes_out = outcome.bytes_out
    event.aborted = outcome.aborted
    event.connect_us = outcome.connect_us
    event.first_byte_us = outcome.first_byte_us
    event.upstream_us = outcome.upstream_us
    if outcome.requests and not outcome.upstream_us:
        # The quick way sent it when it came, and it was refused before anything measured the store. The pipeline reads
        # in this field that the store was asked.
        event.upstream_us = max(event.total_us, 1)


def _more_of_who(event: AuditEvent, subject: Subject) -> None:
    if subject.delegated:
        event.effective_principal = subject.effective.name
        event.view_chain = subject.chain
    pod = subject.caller.pod
    if pod is not None:
        event.pod_namespace = pod.namespace
        event.pod_name = pod.name
        event.pod_uid = pod.uid
        event.pod_node = pod.node


def _many_keys(event: AuditEvent, request: S3Request) -> None:
    if request.prefix:
        event.prefixes = (request.prefix,)
    keys = request.delete_keys
    if keys:
        event.key = keys[0]
        event.key_count = len(keys)
        event.keys_sha256 = hashlib.sha256("".join([f"{key}\n" for key in keys]).encode()).hexdigest()


def bounded(said: str) -> str:
    """Return as much of the client's word as is recorded."""
    return cut(said, MAX_CONTEXT_BYTES)


def application_in(agent: str) -> str:
    """Return the application that the user agent of an S3 request names, as every AWS SDK can.

    That of a sign call is an HTTP library's, and says nothing.
    """
    at = agent.find(APP_MARK)
    if at < 0:
        return ""
    return bounded(agent[at + len(APP_MARK) :].partition(" ")[0])
