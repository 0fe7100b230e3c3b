"""Check that the operator let every endpoint of the policy be signed for.

The policy declares storages; the settings bind them. A person who may edit only the policy can therefore not
make signproxy send a valid signature to a host of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from signproxy.credentials.provider import Binding
from signproxy.diagnosis import Diagnosis, advised
from signproxy.errors import Finding, nearest
from signproxy.s3.storage import Storage

BINDINGS = "storages"
"""Where the settings have them."""

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_HOST = re.compile(rf"(?P<host>\.?{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>[1-9][0-9]{{0,4}}))?")
AWS = "aws"
"""Stands for Amazon's own names of S3. `.amazonaws.com` would be far more: every machine and every API that Amazon
runs for any customer has a name below it."""

_REGION = r"[a-z]{2,3}(?:-[a-z]+)+-[0-9]+"
_AWS_HOST = re.compile(
    rf"(?:s3(?:-fips)?(?:\.dualstack)?\.{_REGION}|s3-{_REGION}|s3|s3-accelerate(?:\.dualstack)?)\.amazonaws\.com(?:\.cn)?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def check_bindings(storages: Iterable[Storage], bindings: Sequence[Binding], *, path: str = BINDINGS) -> list[Finding]:
    """Return what keeps a storage from being signed for: no binding, or an endpoint outside its hosts."""
    by_name = {binding.storage: binding for binding in bindings}
    findings = [
        Finding("", f"{path}.{name}", "this storage is bound more than once")
        for name, times in Counter(binding.storage for binding in bindings).items()
        if times > 1
    ]
    for binding in by_name.values():
        findings += [
            Finding("", f"{path}.{binding.storage}.hosts", f"{host!r} is neither host[:port], .suffix[:port] nor aws")
            for host in binding.hosts
            if not _HOST.fullmatch(host.lower())
        ]
    for storage in storages:
        bound = by_name.get(storage.name)
        if bound is None:
            hint = nearest(storage.name, by_name)
            findings.append(Finding("", f"{path}.{storage.name}", f"storage {storage.name!r} has no binding{hint}"))
        else:
            findings += _uncovered(storage, bound, path)
            findings += _strange_buckets(storage, bound, path)
    return findings


def unused_bindings(
    storages: Iterable[Storage], bindings: Iterable[Binding], *, path: str = BINDINGS
) -> list[Diagnosis]:
    """Return the bindings that no storage uses: a slip worth a warning, and no danger.

    Not part of `check_bindings`: a policy that drops a storage must still load.
    """
    names = [storage.name for storage in storages]
    unused = (binding.storage for binding in bindings if binding.storage not in names)
    return [advised(f"{path}.{name}", f"the policy has no storage {name!r}{nearest(name, names)}") for name in unused]


def covers(hosts: Iterable[str], scheme: str, authority: str) -> bool:
    """Return whether an endpoint is one of the hosts, or lies below one that begins with a dot."""
    host, port = _split(authority, _DEFAULT_PORTS[scheme])
    for allowed in hosts:
        if allowed == AWS:
            if port == _DEFAULT_PORTS["https"] and _AWS_HOST.fullmatch(host):
                return True
            continue
        # A host without a port means HTTPS: else a policy could ask for signatures that travel in the clear.
        allowed_host, allowed_port = _split(allowed, _DEFAULT_PORTS["https"])
        if allowed_port != port or not host:
            continue
        if host == allowed_host and not allowed_host.startswith("."):
            return True
        # What stands before the dot must be a host, so `.suffix` does not cover the suffix itself.
        if allowed_host.startswith(".") and host.endswith(allowed_host) and not host.startswith("."):
            return True
    return False


def _split(authority: str, default_port: str) -> tuple[str, str]:
    """Return host and port; an empty host for what is none, which nothing covers."""
    match = _HOST.fullmatch(authority.lower())
    return (match["host"], match["port"] or default_port) if match else ("", "")


def _uncovered(storage: Storage, binding: Binding, path: str) -> Iterator[Finding]:
    for endpoint in storage.endpoints:
        if not covers(binding.hosts, endpoint.scheme, endpoint.authority):
            host, port = _split(endpoint.authority, _DEFAULT_PORTS[endpoint.scheme])
            needed = host if port == "443" else f"{host}:{port}"
            yield Finding(
                "",
                f"{path}.{storage.name}.hosts",
                f"endpoint {endpoint.scheme}://{endpoint.authority} of the policy is not among these hosts;"
                f" add {needed!r} if it is yours",
            )


def _strange_buckets(storage: Storage, binding: Binding, path: str) -> Iterator[Finding]:
    for bucket in binding.buckets:
        if bucket not in storage.buckets:
            hint = nearest(bucket, storage.buckets)
            yield Finding("", f"{path}.{storage.name}.buckets.{bucket}", f"the storage has no such bucket{hint}")
