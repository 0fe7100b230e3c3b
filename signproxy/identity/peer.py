"""Describe the other end of a connection, as far as it says anything about who is calling."""

from __future__ import annotations

import msgspec


class Peer(msgspec.Struct, frozen=True, gc=False):
    """The other end of a connection of the S3 listener."""

    is_unix: bool = False
    is_loopback: bool = False
    """Of TCP: both its ends are addresses of loopback."""
    is_tls: bool = False
    uid: int | None = None
    """The user of the process behind a Unix socket; None where the system does not tell."""
