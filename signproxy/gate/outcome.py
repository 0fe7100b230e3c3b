"""Say what became of a request that was forwarded, for the one event that closes it."""

from __future__ import annotations

import msgspec

from signproxy.audit.event import Verdict
from signproxy.errors import Reason


class ForwardOutcome(msgspec.Struct, kw_only=True, gc=False):
    """How the conversation with the store ended. Filled by the code that held it."""

    status: int
    """What the client was answered; 0 where it was gone before there was an answer."""
    verdict: Verdict = Verdict.ALLOW
    reason: Reason = Reason.ALLOWED
    """Why it failed, where it was not the store that refused."""
    detail: str = ""
    upstream_status: int = 0
    """What the store answered; 0 where it did not."""
    upstream_request_id: str = ""
    requests: int = 0
    """Requests that the store was sent."""
    stamped: bool = False
    """Whether they carry the id of the audit event."""
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
