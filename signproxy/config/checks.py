"""Check what one setting demands of another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from signproxy.config.addresses import WILDCARDS, is_loopback, plain_url
from signproxy.config.container import container_faults
from signproxy.config.identity import IssuerSettings
from signproxy.config.s3 import S3Identity, S3Settings
from signproxy.config.s3_checks import in_flight_faults, s3_faults
from signproxy.config.settings import AdminSettings, AuditSinkKind, ListenSettings, Settings
from signproxy.config.storage import MIN_VENDED_SECONDS, CredentialsSettings, StorageBinding, Vend, source_faults
from signproxy.config.sts import sts_faults
from signproxy.config.upstream_checks import upstream_faults
from signproxy.documents import child, path_of
from signproxy.errors import nearest

Listener = ListenSettings | AdminSettings | S3Settings


def contradictions_in(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield path and problem of every contradiction between settings that are each well-formed."""
    yield from _addresses(settings)
    if not settings.policy.path:
        yield "policy.path", "this key is missing; in the environment it is SIGNPROXY__POLICY__PATH"
    yield from _audit(settings)
    yield from _limits(settings)
    yield from _identity(settings)
    yield from source_faults(settings.credentials.providers)
    for name, binding in settings.storages.items():
        yield from _binding(path_of("storages", name), binding, settings.credentials, settings.s3)
        yield from sts_faults(path_of("storages", name, "sts"), binding.sts)
    yield from upstream_faults(settings.upstreams)
    if settings.sightings.file and not settings.context.secret_files:
        yield "sightings.file", "needs context.secret_files: sealed with a secret that ends with the process it is lost"
    yield from s3_faults(settings)
    yield from container_faults(settings)


def _audit(settings: Settings) -> Iterator[tuple[str, str]]:
    audit = settings.audit
    places = {AuditSinkKind.FILE: ("path", audit.path), AuditSinkKind.SEGMENTS: ("directory", audit.directory)}
    for sink, (key, value) in places.items():
        if audit.sink is sink and not value:
            yield f"audit.{key}", f"this key is missing; `sink: {sink.value}` needs it"
        if audit.sink is not sink and value:
            yield f"audit.{key}", f"has no effect with `sink: {audit.sink.value}`; set `sink: {sink.value}`"
    if audit.ship.wanted and audit.sink is not AuditSinkKind.SEGMENTS:
        yield "audit.ship", f"has no effect with `sink: {audit.sink.value}`; only sealed segments are shipped"
    for key, problem in audit.ship.faults(tuple(settings.storages)):
        yield f"audit.ship.{key}", problem
    least = 2 * settings.s3.limits.total_in_flight
    if settings.s3.enabled and audit.queue < least:
        remedy = "raise it, or lower that"
        yield "audit.queue", f"{audit.queue} is less than {least}, twice s3.limits.total_in_flight; {remedy}"


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    listen, admin, s3 = settings.listen, settings.admin, settings.s3
    yield from _clients("listen", listen)
    if admin.enabled:
        yield from _port("admin", admin)
        if admin.role and not settings.identity.issuers and not settings.identity.static_tokens:
            yield "admin.role", f"no caller can have the role {admin.role!r}: identity has neither issuers nor tokens"
    if s3.enabled:
        yield from _clients("s3", s3)
    served: list[tuple[str, Listener]] = [("listen", listen)]
    served += [("admin", admin)] if admin.enabled else []
    served += [("s3", s3)] if s3.enabled else []
    for index, (section, where) in enumerate(served):
        for first, other in served[:index]:
            yield from _same(section, where, first, other)
    url = settings.public_url
    if not url:
        if not listen.tcp:
            yield "public_url", "this key is missing; clients cannot be sent to a Unix socket"
        elif listen.host in WILDCARDS:
            yield "public_url", f"this key is missing; clients cannot be sent to {listen.host}"
    elif plain_url(url) is None:
        yield "public_url", f"{url!r} is no http(s) URL without user, query and fragment"


def _clients(section: str, where: ListenSettings | S3Settings) -> Iterator[tuple[str, str]]:
    if where.tcp:
        yield from _port(section, where)
        return
    if not where.socket:
        yield f"{section}.tcp", f"no client could connect; set {section}.socket where tcp is false"
    yield from _without_port(section, where)


def _same(section: str, where: Listener, first: str, other: Listener) -> Iterator[tuple[str, str]]:
    """Yield what two listeners cannot both have."""
    both = _has_port(where) and _has_port(other)
    overlap = where.host == other.host or {where.host, other.host}.intersection(WILDCARDS)
    if both and where.port == other.port != 0 and overlap:
        yield f"{section}.port", f"{where.port} is {first}.port too"
    sockets = (where.socket, other.socket)
    if all(sockets) and len({Path(socket).resolve() for socket in sockets}) == 1:
        yield f"{section}.socket", f"is {first}.socket too"


