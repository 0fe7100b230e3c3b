"""Say what became of a request that may be served, for the one event that closes it."""

from __future__ import annotations

import msgspec

from signproxy.audit.event import Verdict
from signproxy.errors import Reason
from signproxy.model import Subject

KEY_ID_SHOWN = 4
"""Last characters of an access key id that the audit keeps."""


class HandedOut(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Keys that a caller was given for a table, as the event tells of them."""

    access_key_id: str
    """Its last characters."""
    access: str
    expires_at: str
    """RFC 3339."""
    kind: str
    """How they were made, as the settings have it."""
    prefixes: tuple[str, ...] = ()
    """What they open: the places of the table, as `s3://` has them, final slash included."""
    policy_digest: str = ""
    """Of the session policy, where the store was given one."""
    session_name: str = ""
    """How the store's own log calls them, where it does."""


class Outcome(msgspec.Struct, kw_only=True, gc=False):
    """How serving a request ended. Filled by the way that served it."""

    status: int = 200
    """What the client was answered; 0 where it was gone before there was an answer."""
    verdict: Verdict = Verdict.ALLOW
    reason: Reason = Reason.ALLOWED
    """Why it failed, where it was not the store that refused."""
    detail: str = ""
    access_key_id: str = ""
    """The last characters of the key that it was signed with, or that was issued."""
    expires_at: str = ""
    """Until when what the caller was given is good; RFC 3339."""
    cacheable: bool = False
    """Whether the client may use the same answer again."""
    subject: Subject | None = None
    """The principal that an upstream gave a token, where none was known before."""
    vended: HandedOut | None = None
    """The keys that were handed out for a table, if any were."""
    stamped: bool = False
    """Whether what was signed, or sent, carries the id of the audit event."""


class StoreOutcome(Outcome, kw_only=True, gc=False):
    """How the conversation with a store ended, where one was to be asked. Filled by the code that held it."""

    upstream_status: int = 0
    """What the store answered; 0 where it did not."""
    upstream_request_id: str = ""
    requests: int = 0
    """Requests that the store was sent."""
    bytes_in: int = 0
    """Of the body, from the client."""
    bytes_out: int = 0
    """Of the body, to the client."""
    payload: str = ""
    """The payload mode, as the client named it."""
    checksum: str = ""
    """The algorithm that was verified on the way; empty where none was."""
    aborted: str = ""
    """Which side ended the conversation in its middle: `client` or `upstream`; empty where neither did."""
    completed: str = ""
    """What the body of an answer with status 200 said of a completed upload or a copy, which may be an error."""
    connect_us: int = 0
    first_byte_us: int = 0
    """From the request's last byte that had to be sent first until the head of the answer."""
    upstream_us: int = 0
    """The whole conversation with the store."""
