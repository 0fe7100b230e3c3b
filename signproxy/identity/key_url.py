"""Decide which URLs keys may be fetched from, and which addresses such a fetch may connect to."""

from __future__ import annotations

import ipaddress
import re
from enum import Enum

import msgspec

from signproxy.errors import SignproxyError

# Stricter than RFC 3986, so that no two parsers can disagree on the host: no user information, no backslash, no
# fragment, no text outside ASCII.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
)

MAX_URL = 2_048
"""What proxies and servers commonly take."""

# Metadata services and platform agents outside the link-local ranges; they hand out credentials to any caller.
_METADATA = tuple(
    ipaddress.ip_network(network)
    for network in (
        "fd00:ec2::/32",  # AWS, IPv6
        "fd20:ce::254/128",  # Google Cloud, IPv6
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure's wire server
        "192.0.0.192/32",  # Oracle Cloud
    )
)
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class KeysUnusable(SignproxyError):
    """A key, a key set or the URL of one cannot be used; the text is for the operator, and never leaves this room."""


class FetchReach(Enum):
    """Where the connections of a fetch may end."""

    LOOPBACK = "loopback"
    NETWORK = "network"


class KeyUrl(msgspec.Struct, frozen=True, gc=False):
    """A URL that passed `parse_key_url`; `host` is in lower case and without brackets."""

    text: str
    scheme: str
    host: str
    reach: FetchReach


def parse_key_url(text: str) -> KeyUrl:
    """Return the URL; raise KeysUnusable unless it is https, or http to loopback, and free of anything odd."""
    match = _URL.fullmatch(text) if len(text) <= MAX_URL else None
    if match is None or int(match["port"] or 0) > 65_535:
        raise KeysUnusable("not a plain http(s) URL (no user information, fragment or characters outside ASCII)")
    host = match["host"].lower().strip("[]")
    reach = _reach_of(host)
    if match["scheme"] == "http" and reach is not FetchReach.LOOPBACK:
        raise KeysUnusable("keys are fetched over https; http is only for loopback")
    return KeyUrl(text, match["scheme"], host, reach)


def check_address(address: str, reach: FetchReach) -> None:
    """Raise KeysUnusable if a fetch with this reach must not connect to the address.

    Private networks are fine: clusters keep their issuers there. A public name that leads to loopback or to a
    metadata service is DNS rebinding.
    """
    try:
        ip = _plain(ipaddress.ip_address(address))
    except ValueError:
        raise KeysUnusable(f"not an IP address: {address!a}") from None
    if reach is FetchReach.LOOPBACK:
        if not ip.is_loopback:
            raise KeysUnusable(f"{ip} is not on loopback, the URL is")
        return
    if (
        ip.is_loopback
        or ip.is_link_local
        or ip.is_multicast
        or ip.is_unspecified
        or ip.is_reserved
        or ip in _THIS_NETWORK
        or any(ip in network for network in _METADATA)
    ):
        raise KeysUnusable(f"{ip} is loopback, link-local, a metadata service or no host at all")


def _reach_of(host: str) -> FetchReach:
    if host == "localhost":
        return FetchReach.LOOPBACK
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        # A name. An all-numeric one is an IPv4 address in a form that some resolvers take and others do not.
        if re.fullmatch(r"[0-9.]+|0x[0-9a-f.x]+", host):
            raise KeysUnusable("an IPv4 address is written as four decimal numbers") from None
        return FetchReach.NETWORK
    if _plain(ip).is_loopback:
        return FetchReach.LOOPBACK
    check_address(host, FetchReach.NETWORK)
    return FetchReach.NETWORK


def _plain(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Unwrap an IPv4 address that travels inside an IPv6 one: the packet ends at the inner address."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if ip in _NAT64:
        return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