def _has_port(where: Listener) -> bool:
    return isinstance(where, AdminSettings) or where.tcp


def _port(section: str, where: Listener) -> Iterator[tuple[str, str]]:
    tls = where.tls
    if not is_loopback(where.host) and not tls.enabled and not where.allow_remote:
        remedy = f"set {section}.tls or {section}.allow_remote"
        yield f"{section}.host", f"{where.host!r} is beyond loopback, and not encrypted; {remedy}"
    if tls.cert_file and not tls.key_file:
        yield f"{section}.tls.key_file", "this key is missing; cert_file needs its private key"
    if tls.key_file and not tls.cert_file:
        yield f"{section}.tls.cert_file", "this key is missing; key_file has no effect without it"


def _without_port(section: str, where: ListenSettings | S3Settings) -> Iterator[tuple[str, str]]:
    """Yield what would be taken for a protection, and is none."""
    for name, value in (("cert_file", where.tls.cert_file), ("key_file", where.tls.key_file)):
        if value:
            yield f"{section}.tls.{name}", f"has no effect with {section}.tcp: false; Unix sockets speak no TLS"


def _limits(settings: Settings) -> Iterator[tuple[str, str]]:
    limits = settings.limits
    if limits.burst < limits.requests_per_second:
        rate = f"requests_per_second ({limits.requests_per_second})"
        yield "limits.burst", f"{limits.burst} is less than {rate}: a second's requests that come at once are refused"
    yield from in_flight_faults("limits", limits)


def _identity(settings: Settings) -> Iterator[tuple[str, str]]:
    """Check how keys are found; `identity` itself checks what its values must be."""
    names: dict[str, str] = {}
    for name, issuer in settings.identity.issuers.items():
        path = path_of("identity", "issuers", name)
        first = names.setdefault(issuer.issuer, name)
        if first != name:
            yield f"{path}.issuer", f"{issuer.issuer!r} is issuer {first!r} already"
        yield from _key_source(path, issuer)
    digests: dict[str, int] = {}
    for index, token in enumerate(settings.identity.static_tokens):
        if digests.setdefault(token.sha256, index) != index:
            yield f"identity.static_tokens[{index}].sha256", f"is static_tokens[{digests[token.sha256]}] already"


def _key_source(path: str, issuer: IssuerSettings) -> Iterator[tuple[str, str]]:
    sources = {
        "discovery": issuer.discovery,
        "jwks_url": bool(issuer.jwks_url),
        "key_file": bool(issuer.key_file),
        "secret_file": bool(issuer.secret_file),
    }
    given = [name for name, used in sources.items() if used]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        yield path, f"exactly one of {', '.join(sources)} says where its keys are; found {found}"
        return
    if issuer.jwks_hosts and not issuer.discovery:
        yield f"{path}.jwks_hosts", "has no effect without discovery: true"
    if not issuer.discovery and not issuer.jwks_url:
        for key, used in (("ca_file", issuer.ca_file), ("token_file", issuer.token_file)):
            if used:
                yield f"{path}.{key}", f"has no effect with {given[0]}: nothing is fetched"


def _binding(
    path: str, binding: StorageBinding, credentials: CredentialsSettings, s3: S3Settings
) -> Iterator[tuple[str, str]]:
    named = {f"{path}.credentials": binding.credentials}
    named |= {child(f"{path}.buckets", bucket): provider for bucket, provider in binding.buckets.items()}
    for where, provider in named.items():
        if provider not in credentials.providers:
            known = nearest(provider, credentials.providers)
            yield where, f"credentials.providers has no {provider!r}{known}"
    yield from _vend(f"{path}.vend", binding, s3)


def _vend(path: str, binding: StorageBinding, s3: S3Settings) -> Iterator[tuple[str, str]]:
    if binding.vend is Vend.STS and not binding.sts.role:
        yield path, f"a session is made of a role; set {path.removesuffix('vend')}sts.role"
    elif binding.vend is Vend.ISSUED and (not s3.enabled or S3Identity.EMULATED not in s3.identities):
        yield path, "issued keys are good at the S3 listener alone; set s3.enabled, with `emulated` among s3.identities"
    elif binding.vend is Vend.ISSUED and not s3.client_url:
        yield path, "callers have to be told where their keys are good; set s3.public_url"
    elif binding.vend is Vend.ISSUED and s3.keys.max_seconds < MIN_VENDED_SECONDS:
        yield (
            path,
            f"clients renew without pause what lives for less than {MIN_VENDED_SECONDS} s; raise s3.keys.max_seconds",
        )
