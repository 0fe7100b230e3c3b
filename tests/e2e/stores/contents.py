"""Read everything that a bucket holds: objects, uploads with their parts, settings."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree as ET

from tests.e2e.stores.direct import Owner, code_of

# What a request could change about a bucket besides its objects. Stores answer some with "not implemented", and
# that answer is as good a fingerprint as any: it must stay the same.
SETTINGS = ("acl", "policy", "cors", "tagging", "versioning", "lifecycle", "ownershipControls", "encryption")


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a list shows it."""

    key: str
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Upload:
    """An unfinished multipart upload with the parts it has: number and etag."""

    key: str
    upload_id: str
    parts: tuple[tuple[int, str], ...]


def parse(body: bytes) -> ET.Element:
    """Parse a store's XML and drop its name space."""
    root = ET.fromstring(body)  # noqa: S314  # written by the store under test
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def objects_of(owner: Owner, bucket: str, prefix: str = "") -> list[Listed]:
    """Return every object below a prefix."""
    found: list[Listed] = []
    asked = {"list-type": "2", "prefix": prefix}
    while True:
        root = parse(owner.must("GET", bucket, _canonical(asked)).body)
        found += [
            Listed(_text(item, "Key"), _text(item, "ETag").strip('"'), int(_text(item, "Size")))
            for item in root.iter("Contents")
        ]
        if _text(root, "IsTruncated") != "true":
            return found
        asked["continuation-token"] = _text(root, "NextContinuationToken")


def uploads_of(owner: Owner, bucket: str) -> list[Upload]:
    """Return every unfinished upload with its parts."""
    found: list[Upload] = []
    asked = {"uploads": ""}
    while True:
        root = parse(owner.must("GET", bucket, _canonical(asked)).body)
        for item in root.iter("Upload"):
            key, upload_id = _text(item, "Key"), _text(item, "UploadId")
            found.append(Upload(key, upload_id, _parts_of(owner, bucket, key, upload_id)))
        if _text(root, "IsTruncated") != "true":
            return sorted(found, key=lambda upload: (upload.key, upload.upload_id))
        asked["key-marker"] = _text(root, "NextKeyMarker")
        asked["upload-id-marker"] = _text(root, "NextUploadIdMarker")


def buckets_of(owner: Owner) -> list[str]:
    """Return the names of all buckets."""
    return sorted(_text(item, "Name") for item in parse(owner.must("GET", "").body).iter("Bucket"))


def settings_of(owner: Owner, bucket: str) -> dict[str, str]:
    """Return what the store says of each setting of a bucket: the document, or the code of its refusal."""
    found = {}
    for setting in SETTINGS:
        answer = owner.ask("GET", bucket, f"{setting}=")
        found[setting] = answer.body.decode() if answer.ok else code_of(answer)
        # Swift overlooks a name that it does not know, and lists the bucket.
        if "<ListBucketResult" in found[setting]:
            found[setting] = "not known"
    return found


def _parts_of(owner: Owner, bucket: str, key: str, upload_id: str) -> tuple[tuple[int, str], ...]:
    answer = owner.ask("GET", f"{bucket}/{key}", _canonical({"uploadId": upload_id}))
    if not answer.ok:
        return ((0, code_of(answer)),)
    return tuple(
        (int(_text(item, "PartNumber")), _text(item, "ETag").strip('"')) for item in parse(answer.body).iter("Part")
    )


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(name) or ""


def _canonical(query: dict[str, str]) -> str:
    return "&".join(f"{name}={quote(query[name], safe='~')}" for name in sorted(query))
