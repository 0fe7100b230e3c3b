"""Write the session policy of a scope: the least that a signature for the same caller and table would allow.

    Allow   the actions on objects     arn:…:::bucket/<location>/*       every location ends with a slash
    Allow   lists                      arn:…:::bucket, s3:prefix like <location>/*, where the store keeps to that
    Allow   the KMS keys               only those that the storage names, only through S3
    Deny    further sessions           a store may give one of the whole role to a session that may do nothing of it
    Deny    metadata                   what `policy.containment` refuses
    Deny    other spellings of a key   where the store does not keep keys as they are

Nothing is ever joined that stands in two buckets: a list of prefixes holds for every bucket of its statement. What does
not fit is refused, never widened.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator

from signproxy.errors import Reason, Refused
from signproxy.policy.location import Location, bucket_problem
from signproxy.policy.table import MetadataLevel, Overwrite
from signproxy.s3.key import check_key
from signproxy.s3.storage import Storage
from signproxy.vending.policy_language import PolicyLanguage
from signproxy.vending.vended import VendAccess, VendScope

MAX_CHARACTERS = 2048
"""What session services take of a policy in plain text. AWS packs it too, and may refuse a shorter one."""

# Each has an effect on a signature as well: HEAD is GetObject, an upload in parts is PutObject, ListParts has its own.
READ_ACTIONS = ("s3:GetObject",)
WRITE_ACTIONS = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
LIST_ACTIONS = ("s3:ListBucket",)

_ESCAPED = re.compile(r"[*?$]")
# What some reader of a URI would turn into a wildcard, a slash or a dot.
_ENCODED = re.compile(r"%(?:2[aef4]|3f|5c)", re.IGNORECASE)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

_OTHER_SPELLINGS = ("/..*", "//*", "/./*", "/.")
_DROPPED = (";", ".", " ")
"""What some stores drop at the end of a segment: with what follows it, or as often as it is there."""


def session_policy(scope: VendScope, storage: Storage, language: PolicyLanguage) -> str:
    """Return the policy as compact JSON. Raise Refused with SCOPE_NOT_VENDABLE or SCOPE_TOO_LARGE."""
    if scope.access is VendAccess.READ_WRITE and scope.overwrite is Overwrite.FORBID:
        raise Refused(Reason.SCOPE_NOT_VENDABLE, "`overwrite: forbid`: no policy keeps an object from being replaced")
    locations = tuple(_outermost(scope.locations))
    if not locations:
        raise Refused(Reason.SCOPE_NOT_VENDABLE, "the table has no location")
    for location in (*locations, *scope.metadata_locations):
        if problem := unsafe(location, language):
            raise Refused(Reason.SCOPE_NOT_VENDABLE, f"{str(location)!r} {problem}")
    arn = f"arn:{language.partition}:s3:::"
    statements = [_allow(_object_actions(scope, storage), [f"{arn}{_pattern(each)}*" for each in locations])]
    if language.judges_prefix and scope.metadata is not MetadataLevel.SEALED:
        # A list from the top would show what is sealed.
        statements += _lists(locations, arn, storage)
    statements += _keys(scope, storage)
    statements += _denials(scope, storage, language)
    text = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    if len(text) > MAX_CHARACTERS:
        detail = f"{len(text)} characters for {len(locations)} locations; a session policy has {MAX_CHARACTERS}"
        raise Refused(Reason.SCOPE_TOO_LARGE, detail)
    return text


def unsafe(location: Location, language: PolicyLanguage) -> str:
    """Return why no policy may be written for a location, or nothing."""
    if problem := bucket_problem(location.bucket):
        return f"cannot be expressed: {problem}"
    if not location.path:
        return "is a whole bucket"
    try:
        check_key(location.path)
    except Refused as refusal:
        return f"cannot be expressed: {refusal.reason.code}"
    if any(unicodedata.category(character) in _INVISIBLE for character in location.path):
        return "holds an invisible character"
    if _ENCODED.search(location.path):
        return "holds an escape that some reader would decode"
    if not language.escapes and _ESCAPED.search(location.path):
        return "holds one of * ? $, which policies of this store cannot express"
    return ""


def _outermost(locations: Iterable[Location]) -> Iterator[Location]:
    """Yield the locations that lie below no other one."""
    found = dict.fromkeys(locations)
    for location in found:
        if not any(other.contains(location) for other in found):
            yield location


def _pattern(location: Location) -> str:
    return f"{location.bucket}/{_escaped(location.prefix)}"


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"${{{found[0]}}}", text)


def _allow(actions: list[str], resources: list[str], **condition: object) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **condition}


def _object_actions(scope: VendScope, storage: Storage) -> list[str]:
    opt_ins = storage.opt_ins
    actions = list(READ_ACTIONS)
    actions += ["s3:GetObjectVersion"] if opt_ins.recover else []
    actions += ["s3:GetObjectTagging"] if opt_ins.tagging else []
    if scope.access is VendAccess.READ_WRITE:
        actions += WRITE_ACTIONS
        actions += ["s3:PutObjectTagging"] if opt_ins.tagging else []
    return actions


def _lists(locations: tuple[Location, ...], arn: str, storage: Storage) -> Iterator[dict[str, object]]:
    actions = [*LIST_ACTIONS, *(["s3:ListBucketVersions"] if storage.opt_ins.recover else [])]
    for bucket in dict.fromkeys(location.bucket for location in locations):
        prefixes = [f"{_escaped(each.prefix)}*" for each in locations if each.bucket == bucket]
        yield _allow(actions, [f"{arn}{bucket}"], Condition={"StringLike": {"s3:prefix": prefixes}})


def _keys(scope: VendScope, storage: Storage) -> Iterator[dict[str, object]]:
    """Yield what a KMS key is used with; a name that is no ARN of a key has no meaning in a policy."""
    keys = [key for key in storage.opt_ins.kms_keys if key_arn(key)]
    if keys:
        actions = ["kms:Decrypt", *(["kms:GenerateDataKey"] if scope.access is VendAccess.READ_WRITE else [])]
        suffix = "amazonaws.com.cn" if storage.region.startswith("cn-") else "amazonaws.com"
        condition = {"StringEquals": {"kms:ViaService": f"s3.{storage.region}.{suffix}"}}
        yield _allow(actions, keys, Condition=condition)


def key_arn(name: str) -> bool:
    """Whether this is the ARN of one KMS key, and no alias or pattern."""
    return re.fullmatch(r"arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+", name, re.ASCII) is not None


def _denials(scope: VendScope, storage: Storage, language: PolicyLanguage) -> Iterator[dict[str, object]]:
    arn = f"arn:{language.partition}:s3:::"
    if language.denies_sessions:
        yield {"Effect": "Deny", "Action": ["sts:*"], "Resource": ["*"]}
    closed: list[str] = []
    kept: list[str] = []
    if scope.metadata is not MetadataLevel.OPEN:
        # What ends with a dot, a blank or a semicolon and more is the same file to lenient stores.
        closed += [f"{arn}*/*.metadata.json*", f"{arn}*/version-hint.text*"]
        kept = [f"{arn}*/", *(f"{arn}*/{_escaped(each)}" for each in _folders(scope))]
    if scope.metadata is MetadataLevel.SEALED:
        closed += [f"{arn}{_escaped(each)}*" for each in _sealed(scope)]
    if not storage.literal_keys:
        closed += [f"{arn}*{spelling}" for spelling in _OTHER_SPELLINGS]
        kept += [f"{arn}{each}{end}*" for each in _paths(scope) for end in _DROPPED] if kept else []
    if closed:
        yield {"Effect": "Deny", "Action": ["s3:*"], "Resource": closed}
    if kept and scope.access is VendAccess.READ_WRITE:
        # Some stores delete a folder with all that lies in it.
        yield {"Effect": "Deny", "Action": ["s3:DeleteObject", "s3:AbortMultipartUpload"], "Resource": kept}


def _folders(scope: VendScope) -> list[str]:
    """Return the name of each folder of the table that a metadata path has on its way.

    Without what stands before it: a name is short, and no client makes objects of such names.
    """
    found: dict[str, None] = {}
    for place in scope.metadata_locations:
        for location in scope.locations:
            if location.contains(place):
                found |= dict.fromkeys(place.path.removeprefix(location.prefix).split("/"))
    return list(found)


def _paths(scope: VendScope) -> dict[str, None]:
    """Return bucket and path of each of these folders."""
    found: dict[str, None] = {}
    for place in scope.metadata_locations:
        for location in scope.locations:
            if location.contains(place):
                ends = [each.start() for each in re.finditer("/", place.path) if each.start() >= len(location.prefix)]
                paths = (place.path[:end] for end in (*ends, len(place.path)))
                found |= dict.fromkeys(f"{place.bucket}/{_escaped(path)}" for path in paths)
    return found


def _sealed(scope: VendScope) -> list[str]:
    """Return bucket and path of each metadata path, up to its first segment in the table.

    Without what ends that segment, so that no spelling of it is open.
    """
    found: dict[str, None] = {}
    for place in scope.metadata_locations:
        holders = [location for location in scope.locations if location.contains(place)]
        # The innermost: the data path may lie in the table's location, and have a metadata path of its own.
        start = max((len(location.prefix) for location in holders), default=len(place.path))
        end = place.path.find("/", start)
        found[f"{place.bucket}/{place.path if end < 0 else place.path[:end]}"] = None
    return list(found)
