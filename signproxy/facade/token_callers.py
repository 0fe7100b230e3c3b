"""Tell who asks for a token, and refuse what is good for a part of a catalog: a token would be good for all of it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import parse_qsl, unquote_plus

from signproxy.errors import Reason, Refused
from signproxy.identity.authenticator import Authenticator
from signproxy.identity.emulated import ACCESS_KEY_PREFIX
from signproxy.model import Principal, Subject
from signproxy.sealing import Purpose

MAX_FIELDS = 64
"""Of a form; a token exchange of RFC 8693 has ten."""

_BEARER = "bearer "
_BASIC = "basic "
_SUBJECT = "subject_token"
_SEALED = tuple(f"{purpose.value}." for purpose in Purpose)
_ISSUED_ID = re.compile(rf"{ACCESS_KEY_PREFIX}(?:\.|[A-Z2-7]{{16}}$)")


class TokenCaller:
    """What a request for a token presents, in its Authorization header and in its form."""

    __slots__ = ("_sealed", "_shown")

    def __init__(self, authorization: str, content: bytes) -> None:
        """Raise Refused (MESSAGE_MALFORMED) for a form with more fields than any real one."""
        fields = _fields(content)
        bearer = authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else ""
        # RFC 8693: the token that is exchanged may stand in the form, beside a client's own in the header.
        self._shown = bearer or next((value for name, value in fields if name == _SUBJECT), "")
        texts = (bearer, *_basic(authorization), *(value for _, value in fields))
        self._sealed = next((text for text in texts if text.startswith(_SEALED) or _ISSUED_ID.match(text)), "")

    async def subject(self, authenticator: Authenticator) -> Subject | None:
        """Return whose token is presented; None where it is none that is accepted here.

        The upstream decides about tokens that signproxy does not accept, such as one that has ended and is exchanged.
        """
        with suppress(Refused):
            found = authenticator.authenticate(self._sealed or self._shown)
            return authenticator.known(found if isinstance(found, Principal) else await found).subject
        return None

    def check(self) -> None:
        """Refuse whatever signproxy itself sealed or issued: the upstream would be shown its holder's own token."""
        if self._sealed:
            kind = self._sealed.partition(".")[0][: len(ACCESS_KEY_PREFIX)]
            raise Refused(Reason.CREDENTIAL_SCOPED, f"a credential that begins with {kind!r} was shown for a token")


def _fields(content: bytes) -> list[tuple[str, str]]:
    try:
        fields = parse_qsl(content.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise Refused(Reason.MESSAGE_MALFORMED, f"the form: {error}") from None
    return [(name, value.strip()) for name, value in fields]


def _basic(authorization: str) -> Iterator[str]:
    """Yield id and secret of a client, as they are and as RFC 6749 has them encoded before they are joined."""
    if authorization[: len(_BASIC)].lower() != _BASIC:
        return
    with suppress(binascii.Error, ValueError):
        both = base64.b64decode(authorization[len(_BASIC) :].strip().encode("ascii")).decode("latin-1")
        for text in both.split(":", 1):
            yield text.strip()
            yield unquote_plus(text).strip()
