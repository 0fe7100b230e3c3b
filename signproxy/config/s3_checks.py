"""Check what one setting of the transparent mode demands of another."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from signproxy.config.addresses import WILDCARDS, is_loopback, plain_url
from signproxy.config.s3 import S3Identity, S3LimitSettings, S3Settings
from signproxy.config.settings import LimitSettings, Settings

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAX_DOMAIN = 253


def s3_faults(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield path and problem of everything that contradicts itself; where the listener is off nothing does."""
    s3 = settings.s3
    if not s3.enabled:
        if s3.steer:
            yield "s3.steer", "leads nowhere: set s3.enabled"
        return
    yield from _domains(s3.base_domains)
    yield from _identities(settings)
    yield from _pod(s3)
    yield from in_flight_faults("s3.limits", s3.limits)
    if s3.public_url and not _is_origin(s3.public_url):
        yield "s3.public_url", f"{s3.public_url!r} is no http(s) URL without user, path, query and fragment"
    if s3.steer:
        yield from _steering(s3)


def _domains(domains: Sequence[str]) -> Iterator[tuple[str, str]]:
    for index, domain in enumerate(domains):
        path = f"s3.base_domains[{index}]"
        if len(domain) > _MAX_DOMAIN or not all(map(_LABEL.fullmatch, domain.split("."))) or _is_address(domain):
            yield path, f"{domain!r} is no host name in lower case, without port"
        elif domain in domains[:index]:
            yield path, f"{domain!r} stands there twice"
        else:
            # A bucket `a` below one would be the other: which of the two is asked for could not be told.
            for other in domains:
                if domain != other and domain.endswith(f".{other}"):
                    yield path, f"{domain!r} lies below {other!r}, where its first part is a bucket"


def _identities(settings: Settings) -> Iterator[tuple[str, str]]:
    s3 = settings.s3
    if not s3.identities:
        yield "s3.identities", "no client could call; name one of emulated, bearer, pod"
    for index, identity in enumerate(s3.identities):
        if identity in s3.identities[:index]:
            yield f"s3.identities[{index}]", f"{identity.value!r} stands there twice"


def _pod(s3: S3Settings) -> Iterator[tuple[str, str]]:
    pod = s3.pod
    if S3Identity.POD not in s3.identities:
        for key, value in (("token_file", pod.token_file), ("uids", pod.uids)):
            if value:
                yield f"s3.pod.{key}", "has no effect without `pod` among s3.identities"
        return
    if s3.tcp and not is_loopback(s3.host):
        problem = f"{s3.host!r} is beyond loopback: any caller that reaches it would be this pod"
        yield "s3.host", f"{problem}; listen on loopback or a Unix socket, or take `pod` out of s3.identities"
    if not pod.token_file:
        yield "s3.pod.token_file", "this key is missing; `pod` is whom this token names"
    if pod.uids and not s3.socket:
        yield "s3.pod.uids", "has no effect without s3.socket: TCP does not tell whose process it is"


def _steering(s3: S3Settings) -> Iterator[tuple[str, str]]:
    if S3Identity.EMULATED not in s3.identities:
        yield "s3.steer", "needs `emulated` among s3.identities: it signs with keys of that kind"
    if not s3.public_url:
        if not s3.tcp:
            yield "s3.public_url", "this key is missing; clients cannot be steered to a Unix socket"
        elif s3.host in WILDCARDS:
            yield "s3.public_url", f"this key is missing; clients cannot be steered to {s3.host}"
        elif s3.port == 0:
            yield "s3.public_url", "this key is missing; clients cannot be steered to a port that is not known yet"


def _is_address(domain: str) -> bool:
    try:
        ipaddress.ip_address(domain)
    except ValueError:
        return False
    return True


def _is_origin(url: str) -> bool:
    parts = plain_url(url)
    return parts is not None and parts.path in ("", "/") and not set(url) & set("?#")


def in_flight_faults(section: str, limits: LimitSettings | S3LimitSettings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong where one caller is granted more than all of them together."""
    if limits.in_flight > limits.total_in_flight:
        total = f"total_in_flight ({limits.total_in_flight})"
        yield f"{section}.in_flight", f"{limits.in_flight} is more than {total}, which is for all callers together"
