"""Judge what a store answered, and whether anything outside the caller's tables is other than it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.e2e.containment.world import (
    LAKE,
    MINE,
    READABLE,
    STRICT,
    UNLISTED,
    VAULT,
    WRITABLE,
    Table,
    World,
    labels_in,
)
from tests.e2e.stores.contents import buckets_of, objects_of, parse, settings_of, uploads_of
from tests.e2e.stores.direct import Owner, code_of
from tests.e2e.wire import Answer

# What a store says when it disagrees with the signature. 401 and 403 count in any case: the signing key owns
# everything, so that nothing else can be forbidden to it.
SIGNATURE_CODES = frozenset(
    {
        "SignatureDoesNotMatch",
        "AccessDenied",
        "AuthorizationHeaderMalformed",
        "InvalidAccessKeyId",
        "RequestTimeTooSkewed",
        "MissingSecurityHeader",
        "CredentialsNotSupported",
        "AuthorizationQueryParametersError",
        "MissingAuthenticationToken",
        "XAmzContentSHA256Mismatch",
    }
)

_NAMED = re.compile(r"/([^/]+)/namespaces/[^/]+/tables/([^/]+)(?:/sign)?$")
_LEGACY = re.compile(r"(?:/catalogs)?/([^/]+)/v1/aws/s3/sign$")


def is_signature_error(answer: Answer) -> bool:
    """Say whether the store refused the signature."""
    return answer.status in (401, 403) or (answer.status >= 400 and code_of(answer) in SIGNATURE_CODES)


def allowed_tables(route: str) -> tuple[Table, ...]:
    """Return the tables whose objects a request through a route may show."""
    named = _NAMED.search(route)
    if named is not None and named[1] == STRICT:
        return tuple(table for table in READABLE if table.catalog == STRICT and table.name == unquote(named[2]))
    # Without a table in the route, and with `by-location` whatever it names, the key says whose it is.
    legacy = _LEGACY.search(route)
    catalog = named[1] if named is not None else legacy[1] if legacy is not None else STRICT
    return tuple(table for table in READABLE if table.catalog == catalog)


def leaks(answer: Answer, allowed: tuple[Table, ...]) -> list[str]:
    """Return what an answer shows of objects that lie outside the allowed tables."""
    permitted = {MINE, *(table.name for table in allowed)}
    shown = labels_in(answer.body) | labels_in("\n".join(answer.headers.values()).encode("latin-1"))
    found = [f"content of {label!r}" for label in sorted(shown - permitted)]
    if answer.ok and b"<ListBucketResult" in answer.body[:400]:
        found += [f"name {name!r}" for name in _listed(answer.body) if not _inside(name, allowed)]
    if answer.ok and b"<ListAllMyBucketsResult" in answer.body[:400]:
        found.append("the list of buckets")
    if answer.ok and (
        b"<ListMultipartUploadsResult" in answer.body[:400] or b"<ListVersionsResult" in answer.body[:400]
    ):
        found.append("a list that is no opt-in here")
    return found


def _listed(body: bytes) -> Iterator[str]:
    root = parse(body)
    encoded = root.findtext("EncodingType") == "url"
    for element in (*root.iter("Contents"), *root.iter("CommonPrefixes")):
        name = element.findtext("Key") or element.findtext("Prefix") or ""
        yield unquote(name) if encoded else name


def _inside(name: str, allowed: tuple[Table, ...]) -> bool:
    return any(name.startswith(f"{table.root}/") for table in allowed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that lies outside the caller's tables, in a form that can be compared."""

    facts: dict[str, Any]

    def differences(self, later: Snapshot) -> list[str]:
        """Return what changed."""
        return [
            f"{name}: {self.facts.get(name)!r} became {later.facts.get(name)!r}"
            for name in sorted(self.facts.keys() | later.facts.keys())
            if self.facts.get(name) != later.facts.get(name)
        ]


# What a change of an object shows in, beside its content: a copy onto itself, tags, an ACL, other user metadata.
_COMPARED = ("etag", "last-modified", "content-type", "content-length", "cache-control", "x-amz-meta-label")


def snapshot(owner: Owner, world: World) -> Snapshot:
    """Read everything outside the caller's tables: names, contents, headers, tags, ACLs, uploads, settings."""
    facts: dict[str, Any] = {"buckets": buckets_of(owner)}
    for bucket in (LAKE, VAULT, UNLISTED):
        for listed in objects_of(owner, bucket):
            if not _writable(bucket, listed.key):
                facts[f"object {bucket}/{listed.key}"] = (listed.etag, listed.size)
        for upload in uploads_of(owner, bucket):
            if not _writable(bucket, upload.key):
                facts[f"upload {bucket}/{upload.key} {upload.upload_id}"] = upload.parts
        facts.update({f"{name} of {bucket}": value for name, value in settings_of(owner, bucket).items()})
    for bucket, key in world.canaries:
        facts[f"headers of {bucket}/{key}"] = _headers(owner, bucket, key)
    return Snapshot(facts)


def _headers(owner: Owner, bucket: str, key: str) -> dict[str, str]:
    headers = owner.ask("HEAD", f"{bucket}/{key}").headers
    found = {name: headers.get(name, "") for name in _COMPARED}
    for setting in ("acl", "tagging"):
        answer = owner.ask("GET", f"{bucket}/{key}", f"{setting}=")
        found[setting] = answer.body.decode() if answer.ok else code_of(answer)
    return found


def _writable(bucket: str, key: str) -> bool:
    """Say whether an object is the caller's to change: in a table of the caller's, and not the catalog's metadata."""
    for table in WRITABLE:
        if table.holds(bucket, key):
            return not key.endswith((".metadata.json", ".metadata.json.gz", "/version-hint.text"))
    return False


def smuggled(owner: Owner, bucket: str, key: str) -> list[str]:
    """Return whose content an object of the caller's holds that the caller could not have read."""
    answer = owner.ask("GET", f"{bucket}/{key}")
    for table in WRITABLE:
        if table.holds(bucket, key):
            readable = {each.name for each in READABLE if each.catalog == table.catalog == "open"}
            permitted = {MINE, table.name, *readable}
            return [f"{bucket}/{key} holds {label!r}" for label in sorted(labels_in(answer.body) - permitted)]
    return []


def smuggled_anywhere(owner: Owner) -> list[str]:
    """Look into every object of the caller's tables for content of others."""
    found: list[str] = []
    for table in WRITABLE:
        for listed in objects_of(owner, table.bucket, f"{table.root}/"):
            if _writable(table.bucket, listed.key):
                found += smuggled(owner, table.bucket, listed.key)
    return found
