"""Write the page of reason codes."""

from __future__ import annotations

from signproxy.errors import Check, Reason
from tools.docs.markdown import code, table

_INTRODUCTION = """\
# Reason codes

Every refusal has one reason code. It stands in the audit trail, in the metric `signproxy_requests_total` and in the
output of `signproxy explain`. What the caller is told is the message alone, so that it does not learn of other callers'
tables; "what it means" and "what to do" are for operators. A code keeps its meaning between versions.

The checks run in the order of this page, and the first that fails decides. On the S3 listener errors are S3's XML with
S3's own codes and, where S3 has words for it, its words; what ends in the middle of a body ends the connection.
Elsewhere errors are answered as Iceberg clients read them, `{"error": {"message": …, "type": …, "code": …}}` with
`request_id` beside them, by which `signproxy explain --event` finds the request.
"""

_CHECKS = {
    Check.ROUTE: "Is it a route?",
    Check.LIMIT: "Is it within the limits?",
    Check.TOKEN: "Who is it?",
    Check.MESSAGE: "Is it a sign request?",
    Check.CATALOG: "Does the catalog sign?",
    Check.ENDPOINT: "Does the URI address a storage of the catalog?",
    Check.URI: "Does every store read the URI alike?",
    Check.OPERATION: "Is it an operation that is signed?",
    Check.HEADERS: "Do the headers only read or write the object?",
    Check.BODY: "Is the body what is signed?",
    Check.TABLE: "Which table or volume is it?",
    Check.PRIVILEGE: "Is it granted?",
    Check.LOCATION: "Does it stay inside the table?",
    Check.METADATA: "Does it leave the table's metadata alone?",
    Check.STORAGE: "Is the storage safe to write to?",
    Check.CREDENTIALS: "Are there keys to sign with?",
    Check.STORE: "Does the store answer?",
    Check.AUDIT: "Can it be recorded and answered?",
}


def page() -> str:
    """Return the page."""
    parts = [_INTRODUCTION]
    for check in Check:
        rows = [_row(reason) for reason in Reason if reason.check is check]
        parts.append(f"## {check.value}. {check.name.capitalize()}: {_CHECKS[check]}\n")
        parts.append(table(("code", "HTTP", "type", "the caller is told", "what it means", "what to do"), rows))
    return "\n".join(parts)


def _row(reason: Reason) -> tuple[str, ...]:
    spec = reason.value
    return code(spec.code), str(spec.status), code(spec.type), spec.message, spec.meaning, spec.remedy
