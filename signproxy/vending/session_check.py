"""Prove of each session policy, before it is used, that it allows nothing beyond the decision.

Not by trying the places of the inventory: a pattern matches only what begins with its head. A head that begins with one
of the table's own locations, slash included, keeps out every key of every other place, those of tomorrow included. That
costs the same for ten tables and for a million. What other tables and volumes have *inside* the table's own locations,
or around them, `OtherPlaces` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signproxy.policy.location import Location
from signproxy.policy.table import MetadataLevel
from signproxy.vending.policy_language import PolicyLanguage
from signproxy.vending.session_policy_match import Pattern, PolicyUnclear, Statement, allowed, open_actions, read_policy
from signproxy.vending.vended import VendAccess, VendScope

_READS = frozenset({"s3:getobject", "s3:getobjectversion", "s3:getobjecttagging"})
_WRITES = frozenset(
    {
        "s3:putobject",
        "s3:deleteobject",
        "s3:abortmultipartupload",
        "s3:listmultipartuploadparts",
        "s3:putobjecttagging",
    }
)
_REMOVALS = ("s3:deleteobject", "s3:abortmultipartupload")
_LISTS = frozenset({"s3:listbucket", "s3:listbucketversions"})
_KEYS = {VendAccess.READ: {"kms:decrypt"}, VendAccess.READ_WRITE: {"kms:decrypt", "kms:generatedatakey"}}

_METADATA_FILES = (
    "v1.metadata.json",
    "00001-6f1a3c5e-0000-4000-8000-000000000001.metadata.json",
    "00001-a.metadata.json.gz",
    "00001-a.gz.metadata.json",
    "version-hint.text",
    # As lenient stores read them.
    "v1.metadata.json;v=1",
    "v1.metadata.json. ",
    "version-hint.text.",
)

_LENIENT = ("", ".", ". .", " ", ";", ";v=1", "./")
"""What lenient stores drop at the end of a folder's name."""


def excess(
    policy: str, scope: VendScope, language: PolicyLanguage, keys: Iterable[str] = (), *, literal: bool = True
) -> str:
    """Return what a session policy allows beyond its scope, in words for the operator; nothing where that is nothing.

    `keys` are the KMS keys that the storage names; `literal` says that it takes each key for what it is.
    """
    try:
        statements = read_policy(policy, escapes=language.escapes)
    except PolicyUnclear as unclear:
        return f"not understood: {unclear}"
    names, arn = frozenset(keys), f"arn:{language.partition}:s3:::"
    for statement in statements:
        if statement.allows:
            problem = _beyond(statement, scope, language, arn, names)
            if problem:
                return problem
    if language.denies_sessions and not any(_keeps_from_sts(statement) for statement in statements):
        return "that it asks for a further session, which would have no policy"
    return next(_open_metadata(statements, scope, arn, ("",) if literal else _LENIENT), "")


def closed(policy: str, scope: VendScope, language: PolicyLanguage) -> str:
    """Return a location of the table whose files its own session policy closes, or nothing.

    A folder may be called as what is denied: `a.metadata.json`, or `..a` on stores that might resolve it.
    """
    statements = read_policy(policy, escapes=language.escapes)
    sealed = scope.metadata_locations if scope.metadata is MetadataLevel.SEALED else ()
    for place in scope.locations:
        key = f"arn:{language.partition}:s3:::{place.bucket}/{place.path}/data/00000-0.parquet"
        if place not in sealed and not allowed(statements, "s3:GetObject", key):
            return str(place)
    return ""


def _keeps_from_sts(statement: Statement) -> bool:
    """Whether a statement denies what asks for sessions, to a role of any name, and unconditionally."""
    denies = not statement.allows and not statement.conditions
    return denies and all(statement.holds(each, "any role at all", {}) for each in ("sts:AssumeRole", "sts:x"))


