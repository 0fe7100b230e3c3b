"""Seal what clients carry for signproxy and bring back: no other party can read or alter it, or pass it off as another.

Each purpose has a key of its own, derived from the operator's secrets by HKDF, so that a text that was sealed for one
purpose is nothing to another. Sealed is not allowed: what comes out of a seal says what signproxy once said, and
the code that acts on it judges anew.

Texts are sealed by AES-256-GCM with random nonces of 96 bits. That is sound for 2³² texts for each secret and purpose
(NIST SP 800-38D, section 8.3), all processes and hosts that share the secret counted together: at a hundred a second,
sixteen months. A secret is exchanged by far before that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from enum import Enum
from typing import NoReturn

from signproxy.errors import Finding, SettingsInvalid, SignproxyError

MAX_SEALED = 16 * 1024
"""Characters: what a bearer token may have. Longer texts are not looked at."""

MIN_SECRET = 32
"""Bytes: as many as the keys that are derived from it."""

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KID_BYTES = 6
"""Enough to tell the few secrets of an installation apart, and far too little to find one by."""

_MARK_BYTES = 16
MARK_LENGTH = 22
"""Characters of a mark: its bytes in base64 without padding."""

_SALT = b"signproxy sealing 1"


class Purpose(Enum):
    """What a text is sealed for; the value is what it begins with, its version included."""

    TABLE_TOKEN = "spt1"  # noqa: S105 - the beginning of tokens, and no token
    CONTEXT = "spc1"
    UPLOAD_ID = "spu1"
    S3_KEY = "spk1"
    SIGHTINGS = "spf1"
    S3_SECRET = "sps1"  # noqa: S105 - names what is derived, and is no secret


class SealFault(Enum):
    """What is wrong with a sealed text."""

    LONG = f"longer than {MAX_SEALED} characters"
    FORM = "not of the form of a sealed text"
    SECRET = "sealed with a secret that is not known here"  # noqa: S105 - words about a secret
    ALTERED = "altered, or never sealed"


class SealBroken(SignproxyError):
    """Raise where a text is not one that was sealed here for this purpose."""

    def __init__(self, fault: SealFault) -> None:
        super().__init__(fault)
        self.fault = fault

    def __str__(self) -> str:
        return self.fault.value


class NeverPickled:
    """Holds secrets, which stay in this process."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")


class HeldSecret(NeverPickled):
    """A secret; never shown, never pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the secret itself."""
        return self._value

    @property
    def is_key(self) -> bool:
        """Whether it is a key or a certificate. Public keys are public: any holder of one could seal or sign."""
        value = self._value
        return b"-----BEGIN " in value or value.startswith((b"ssh-", b"ecdsa-")) or b'"kty"' in value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class SealingSecret(HeldSecret):
    """A secret that keys are derived from. Raise SettingsInvalid for one that is none."""

    __slots__ = ()

    def __init__(self, value: bytes) -> None:
        if len(value) < MIN_SECRET:
            raise SettingsInvalid([Finding("", "", f"is {len(value)} bytes long; {MIN_SECRET} are needed")])
        super().__init__(value)
        if self.is_key:
            raise SettingsInvalid([Finding("", "", "is a key or a certificate, not a secret")])

    @classmethod
    def random(cls) -> SealingSecret:
        """Return a new secret, which no other party has yet."""
        return cls(os.urandom(MIN_SECRET))


class _Keyed(NeverPickled):
    """Has a key of each of its secrets for one purpose, derived when first needed: by a library that is loaded then."""

    __slots__ = ("_keys", "_purpose", "_secrets")

    def __init__(self, secrets: Sequence[SealingSecret], purpose: Purpose) -> None:
        if not secrets:
            raise ValueError("nothing to seal, derive or mark with")
        self._secrets = tuple(secrets)
        self._purpose = purpose
        self._keys: dict[str, bytes] = {}

    def _derived(self) -> dict[str, bytes]:
        """Return the keys by their ids, in the order of the secrets."""
        self._keys = self._keys or derived_keys(self._secrets, self._purpose)
        return self._keys

    @property
    def kid(self) -> str:
        """The id of the key of the first secret."""
        return next(iter(self._derived()))


