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


class SealingSecret:
    """A secret that keys are derived from; never shown, never pickled. Raise SettingsInvalid for one that is none."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) < MIN_SECRET:
            raise SettingsInvalid([Finding("", "", f"is {len(value)} bytes long; {MIN_SECRET} are needed")])
        # Public keys are public: any holder of one could seal.
        if b"-----BEGIN " in value or value.startswith((b"ssh-", b"ecdsa-")) or b'"kty"' in value:
            raise SettingsInvalid([Finding("", "", "is a key or a certificate, not a secret")])
        self._value = value

    @classmethod
    def random(cls) -> SealingSecret:
        """Return a new secret, which no other party has yet."""
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
            raise SealBroken(SealFault.LONG)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + keys[self._current].encrypt(nonce, content, head.encode())
        return f"{head}.{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"

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
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see `_derived`

        try:
            return key.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], text[: form.start(2) - 1].encode())
        except InvalidTag:
            raise SealBroken(SealFault.ALTERED) from None

    def is_current(self, text: str) -> bool:
        """Whether a text was sealed with the first of the secrets, by what it says of itself."""
        self._derived()
        return text.startswith(f"{self._purpose.value}.{self._current}.")

    def is_begun(self, text: str) -> bool:
        """Whether a text may be the beginning of one that was sealed here, such as a crash leaves in a file."""
        begins = [f"{self._purpose.value}.{kid}." for kid in self._derived()]
        return any(text.startswith(begin) or begin.startswith(text) for begin in begins)

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")

    def _derived(self) -> dict[str, AESGCM]:
        """Return the keys by their ids; made when first needed, for a sidecar that seals nothing loads no library."""
        if not self._keys:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

            self._keys = {kid: AESGCM(key) for kid, key in derived_keys(self._secrets, self._purpose).items()}
            self._current = next(iter(self._keys))
        return self._keys


class Deriver:
    """Derives secrets from names: with the first of its own for a new name, and again with the one of a `kid`.

    Nothing has to be kept of what was derived, and it ends with the secret that it was derived from.
    """

    __slots__ = ("_current", "_keys", "_purpose", "_secrets")

    def __init__(self, secrets: Sequence[SealingSecret], purpose: Purpose) -> None:
        if not secrets:
            raise ValueError("nothing to derive from")
        self._secrets = tuple(secrets)
        self._purpose = purpose
        self._keys: dict[str, bytes] = {}
        self._current = ""

    @property
    def kid(self) -> str:
        """The id of the key that new names are derived with."""
        self._derived()
        return self._current

    def derive(self, kid: str, name: bytes) -> bytes | None:
        """Return the 32 bytes that belong to a name; None where the secret behind the key is not known here."""
        key = self._derived().get(kid)
        return None if key is None else hmac.digest(key, name, "sha256")

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")

    def _derived(self) -> dict[str, bytes]:
        if not self._keys:
            self._keys = derived_keys(self._secrets, self._purpose)
            self._current = next(iter(self._keys))
        return self._keys


class Marker:
    """Marks what others may read but not make up: a text that was marked here for one purpose and place is known again.

    The mark is a MAC of 128 bits. It is no secret, it does not end, and it hides nothing.
    """

    __slots__ = ("_keys", "_purpose", "_secrets")

    def __init__(self, secrets: Sequence[SealingSecret], purpose: Purpose) -> None:
        if not secrets:
            raise ValueError("nothing to mark with")
        self._secrets = tuple(secrets)
        self._purpose = purpose
        self._keys: tuple[bytes, ...] = ()

    def mark(self, *parts: str) -> str:
        """Return the mark of these very parts: `MARK_LENGTH` characters of base64url."""
        return _mark(self._derived()[0], _joined(parts))

    def holds(self, mark: str, *parts: str) -> bool:
        """Whether any of the secrets marked these very parts so."""
        joined = _joined(parts)
        presented = mark.encode()
        return any(hmac.compare_digest(_mark(key, joined).encode(), presented) for key in self._derived())

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets are not pickled")

    def _derived(self) -> tuple[bytes, ...]:
        if not self._keys:
            self._keys = tuple(derived_keys(self._secrets, self._purpose).values())
        return self._keys


def _joined(parts: Sequence[str]) -> bytes:
    """Join parts so that no other parts join to the same: each stands behind its length."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join([b"%d:%b" % (len(part), part) for part in encoded])


def _mark(key: bytes, joined: bytes) -> str:
    return base64.urlsafe_b64encode(hmac.digest(key, joined, "sha256")[:_MARK_BYTES]).rstrip(b"=").decode()


def derived_keys(secrets: Sequence[SealingSecret], purpose: Purpose) -> dict[str, bytes]:
    """Return the keys of a purpose by their ids, in the order of the secrets."""
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 - not before it is needed
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 - see above

    keys: dict[str, bytes] = {}
    for secret in secrets:
        key = HKDF(SHA256(), _KEY_BYTES, _SALT, purpose.value.encode()).derive(secret.reveal())
        # Of the key and not of the secret: ids of two purposes have nothing in common.
        kid = base64.urlsafe_b64encode(hashlib.sha256(key).digest()[:_KID_BYTES]).decode()
        keys.setdefault(kid, key)
    return keys


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
