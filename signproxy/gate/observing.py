"""Serve callers that are only observed, and remember what they would have been refused for."""

from __future__ import annotations

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.forwarded import Observed, Passed
from signproxy.gate.passage import Passage
from signproxy.model import Allow, Deny, Subject
from signproxy.s3.forwarded import ForwardWire, KeyRules, OperationsAllowed, Rules, classify_forwarded, key_check
from signproxy.s3.storage import Storage

_OPEN_RULES = Rules(OperationsAllowed.ALL, KeyRules.S3)
"""What is open to callers that are only observed: a message must be well-formed, and no more."""

OBSERVABLE = frozenset(
    {
        Reason.KEY_DOT_SEGMENT,
        Reason.KEY_EMPTY_SEGMENT,
        Reason.KEY_PATH_PARAMETER,
        Reason.KEY_CHARACTER,
        Reason.METHOD_UNKNOWN,
        Reason.OPERATION_REFUSED,
        Reason.OPERATION_UNKNOWN,
        Reason.LIST_PREFIX,
        Reason.HEADER_REFUSED,
        Reason.HEADER_VALUE,
        Reason.COPY_SOURCE,
        Reason.DELETE_BODY,
        Reason.TABLE_UNKNOWN,
        Reason.LOCATION_UNOWNED,
        Reason.LOCATION_OUTSIDE_ROOTS,
        Reason.LOCATION_DISPUTED,
        Reason.LOCATION_UNVOUCHED,
        Reason.NO_REMOTE_SIGN,
        Reason.NO_READ_DATA,
        Reason.NO_WRITE_DATA,
        Reason.NO_MANAGE,
        Reason.OUTSIDE_TABLE,
        Reason.COPY_SOURCE_OUTSIDE,
        Reason.METADATA_PROTECTED,
        Reason.METADATA_SEALED,
        Reason.WRITE_ONCE,
    }
)
"""What the policy refuses, or the table of operations. Not among them: what a key or a ceiling narrows, who is not
known, and what could not be found out."""


def observed(passage: Passage, subject: Subject, storage: Storage, wire: ForwardWire, refused: Refused) -> Passed:
    """Let pass what the policy refuses, as long as it is well-formed. Raise Refused."""
    denial = passage.deny or Deny(refused.reason, refused.detail)
    forwardable = classify_forwarded(storage, wire, _OPEN_RULES)
    check = key_check(storage, _OPEN_RULES.keys)
    for key in forwardable.request.delete_keys:
        check(key)
    passage.request = forwardable.request
    authority = Observed(subject.caller.name)
    return Passed(Allow(denial.table, authority, volume=denial.volume), forwardable, observed=denial)


def unguarded(passage: Passage, subject: Subject, storage: Storage, wire: ForwardWire, passed: Passed) -> Passed:
    """Serve what only a part, or a condition, was to be served of."""
    if passed.refused and passage.deny is not None:
        return observed(passage, subject, storage, wire, Refused(passage.deny.reason, passage.deny.detail))
    return replace(passed, allow=replace(passed.allow, write_once=False))
