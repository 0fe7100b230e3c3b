"""Declare what sections of the settings have in common: kinds of values, and what every listener has."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]

FileName = Annotated[str, Meta(extra={"path": True})]
"""Relative to the settings file, where it stands there."""
FileNames = Annotated[tuple[Text, ...], Meta(extra={"path": True})]

Host = Annotated[str, Meta(min_length=1, description="Address to listen on; `localhost`, IPv4 or IPv6.")]
Port = Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")]
AllowRemote = Annotated[
    bool,
    Meta(description="Listen beyond loopback without TLS: something in front encrypts, or the network is trusted."),
]
Tcp = Annotated[bool, Meta(description="Listen on host and port; `false` where only the Unix socket is wanted.")]
Socket = Annotated[str, Meta(description="A Unix socket to listen on, beside the port.", extra={"path": True})]
SocketMode = Annotated[
    str, Meta(pattern="^0?[0-7]{3}$", description="Who may open the Unix socket, as file permissions (octal).")
]
KeepaliveSeconds = Annotated[
    int, Meta(ge=5, le=3600, description="How long an idle connection is kept. Java clients reuse theirs for a minute.")
]


class TlsSettings(msgspec.Struct, frozen=True):
    """The certificate of a listener; replaced files are taken up while it serves."""

    cert_file: FileName = ""
    """Certificate and its chain (PEM). TLS is on where it is set."""
    key_file: FileName = ""
    """The certificate's private key (PEM)."""

    @property
    def enabled(self) -> bool:
        """Whether the listener speaks TLS."""
        return bool(self.cert_file)
