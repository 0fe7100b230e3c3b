"""Check what one setting of an upstream demands of another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from signproxy.config.addresses import is_loopback, plain_url
from signproxy.config.upstream import MAX_UPSTREAMS, ExchangeSettings, TokenForwarding, UpstreamSettings
from signproxy.documents import path_of

_SEGMENT = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})+")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_IN_URLS = frozenset(' "<>\\^`{|}?#')
_NEVER_SENT = frozenset(
    "accept-encoding authorization connection content-encoding content-length cookie expect forwarded host keep-alive "
    "te trailer transfer-encoding upgrade via".split()
)
"""Headers that belong to one connection, or are signproxy's to set."""


def upstream_faults(upstreams: Mapping[str, UpstreamSettings]) -> Iterator[tuple[str, str]]:
    """Yield path and problem of everything that contradicts itself."""
    if len(upstreams) > MAX_UPSTREAMS:
        yield "upstreams", f"{len(upstreams)} upstreams; {MAX_UPSTREAMS} are possible"
    for name, upstream in upstreams.items():
        path = path_of("upstreams", name)
        yield from _url(f"{path}.uri", upstream.uri, upstream)
        if upstream.prefix and not _is_path(upstream.prefix):
            yield f"{path}.prefix", f"{upstream.prefix!r} is no encoded path; write it as it stands in the URL"
        yield from _tokens(path, upstream)
        if upstream.inventory.required and not _has_token(upstream):
            yield f"{path}.inventory.token_file", "this key is missing; `required` needs a token that loads every table"
        if upstream.ca_file and not upstream.uri.startswith("https:"):
            yield f"{path}.ca_file", "has no effect with http"
        for index, header in enumerate(upstream.headers):
            if not _HEADER.fullmatch(header) or header.lower().startswith("proxy-") or header.lower() in _NEVER_SENT:
                yield f"{path}.headers[{index}]", f"{header!r} cannot be sent on"


def _tokens(path: str, upstream: UpstreamSettings) -> Iterator[tuple[str, str]]:
    exchange, forwarding = upstream.exchange, upstream.token_forwarding
    if forwarding is TokenForwarding.EXCHANGE:
        for key in ("token_url", "client_id", "client_secret_file"):
            if not getattr(exchange, key):
                yield f"{path}.exchange.{key}", "this key is missing; `token_forwarding: exchange` needs it"
        if exchange.token_url:
            yield from _url(f"{path}.exchange.token_url", exchange.token_url, upstream)
    elif exchange != ExchangeSettings():
        yield f"{path}.exchange", f"has no effect with `token_forwarding: {forwarding.value}`"
    if upstream.token_file and forwarding is not TokenForwarding.NONE:
        yield f"{path}.token_file", f"has no effect with `token_forwarding: {forwarding.value}`"


def _has_token(upstream: UpstreamSettings) -> bool:
    return bool(upstream.inventory.token_file) or upstream.token_forwarding is TokenForwarding.NONE


def _url(path: str, url: str, upstream: UpstreamSettings) -> Iterator[tuple[str, str]]:
    parts = plain_url(url)
    inner = "" if parts is None else parts.path.strip("/")
    if parts is None or set(url) & _NOT_IN_URLS or (inner and not _is_path(inner)):
        yield path, f"{url!r} is no http(s) URL without user, query, fragment and dot segments"
    elif parts.scheme == "http" and not is_loopback(parts.hostname or "") and not upstream.allow_http:
        yield path, f"{url!r} is beyond loopback, and not encrypted; use https, or set allow_http"


def _is_path(path: str) -> bool:
    """Whether each segment is one in every reading: encoded as it should be, not empty, and no dots."""
    return all(_SEGMENT.fullmatch(each) and unquote(each) not in (".", "..") for each in path.split("/"))
