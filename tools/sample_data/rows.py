"""Describe a request as a store serves it, whatever log it writes."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from tools.sample_data.world import Bucket

STAMP = "x-signproxy-id"

OPERATIONS = {
    "GetObject": "REST.GET.OBJECT",
    "HeadObject": "REST.HEAD.OBJECT",
    "PutObject": "REST.PUT.OBJECT",
    "DeleteObject": "REST.DELETE.OBJECT",
    "DeleteObjects": "REST.POST.MULTI_OBJECT_DELETE",
    "ListObjectsV2": "REST.GET.BUCKET",
    "CopyObject": "REST.COPY.OBJECT",
    "CreateMultipartUpload": "REST.POST.UPLOADS",
    "UploadPart": "REST.PUT.PART",
    "CompleteMultipartUpload": "REST.POST.UPLOAD",
}
"""S3's name of an operation, and what its access log calls it."""


class Row(NamedTuple):
    """A request in a store's log."""

    at: float
    bucket: Bucket
    remote_ip: str
    requester: str
    """An ARN at AWS, an access key elsewhere."""
    access_key: str
    request_id: str
    s3_op: str
    method: str
    key: str
    """Decoded."""
    path: str
    """The key as it stands in the URI, encoded once."""
    query: str
    """With the stamp, without the question mark."""
    status: int
    error: str
    sent: int
    size: int
    millis: int
    user_agent: str
    class_: str
    """For the truth: the class, and the event behind it."""
    event_id: str = ""
    principal: str = ""
    operation: str = ""
    """What the access log calls it, where that does not follow from the operation."""


def encoded(key: str) -> str:
    """Return a key as S3's clients write it into a URI."""
    return quote(key, safe="/-_.~")


def stamp(event_id: str) -> str:
    """Return the parameter that signproxy adds to a URI."""
    return f"{STAMP}={event_id}"


def session_arn(role: str, session: str, account: str) -> str:
    """Return whom S3 names for the keys of a session."""
    return f"arn:aws:sts::{account}:assumed-role/{role}/{session}"


def session_name(principal: str, event_id: str) -> str:
    """Return the session of vended keys, which ends with the id of the event that they were made by."""
    return f"sp-{principal.replace('/', '-')[:34]}-{event_id}"
