"""Decide who may see what the server knows about its callers: the operator at the machine, and no other by accident.

A connection from loopback is not proof enough by itself. A page of a foreign site can have the operator's browser ask
loopback addresses, under a name that it resolves itself (DNS rebinding) or as a request of its own; and a service mesh
hands every request from outside on from a loopback address.
"""

from __future__ import annotations

import ipaddress
import socket

from aiohttp import web

_LOOPBACK_PEERS = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
"""Where connections of this machine come from. Others of 127.0.0.0/8 are taken by meshes: Istio's is 127.0.0.6."""

_PROXY_PREFIXES = ("x-forwarded-", "x-envoy-")
_PROXY_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"})

_OWN_SITES = frozenset({"none", "same-origin"})
"""What a browser says of an address that was typed or bookmarked, and of a page's own links."""


def why_not_local(request: web.BaseRequest) -> str:
    """Return why a request does not count as one of this machine's operator; nothing if it does."""
    transport = request.transport
    if transport is None:
        return "its connection is closed"
    if any(_is_of_proxy(name) for name in request.headers):
        return "it was forwarded by a proxy"
    peer = transport.get_extra_info("peername")
    if not _is_unix(transport.get_extra_info("socket")):
        if not isinstance(peer, tuple) or peer[0] not in _LOOPBACK_PEERS:
            return "it does not come from loopback"
        if not _is_loopback_host(request.headers.getall("Host", [])):
            return "its Host is no loopback address"
    if "Origin" in request.headers:
        return "a web page asked for it"
    if request.headers.get("Sec-Fetch-Site", "none").lower() not in _OWN_SITES:
        return "it was reached through another site: type the address instead"
    return ""


def _is_of_proxy(name: str) -> bool:
    lowered = name.lower()
    return lowered in _PROXY_HEADERS or lowered.startswith(_PROXY_PREFIXES)


def _is_unix(connection: object) -> bool:
    return getattr(connection, "family", None) == socket.AF_UNIX


def _is_loopback_host(hosts: list[str]) -> bool:
    """Whether there is one Host, and it names this machine without asking anybody."""
    if len(hosts) != 1:
        return False
    host, bracket, rest = hosts[0].partition("]")
    if bracket:
        name, port = host.removeprefix("["), rest.removeprefix(":")
        if not host.startswith("[") or rest[:1] not in ("", ":"):
            return False
    else:
        name, _, port = hosts[0].partition(":")
    if port and not (port.isascii() and port.isdecimal()):
        return False
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
