"""Seal what clients carry for signproxy and bring back: nobody else can read it, change it, or pass it off as another.

Each purpose has a key of its own, derived from the operator's secrets by HKDF, so that a text that was sealed for one
purpose is nothing to another. Sealed is not allowed: what comes out of a seal says what signproxy once said, and
whoever acts on it judges anew.

Texts are sealed by AES-256-GCM with random nonces of 96 bits. That is sound for 2³² texts for each secret and purpose
(NIST SP 800-38D, section 8.3), all processes and hosts that share the secret counted together: at a hundred a second,
sixteen months. A secret is exchanged by far before that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NoReturn

from signproxy.errors import Finding, SettingsInvalid, SignproxyError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAX_SEALED = 16 * 1024
"""Characters: what a bearer token may have. Longer texts are not looked at."""

MIN_SECRET = 32
"""Bytes: as many as the keys that are derived from it."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KID_BYTES = 6
"""Enough to tell the few secrets of an installation apart, and far too little to find one by."""

_SALT = b"signproxy sealing 1"


class Purpose(Enum):
    """What a text is sealed for; the value is what it begins with, its version included."""

    TABLE_TOKEN = "spt1"  # noqa: S105 - the beginning of tokens, and no token
    CONTEXT = "spc1"


class Fault(Enum):
    """What is wrong with a sealed text."""

    LONG = f"longer than {MAX_SEALED} characters"
    FORM = "not of the form of a sealed text"
    SECRET = "sealed with a secret that is not known here"  # noqa: S105 - words about a secret
    ALTERED = "altered, or never sealed"


class SealBroken(SignproxyError):
    """Raise where a text is not one that was sealed here for this purpose."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault

    def __str__(self) -> str:
        return self.fault.value


class SealingSecret:
    """A secret that keys are derived from; never shown, never pickled. Raise SettingsInvalid for one that is none."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) < MIN_SECRET:
            raise SettingsInvalid([Finding("", "", f"is {len(value)} bytes long; {MIN_SECRET} are needed")])
        # Public keys are public: whoever has one could seal.
        if b"-----BEGIN " in value or value.startswith((b"ssh-", b"ecdsa-")) or b'"kty"' in value:
            raise SettingsInvalid([Finding("", "", "is a key or a certificate, not a secret")])
        self._value = value

    @classmethod
    def random(cls) -> SealingSecret:
        """Return a secret that nobody has."""
        return cls(os.urandom(MIN_SECRET))

    def reveal(self) -> bytes:
        """Return the secret itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SealingSecret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "SealingSecret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")


class Sealer:
    """Seals for one purpose with the first of its secrets, and opens what any of them has sealed."""

    __slots__ = ("_current", "_form", "_keys", "_purpose", "_secrets")

    def __init__(self, secrets: Sequence[SealingSecret], purpose: Purpose) -> None:
        if not secrets:
            raise ValueError("nothing to seal with")
        self._secrets = tuple(secrets)
        self._purpose = purpose
        self._form = re.compile(rf"{purpose.value}\.([A-Za-z0-9_-]{{8}})\.([A-Za-z0-9_-]+)")
        self._keys: dict[str, AESGCM] = {}
        self._current = ""

    def seal(self, content: bytes) -> str:
        """Return a text that only `open` understands; raise SealBroken where it would be longer than `open` takes."""
        keys = self._derived()
        head = f"{self._purpose.value}.{self._current}"
        if len(head) + 1 + _encoded_length(_NONCE_BYTES + len(content) + _TAG_BYTES) > MAX_SEALED:
            raise SealBroken(Fault.LONG)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + keys[self._current].encrypt(nonce, content, head.encode())
        return f"{head}.{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"

    def open(self, text: str) -> bytes:
        """Return what was sealed. Raise SealBroken for whatever was not sealed by `seal`, for this purpose."""
        # Costless, and before anything that grows with the text.
        if len(text) > MAX_SEALED:
            raise SealBroken(Fault.LONG)
        form = self._form.fullmatch(text)
        sealed = b"" if form is None else _decoded(form[2])
        if form is None or len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise SealBroken(Fault.FORM)
        key = self._derived().get(form[1])
        if key is None:
            raise SealBroken(Fault.SECRET)
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see `_derived`

        try:
            return key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], text[: form.start(2) - 1].encode())
        except InvalidTag:
            raise SealBroken(Fault.ALTERED) from None

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")

    def _derived(self) -> dict[str, AESGCM]:
        """Return the keys by their ids; made when first needed, for a sidecar that seals nothing loads no library."""
        if not self._keys:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above
            from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - see above
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - see above

            info = self._purpose.value.encode()
            for secret in self._secrets:
                key = HKDF(SHA256(), _KEY_BYTES, _SALT, info).derive(secret.reveal())
                # Of the key and not of the secret: ids of two purposes have nothing in common.
                kid = base64.urlsafe_b64encode(hashlib.sha256(key).digest()[:_KID_BYTES]).decode()
                self._keys.setdefault(kid, AESGCM(key))
            self._current = next(iter(self._keys))
        return self._keys


def _encoded_length(count: int) -> int:
    """Return the length of so many bytes in base64 without padding."""
    return (4 * count + 2) // 3


def _decoded(text: str) -> bytes:
    """Decode base64url; nothing for a text that has a shorter or another spelling: one seal has one text."""
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    return decoded if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode() == text else b""
