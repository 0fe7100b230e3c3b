"""Define the audit event as it stands on the wire: one flat JSON object per HTTP request."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from time import gmtime, strftime

import msgspec

SCHEMA = "signproxy.audit/1"

MAX_USER_AGENT_BYTES = 256
"""A caller writes it freely; what identifies a client stands at its beginning."""
MAX_CONTEXT_BYTES = 128
"""An application's name or a query's id; engines make theirs of some 40."""
MAX_TEXT_BYTES = 1024
"""S3's longest key. Longer text in an event is a caller's, who was refused for it."""


class Kind(Enum):
    """What an event is about."""

    SIGN = "sign"
    FORWARD = "forward"
    ISSUE = "issue"
    """A key for the S3 listener, issued here. Such events said `vend` before, without a method."""
    VEND = "vend"
    """Keys that are good for a table, by the call that asks for nothing else; always with its method. Those in the
    answer to another catalog call are told of in that call's event, by `access`, `access_key_id` and `expires_at`."""
    REFRESH = "refresh"
    CONFIG = "config"
    CATALOG = "catalog"
    RELOAD = "reload"
    SEGMENT_START = "segment_start"
    SEGMENT_END = "segment_end"


class Verdict(Enum):
    """How a request ended: served, refused, or failed for a reason that was not the caller's."""

    ALLOW = "allow"
    DENY = "deny"
    ERROR = "error"


class AuditEvent(
    msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="schema", tag=SCHEMA, weakref=False
):
    """One event. What is empty is left out; `boot_id`, `seq` and `ts` are the trail's to fill in.

    Not frozen, for that alone: it is handed over to the trail, and nothing else touches it after that.
    Never holds tokens, signatures or secrets.
    """

    event_id: str
    boot_id: str = ""
    seq: int = 0
    """Counts from 1 per boot without holes: a hole is a lost event."""
    ts: str = ""
    """When the outcome was known."""
    decided_at: str = ""
    """When it was decided, in the form of `ts`; left out where `ts` is less than a second later."""
    kind: Kind
    request_id: str = ""

    principal: str = ""
    effective_principal: str = ""
    """Left out where it is the principal."""
    view_chain: tuple[str, ...] = ()
    issuer: str = ""
    roles: tuple[str, ...] = ()
    remote_ip: str = ""
    user_agent: str = ""
    application: str = ""
    """The client's own word for who asks, which nothing proves: any client can give any name. Never judged by."""
    query_id: str = ""
    """The client's own word for what it asks for, as little proved."""
    pod_namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    pod_node: str = ""

    catalog: str = ""
    namespace: str = ""
    table: str = ""
    table_uuid: str = ""
    volume: str = ""
    """The volume of the catalog that was judged for, where that is no table."""
    bucket: str = ""
    key: str = ""
    """Decoded; of a bulk delete the first one."""
    prefixes: tuple[str, ...] = ()
    key_count: int = 0
    keys_sha256: str = ""
    """Over all keys of a bulk delete, each followed by a line feed."""
    method: str = ""
    call: str = ""
    """The kind of a catalog call: `load_table`."""
    s3_op: str = ""
    access: str = ""

    decision: Verdict
    reason: str
    """A code of `errors.Reason`."""
    rule_id: str = ""
    policy_rev: str
    """The policy that decided, even where another is in force at `ts`; of a request that was never judged, the one that
    was in force when it arrived."""
    policy_epoch: int = 0
    http_status: int
    observed: str = ""
    """The code of `errors.Reason` that would have refused, had the principal not only been observed."""
    detail: str = ""
    """For the operator: the fact behind the refusal."""
    count: int = 1
    """Requests that this event stands for; more than one only for refusals of unknown callers, or for too much."""

    access_key_id: str = ""
    """Its last four characters."""
    stamped: bool = False
    """What was signed, or sent to the store, carries this event's id in its query, and so does the store's log."""
    cacheable: bool = False
    """The client may use the signature again for a short time, so several requests may carry one stamp."""
    expires_at: str = ""
    policy_sha256: str = ""
    """Of the session policy that vended keys were made with, where the store was given one."""
    session_name: str = ""
    """How the store's own log calls vended keys, where it does."""
    unsafe_storage: bool = False
    """Signed although the store does not check unsigned headers: the operator accepted it by name."""

    upstream_request_id: str = ""
    """The store's own id of a forwarded request, as its log has it."""
    upstream_repeats: int = 0
    """Further requests that the store was sent, with the same stamp: again after a dead connection, or for the next
    page of a list of buckets."""
    upstream_status: int = 0
    """What the store answered; `http_status` is what the client was told."""
    upstream_result: str = ""
    """What the store said in the body of an answer with status 200, of a completed upload or a copy."""
    payload: str = ""
    """The payload mode of a forwarded body, as the client named it."""
    checksum: str = ""
    """The checksum that was verified on its way."""
    bytes_in: int = 0
    """Of bodies: from the client."""
    bytes_out: int = 0
    aborted: str = ""
    """Who ended a conversation in its middle: `client` or `upstream`."""
    refused_keys: int = 0
    """Keys of a bulk delete that were kept back; `key_count` has those that were sent."""

    total_us: int = 0
    authz_us: int = 0
    sign_us: int = 0
    connect_us: int = 0
    first_byte_us: int = 0
    """Until the head of the store's answer."""
    upstream_us: int = 0


# Times come in order and a second holds thousands of events: the current one and a few expiries.
@lru_cache(maxsize=8)
def rfc3339(unix_time: int) -> str:
    """Write a time in UTC to the second."""
    return f"{to_the_second(unix_time)}Z"


# Times come in order and a second holds thousands of events: the current one and a few expiries.
@lru_cache(maxsize=8)
def to_the_second(unix_time: int) -> str:
    """Write a time in UTC to the second, without its zone."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(unix_time))
