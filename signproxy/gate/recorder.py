"""Close each passage with exactly one audit event and its metrics, after the outcome is known."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from time import perf_counter_ns

from signproxy.audit.event import AuditEvent, Verdict, rfc3339
from signproxy.audit.trail import AuditTrail
from signproxy.errors import Reason
from signproxy.gate.passage import Passage
from signproxy.model import NamedTable, Principal, TableId
from signproxy.policy.state import PolicyState
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request
from signproxy.telemetry.metrics import Metrics

_LAST_CHARACTERS = 4
_ALLOWED = Reason.ALLOWED.code
# Looking a member up in its class calls Python code; the hot path does without.
_ALLOW = Verdict.ALLOW
_DELETE_OBJECTS = Operation.DELETE_OBJECTS


class Recorder:
    """Turn a passage into its event. The only place that writes events of requests."""

    __slots__ = ("_metrics", "_state", "_trail")

    def __init__(self, trail: AuditTrail, metrics: Metrics, state: Callable[[], PolicyState]) -> None:
        self._trail = trail
        self._metrics = metrics
        self._state = state

    def allowed(self, passage: Passage) -> None:
        """Record that the request is served; raises if the trail does not take it, and nothing may be served."""
        now = perf_counter_ns()
        allow = passage.allow
        event = self._event(passage, now, _ALLOW, _ALLOWED, 200)
        if allow is not None:
            event.rule_id = allow.authority.rule_id
            event.unsafe_storage = allow.unsafe_storage
            event.access_key_id = passage.access_key_id[-_LAST_CHARACTERS:]
            event.stamped = passage.stamped
            event.expires_at = rfc3339(passage.expires_at)
            event.cacheable = passage.cacheable
            event.authz_us = (passage.judged_ns - passage.started_ns) // 1000
            event.sign_us = (now - passage.judged_ns) // 1000
            self._metrics.stages(event.authz_us, event.sign_us)
        self._trail.accept(event)
        passage.closed = True
        self._metrics.request(event.s3_op or passage.kind.value, "allow", _ALLOWED)
        self._metrics.duration(event.total_us)

    def refused(self, passage: Passage, reason: Reason, detail: str) -> None:
        """Record a refusal or failure; a passage that is closed already has had its event."""
        if passage.closed:
            return
        passage.closed = True
        verdict = Verdict.DENY if reason.status in _DENIALS else Verdict.ERROR
        event = self._event(passage, perf_counter_ns(), verdict, reason.code, reason.status)
        event.detail = detail
        if passage.request is None and passage.wire is not None:
            # Not believed, but all that is known of what was asked for.
            event.method = passage.wire.method
            event.detail = f"{detail}; uri {passage.wire.uri!r}"
        if passage.subject is None:
            # Nobody is known yet: anyone could fill the disk, so these have a budget of their own.
            self._trail.accept_anonymous(event)
        elif reason is not Reason.AUDIT_UNAVAILABLE:
            # The trail itself keeps count of the requests that it turned away.
            self._trail.accept(event)
        self._metrics.request(event.s3_op or passage.kind.value, verdict.value, event.reason)
        self._metrics.duration(event.total_us)

    def _event(self, passage: Passage, now: int, verdict: Verdict, reason: str, status: int) -> AuditEvent:
        state = self._state()
        event = AuditEvent(
            event_id=passage.event_id,
            kind=passage.kind,
            request_id=passage.request_id,
            remote_ip=passage.remote_ip,
            user_agent=passage.user_agent,
            catalog=passage.catalog,
            decision=verdict,
            reason=reason,
            policy_rev=state.rev,
            policy_epoch=state.epoch,
            http_status=status,
            total_us=(now - passage.started_ns) // 1000,
        )
        subject = passage.subject
        if subject is not None:
            _who(event, subject.caller)
            if subject.delegated:
                event.effective_principal = subject.effective.name
                event.view_chain = subject.chain
        request = passage.request
        if request is not None:
            _what(event, request)
        _table(event, passage)
        return event


_DENIALS = frozenset({400, 401, 403, 404, 405, 413, 429})


def _who(event: AuditEvent, caller: Principal) -> None:
    event.principal = caller.name
    event.issuer = caller.issuer
    event.roles = caller.roles
    pod = caller.pod
    if pod is not None:
        event.pod_namespace = pod.namespace
        event.pod_name = pod.name
        event.pod_uid = pod.uid
        event.pod_node = pod.node


def _what(event: AuditEvent, request: S3Request) -> None:
    operation = request.operation
    event.bucket = request.bucket
    event.method = request.method
    event.s3_op = operation.s3_name
    event.access = operation.access_name
    event.key = request.key
    if request.prefix:
        event.prefixes = (request.prefix,)
    if operation is _DELETE_OBJECTS:
        keys = request.delete_keys
        event.key = keys[0]
        event.key_count = len(keys)
        event.keys_sha256 = hashlib.sha256("".join([f"{key}\n" for key in keys]).encode()).hexdigest()


def _table(event: AuditEvent, passage: Passage) -> None:
    table: TableId | None = None
    if passage.allow is not None:
        table = passage.allow.table
    elif passage.deny is not None:
        table = passage.deny.table
    if table is not None:
        event.table_uuid = passage.table_uuid
        event.namespace = table.namespace
        event.table = table.name
    elif isinstance(passage.target, NamedTable):
        event.namespace = passage.target.namespace
        event.table = passage.target.name