class Sealer(_Keyed):
    """Seals for one purpose with the first of its secrets, and opens what any of them has sealed."""

    __slots__ = ("_form",)

    def __init__(self, secrets: Sequence[SealingSecret], purpose: Purpose) -> None:
        super().__init__(secrets, purpose)
        self._form = re.compile(rf"{purpose.value}\.([A-Za-z0-9_-]{{8}})\.([A-Za-z0-9_-]+)")

    def seal(self, content: bytes) -> str:
        """Return a text that only `open` understands; raise SealBroken where it would be longer than `open` takes."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - not before it is needed

        head = f"{self._purpose.value}.{self.kid}"
        encoded_length = (4 * (_NONCE_BYTES + len(content) + _TAG_BYTES) + 2) // 3
        if len(head) + 1 + encoded_length > MAX_SEALED:
            raise SealBroken(SealFault.LONG)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + AESGCM(self._derived()[self.kid]).encrypt(nonce, content, head.encode())
        return f"{head}.{_encoded(sealed)}"

    def open(self, text: str) -> bytes:
        """Return what was sealed. Raise SealBroken for whatever was not sealed by `seal`, for this purpose."""
        # Costless, and before anything that grows with the text.
        if len(text) > MAX_SEALED:
            raise SealBroken(SealFault.LONG)
        form = self._form.fullmatch(text)
        sealed = b"" if form is None else _decoded(form[2])
        if form is None or len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise SealBroken(SealFault.FORM)
        key = self._derived().get(form[1])
        if key is None:
            raise SealBroken(SealFault.SECRET)
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - not before it is needed
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

        try:
            head = text[: form.start(2) - 1].encode()
            return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], head)
        except InvalidTag:
            raise SealBroken(SealFault.ALTERED) from None

    def is_current(self, text: str) -> bool:
        """Whether a text was sealed with the first of the secrets, by what it says of itself."""
        return text.startswith(f"{self._purpose.value}.{self.kid}.")

    def is_begun(self, text: str) -> bool:
        """Whether a text may be the beginning of one that was sealed here, such as a crash leaves in a file."""
        begins = [f"{self._purpose.value}.{kid}." for kid in self._derived()]
        return any(text.startswith(begin) or begin.startswith(text) for begin in begins)


class Deriver(_Keyed):
    """Derives secrets from names: with the first of its own for a new name, and again with the one of a `kid`.

    Nothing has to be kept of what was derived, and it ends with the secret that it was derived from.
    """

    __slots__ = ()

    def derive(self, kid: str, name: bytes) -> bytes | None:
        """Return the 32 bytes that belong to a name; None where the secret behind the key is not known here."""
        key = self._derived().get(kid)
        return None if key is None else hmac.digest(key, name, "sha256")


class Marker(_Keyed):
    """Marks what others may read but not make up: a text that was marked here for one purpose and place is known again.

    The mark is a MAC of 128 bits. It is no secret, it does not end, and it hides nothing.
    """

    __slots__ = ()

    def mark(self, *parts: str) -> str:
        """Return the mark of these very parts: `MARK_LENGTH` characters of base64url."""
        return _mark(self._derived()[self.kid], _joined(parts))

    def holds(self, mark: str, *parts: str) -> bool:
        """Whether any of the secrets marked these very parts so."""
        joined = _joined(parts)
        presented = mark.encode()
        return any(hmac.compare_digest(_mark(key, joined).encode(), presented) for key in self._derived().values())


def _joined(parts: Sequence[str]) -> bytes:
    """Join parts so that no other parts join to the same: each stands behind its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join([b"%d:%b" % (len(part), part) for part in encoded])


def _mark(key: bytes, joined: bytes) -> str:
    return _encoded(hmac.digest(key, joined, "sha256")[:_MARK_BYTES])


def derived_keys(secrets: Sequence[SealingSecret], purpose: Purpose) -> dict[str, bytes]:
    """Return the keys of a purpose by their ids, in the order of the secrets."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - not before it is needed
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - see above

    keys: dict[str, bytes] = {}
    for secret in secrets:
        key = HKDF(SHA256(), _KEY_BYTES, _SALT, purpose.value.encode()).derive(secret.reveal())
        # Of the key and not of the secret: ids of two purposes have nothing in common.
        keys.setdefault(_encoded(hashlib.sha256(key).digest()[:_KID_BYTES]), key)
    return keys


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    """Decode base64url; nothing for a text that has a shorter or another spelling: one seal has one text."""
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    return decoded if _encoded(decoded) == text else b""
