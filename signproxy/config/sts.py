"""Declare how a storage's session service is asked for vended keys, and check what can be known of it beforehand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from signproxy.config.addresses import is_loopback, plain_url
from signproxy.config.fields import FileName, Text
from signproxy.documents import child

CHAINED_SECONDS = 3600
PRINCIPAL = "{principal}"
MAX_TAGS = 50

BAD_TAG = "a tag has 1 to 128, its value up to 256 letters, digits, blanks and _.:/=+-@; or the value is {principal}"

_TAG_KEY = re.compile(r"(?!aws:)[A-Za-z0-9_.:/=+\-@ ]{1,128}")
_TAG_VALUE = re.compile(r"[A-Za-z0-9_.:/=+\-@ ]{0,256}")


class StsSettings(msgspec.Struct, frozen=True):
    """How sessions are asked for that reach one table: AssumeRole by the storage's own credentials, or a web identity.

    The role is what the sessions are cut out of: it needs the rights on objects, lists and parts of all tables.
    """

    role: Annotated[str, Meta(pattern=r"^(arn:[A-Za-z0-9_+=,.@:/-]{16,2044})?$")] = ""
    """The ARN of the role that sessions are made of. There are none if it is empty."""
    external_id: Annotated[str, Meta(pattern=r"^([A-Za-z0-9_+=,.@:/-]{2,1224})?$")] = ""
    """What the role's trust policy asks for, where it belongs to another account."""
    duration_seconds: Annotated[int, Meta(ge=900, le=43_200)] = CHAINED_SECONDS
    """How long a session lasts; an hour at most where the storage's own credentials are a session themselves."""
    never_beyond_token: bool = True
    """Let no session outlive the token of the caller that it is for. Callers whose token ends within 15 minutes are
    refused then: no service makes a shorter session. `false` is for issuers of shorter tokens."""
    region: Annotated[str, Meta(pattern=r"^([a-z0-9]+(-[a-z0-9]+)*)?$")] = ""
    """Of the session service. Default: where AWS' own tools find it, else the storage's."""
    endpoint: str = ""
    """The URL of another session service than Amazon's; needed for every other store."""
    web_identity_token_file: FileName = ""
    """A token of this pod (AssumeRoleWithWebIdentity), shown in place of a signature by the storage's credentials."""
    tags: dict[Text, str] = {}
    """Session tags; `{principal}` stands for the caller. Each takes room from the session policy."""
    source_identity: bool = False
    """Name the caller as the source identity. The role's trust policy has to allow sts:SetSourceIdentity."""
    policy_variables: bool = False
    """The store is not Amazon's, and knows `${*}`, `${?}` and `${$}` in policies. Without, tables with one of these
    characters in a location get no keys."""
    policy_case: bool = False
    """The store is not Amazon's, and tells capital from small letters in policies. Without, tables get no keys whose
    locations differ from those of another table by that alone: SeaweedFS would open both."""
    policy_denies_sts: bool = True
    """Deny `sts:*` in each session policy: a session of SeaweedFS could ask for another without one. `false` is for
    stores that take no policy with such an action and give sessions none, as MinIO."""
    policy_prefix: bool = False
    """The store is not Amazon's, and compares `s3:prefix` with the very prefix that it lists. Without, sessions list
    nothing: MinIO also takes a second `prefix`, or a header of that name, and would list the whole bucket."""


def sts_faults(path: str, sts: StsSettings) -> Iterator[tuple[str, str]]:
    """Yield path and problem of everything that contradicts itself, or that no service takes."""
    if not sts.role:
        for name in sts.__struct_fields__:
            if getattr(sts, name) != getattr(StsSettings(), name):
                yield f"{path}.{name}", f"has no effect without {path}.role"
        return
    if sts.endpoint and not _is_endpoint(sts.endpoint):
        yield f"{path}.endpoint", f"{sts.endpoint!r} is no https URL of a host alone; http is for loopback only"
    if sts.web_identity_token_file:
        for name in ("external_id", "tags", "source_identity"):
            if getattr(sts, name):
                yield f"{path}.{name}", "has no effect with web_identity_token_file: what the token says counts"
    if len(sts.tags) > MAX_TAGS:
        yield f"{path}.tags", f"{len(sts.tags)} tags; a session has {MAX_TAGS} at most"
    for key, value in sts.tags.items():
        if not _TAG_KEY.fullmatch(key) or not (value == PRINCIPAL or _TAG_VALUE.fullmatch(value)):
            yield child(f"{path}.tags", key), BAD_TAG


def _is_endpoint(url: str) -> bool:
    parts = plain_url(url)
    if parts is None or parts.path not in ("", "/") or set(url) & set("?#"):
        return False
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