def _beyond(statement: Statement, scope: VendScope, language: PolicyLanguage, arn: str, keys: frozenset[str]) -> str:
    """Return what is wrong with a statement that allows."""
    actions = {action.head for action in statement.actions}
    if not all(action.is_plain for action in statement.actions):
        return "an action that is a pattern"
    if actions <= _LISTS:
        if not language.judges_prefix:
            return "lists, for which this store judges another prefix than it lists"
        return _beyond_lists(statement, scope, arn)
    if actions <= _KEYS[scope.access]:
        through = dict(statement.conditions).get("kms:viaservice", ())
        if not through or not all(each.is_plain and each.head.startswith("s3.") for each in through):
            return "a key beside what S3 does with it"
        strange = [each.head for each in statement.resources if not each.is_plain or each.head not in keys]
        return f"the key {strange[0]!r}" if strange else ""
    extra = actions - _READS - (_WRITES if scope.access is VendAccess.READ_WRITE else frozenset())
    if extra:
        return f"the actions {sorted(extra)}"
    heads = tuple(f"{arn}{location.bucket}/{location.path}/" for location in scope.locations if location.path)
    return _outside(statement.resources, heads)


def _beyond_lists(statement: Statement, scope: VendScope, arn: str) -> str:
    if scope.metadata is MetadataLevel.SEALED:
        return "lists, which show what is sealed"
    prefixes = dict(statement.conditions).get("s3:prefix")
    if prefixes is None:
        return "lists of any prefix"
    buckets = {f"{arn}{location.bucket}": location.bucket for location in scope.locations}
    for resource in statement.resources:
        if not resource.is_plain or resource.head not in buckets:
            return f"lists of {resource.head!r}"
        bucket = buckets[resource.head]
        # Every prefix of the statement holds in every bucket of it.
        within = tuple(f"{each.path}/" for each in scope.locations if each.bucket == bucket and each.path)
        if problem := _outside(prefixes, within):
            return f"in bucket {bucket!r} {problem}"
    return ""


def _outside(patterns: Iterable[Pattern], heads: tuple[str, ...]) -> str:
    for pattern in patterns:
        if not heads or not pattern.head.startswith(heads):
            return f"what begins with {pattern.head!r}"
    return ""


def _open_metadata(
    statements: tuple[Statement, ...], scope: VendScope, arn: str, endings: tuple[str, ...]
) -> Iterator[str]:
    """Yield each protected file that the policy does not close."""
    if scope.metadata is MetadataLevel.OPEN:
        return
    granted = {action.head for each in statements if each.allows for action in each.actions} & (_READS | _WRITES)
    for place in dict.fromkeys((*scope.metadata_locations, *scope.locations)):
        for key in _protected(
            place, sealed=scope.metadata is MetadataLevel.SEALED and place in scope.metadata_locations
        ):
            for action in open_actions(statements, granted, f"{arn}{place.bucket}/{key}"):
                yield f"{action} on {key!r}, which is protected"
    for place in scope.metadata_locations:
        for location in scope.locations:
            for key in (folder + ending for folder in _between(location, place) for ending in endings):
                for action in open_actions(statements, _REMOVALS, f"{arn}{place.bucket}/{key}"):
                    yield f"{action} on {key!r}, which has metadata below it"


def _protected(place: Location, *, sealed: bool) -> Iterator[str]:
    for folder in (place.prefix, f"{place.prefix}a/b/"):
        yield from (f"{folder}{name}" for name in _METADATA_FILES)
    if sealed:
        yield f"{place.prefix}snap-1.avro"
        yield f"{place.path};v=1/snap-1.avro"


def _between(location: Location, place: Location) -> Iterator[str]:
    """Yield the keys below a location that name a folder around a place, or the place."""
    if location.contains(place):
        end = place.path.find("/", len(location.prefix))
        while end >= 0:
            yield place.path[:end]
            end = place.path.find("/", end + 1)
        yield place.path
