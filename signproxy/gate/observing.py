"""Serve callers that are only observed, and remember what they would have been refused for."""

from __future__ import annotations

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.attempt import Attempt
from signproxy.gate.forwarded import Observed, Passed
from signproxy.gate.judgement import Denied, denial_of
from signproxy.gate.scope import check_carried
from signproxy.model import Allow, Ceiling, Deny, Subject
from signproxy.s3.forwarded import classify_forwarded, key_check
from signproxy.s3.rules import KeyRules, OperationsAllowed, Rules

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


def is_excused(subject: Subject, denial: Deny) -> bool:
    """Whether a refusal is one that a caller who is only observed is spared.

    What is shown with a scope reaches no further for that: where nothing is known to lie in the scope, it is refused.
    """
    if denial.reason not in OBSERVABLE:
        return False
    if not subject.caller.scopes:
        return True
    judged = denial.table or denial.volume
    if judged is None:
        return False
    try:
        check_carried(subject.caller, judged)
    except Refused:
        return False
    return True


def observed(attempt: Attempt, refused: Refused) -> Passed:
    """Let pass what the policy refuses to a caller that is only observed, if it is well-formed.

    Raise Refused for every other caller, and for what cannot be let pass.
    """
    denial = denial_of(refused)
    if not is_excused(attempt.subject, denial) or attempt.beyond is not None or not _is_observed(attempt):
        raise refused
    if isinstance(refused, Denied):
        # What it would have been refused for is told, even if it turns out not to be well-formed.
        attempt.deny = denial
    storage = attempt.reached[0].storage
    forwardable = classify_forwarded(storage, attempt.wire, _OPEN_RULES)
    if forwardable.request.copy_source is not None and attempt.subject.caller.scopes:
        # What is copied was not judged, and may lie outside of the scope.
        raise refused
    if attempt.subject.ceiling is not Ceiling.NONE and forwardable.request.operation.needs_write:
        # What was shown only reads, whatever its caller is spared.
        raise refused
    check = key_check(storage, _OPEN_RULES.keys)
    for key in forwardable.request.delete_keys:
        check(key)
    attempt.request = forwardable.request
    if isinstance(refused, Denied) and refused.catalog:
        attempt.catalog = refused.catalog
    authority = Observed(attempt.subject.caller.name)
    return Passed(Allow(denial.table, authority, volume=denial.volume), forwardable, observed=denial)


def unguarded(attempt: Attempt, passed: Passed) -> Passed:
    """Return what only a part, or a condition, was to be served of: whole, where its caller is only observed."""
    if attempt.beyond is not None or not _is_observed(attempt):
        # A key that a scope or a ceiling keeps back is kept back, and nothing beside it is let pass for its sake.
        return passed
    if passed.refused and attempt.deny is not None:
        return observed(attempt, Denied(attempt.deny))
    return replace(passed, allow=replace(passed.allow, write_once=False))


def _is_observed(attempt: Attempt) -> bool:
    # Looked up only where it makes a difference.
    return not attempt.subject.delegated and attempt.state.observes(attempt.subject.caller)
