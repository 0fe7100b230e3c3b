"""Put the name of the header into the words in which a request is refused for it."""

from __future__ import annotations

from signproxy.errors import Reason, Refused
from signproxy.s3.codes import Worded

_WORDS = {
    Reason.HEADER_MALFORMED: "The header {} is not well-formed",
    Reason.HEADER_REPEATED: "The header {} is given more than once",
    Reason.HEADER_CREDENTIALS: "The request already carries credentials or a date, in the header {}",
    Reason.HEADER_REFUSED: "The header {} is not allowed here",
    Reason.HEADER_VALUE: "The value of the header {} is not allowed here",
}
"""The name alone is told: a value may be a secret, and intermediaries log answers."""
_SHOWN = 128
"""Characters of a header's name that a refusal repeats."""


def naming(refused: Refused, name: str) -> Refused:
    """Return the refusal of a header, whose name is the caller's own, with that name in it."""
    return Worded(refused.reason, _WORDS[refused.reason].format(repr(name[:_SHOWN])), detail=refused.detail)
