"""Write decoded paths and queries in the one encoding that AWS Signature Version 4 signs for S3.

S3 decodes a request target once and encodes it again before it checks a signature; nothing is normalised.
What is signed here is therefore built from decoded text, never from the bytes that a client sent.
"""

from __future__ import annotations

from collections.abc import Iterable

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PATH = _UNRESERVED + b"/"
_ESCAPES = tuple(f"%{byte:02X}" for byte in bytes(range(256)))
_QUERY_BYTES = tuple(chr(byte) if byte in _UNRESERVED else _ESCAPES[byte] for byte in range(256))
_PATH_BYTES = tuple(chr(byte) if byte in _PATH else _ESCAPES[byte] for byte in range(256))


def canonical_path(path: str) -> str:
    """Encode a decoded path, its slashes kept; dot and empty segments stay as they are, no path at all is `/`.

    Raise UnicodeEncodeError for a lone surrogate, which no decoded path holds.
    """
    raw = path.encode()
    reserved = raw.translate(None, _PATH)
    if not reserved:
        return path or "/"
    if len(raw) == len(path):
        return _escape_ascii(path, reserved)
    return "".join([_PATH_BYTES[byte] for byte in raw])


def encode_query_part(text: str) -> str:
    """Encode a decoded query name or value, slashes included."""
    raw = text.encode()
    reserved = raw.translate(None, _UNRESERVED)
    if not reserved:
        return text
    if len(raw) == len(text):
        return _escape_ascii(text, reserved)
    return "".join([_QUERY_BYTES[byte] for byte in raw])


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Encode and sort decoded query pairs; a marker without a value is a pair with the empty one."""
    # Pairs are sorted, not joined parts: `a=1` stands before `a-b=1`, although `-` sorts before `=`.
    encoded = sorted([(encode_query_part(name), encode_query_part(value)) for name, value in pairs])
    return "&".join([f"{name}={value}" for name, value in encoded])


def _escape_ascii(text: str, reserved: bytes) -> str:
    # The escapes bring percent signs of their own, so the text's are escaped before all others.
    text = text.replace("%", "%25")
    for byte in {*reserved} - {0x25}:
        text = text.replace(chr(byte), _ESCAPES[byte])
    return text
