"""JudgeKeys the keys of a bulk delete: those of one folder together, and not all of them in one go."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from signproxy.errors import Reason, Refused
from signproxy.gate.attempt import Attempt
from signproxy.gate.forwarded import Passed, RefusedKey, Together
from signproxy.gate.judgement import Denied
from signproxy.gate.observing import is_excused
from signproxy.gate.turns import in_pieces
from signproxy.model import Allow, Deny
from signproxy.policy.catalog import Overlap
from signproxy.policy.state import Reached
from signproxy.s3.forwarded import Forwardable, spellings
from signproxy.s3.key import SHORT_KEY, check_length
from signproxy.s3.request import S3Request

AT_ONCE = 64
"""Keys that are judged together before others may have their turn."""

_OF_THE_FOLDER = frozenset(
    {
        Reason.NO_REMOTE_SIGN,
        Reason.NO_READ_DATA,
        Reason.NO_WRITE_DATA,
        Reason.NO_MANAGE,
        Reason.CEILING,
        Reason.NOT_IN_SCOPE,
        Reason.LOCATION_UNOWNED,
    }
)
"""Refusals that no name of an object changes: a caller that is refused one in a folder is refused all in it."""


class Deletable(NamedTuple):
    """Keys that may be deleted: by what, and where they lie."""

    allow: Allow
    catalog: str
    table_uuid: str


_Folder = tuple[str | int, ...]
"""A folder, and the volume of each catalog that its keys lie in: the name of a volume's own folder is such a key."""

JudgeKeys = Callable[[tuple[str, ...]], Deletable | Deny]
"""Says of keys that lie in one place whether all of them may be deleted; a refusal is about any of them."""


async def judge_bulk(attempt: Attempt, forwardable: Forwardable, judge: JudgeKeys) -> Passed:
    """Return what may be sent of a bulk delete; refused keys do not keep the others back. Raise Refused."""
    request = forwardable.request
    said = await in_pieces(_said(request, attempt.reached, judge))
    # In the order of the request, whichever place was asked for first.
    verdicts = [(key, said[key]) for key in request.delete_keys]
    allowed = [(key, verdict) for key, verdict in verdicts if isinstance(verdict, Deletable)]
    refused = [(key, verdict) for key, verdict in verdicts if isinstance(verdict, Deny)]
    if refused:
        attempt.deny = denial = refused[0][1]
        others = [each for _, each in refused if each.reason is not Reason.KEY_TOO_LONG]
        attempt.beyond = next((each for each in others if not is_excused(attempt.subject, each)), None)
        if not allowed:
            raise Denied(denial)
        if denial.reason is Reason.KEY_TOO_LONG:
            # No policy grants it, so there is nothing to observe: it is told of the keys of observed callers, too.
            attempt.deny = next(iter(others), None)
    _, attempt.catalog, attempt.table_uuid = allowed[0][1]
    allow = _together([verdict.allow for _, verdict in allowed])
    if not refused:
        return Passed(allow, forwardable)
    attempt.request = request = replace(request, delete_keys=tuple([key for key, _ in allowed]))
    kept_back = tuple([RefusedKey(key, denial.reason) for key, denial in refused])
    return Passed(allow, replace(forwardable, request=request), kept_back)


def _said(
    request: S3Request, reached: tuple[Reached, ...], judge: JudgeKeys
) -> Generator[None, None, dict[str, Deletable | Deny]]:
    # Where locations may nest, and where an upstream tells of them, a name may be that of another table's folder.
    uniform = all(each.catalog.learning is None and each.catalog.overlap is Overlap.FORBIDDEN for each in reached)
    volumes = [each.volumes for each in reached if each.volumes is not None]

    def folder_of(key: str) -> _Folder:
        return (key[: key.rfind("/") + 1], *[id(each.find(request.bucket, key)) for each in volumes])

    closed: dict[_Folder, Deny] = {}
    said: dict[str, Deletable | Deny] = {}
    for start in range(0, len(request.delete_keys), AT_ONCE):
        yield
        plain: list[str] = []
        for key in request.delete_keys[start : start + AT_ONCE]:
            if len(key) > SHORT_KEY and (denial := _too_long(key)) is not None:
                # It lies nowhere, and keeps no other key from being judged with those beside it.
                said[key] = denial
                continue
            spelled = spellings(key, request.storage)
            if len(spelled) > 1:
                said[key] = judge(spelled)
            elif closed and (folder := folder_of(key)) in closed:
                said[key] = closed[folder]
            else:
                plain.append(key)
        # Nearly always all of them lie in one table, whatever their folders.
        together = judge(tuple(plain)) if plain else None
        if isinstance(together, Deletable):
            said.update(dict.fromkeys(plain, together))
            continue
        folders: dict[_Folder, list[str]] = {}
        for key in plain:
            folders.setdefault(folder_of(key), []).append(key)
        for folder, keys in folders.items():
            verdict = together if together is not None and len(keys) == len(plain) else judge(tuple(keys))
            if isinstance(verdict, Deny) and uniform and verdict.reason in _OF_THE_FOLDER:
                closed[folder] = verdict
            elif isinstance(verdict, Deny) and len(keys) > 1:
                said.update((yield from _one_by_one(keys, judge)))
                continue
            said.update(dict.fromkeys(keys, verdict))
            yield
    return said


def _one_by_one(keys: Iterable[str], judge: JudgeKeys) -> Generator[None, None, dict[str, Deletable | Deny]]:
    said: dict[str, Deletable | Deny] = {}
    for key in keys:
        said[key] = judge((key,))
        yield
    return said


def _too_long(key: str) -> Deny | None:
    try:
        check_length(key)
    except Refused as refused:
        return Deny(refused.reason, refused.detail)
    return None


def _together(allows: list[Allow]) -> Allow:
    """Return the first of several, with what stands behind each of the tables and volumes."""
    each = {allow.table or allow.volume: allow for allow in allows}
    if len(each) == 1:
        return allows[0]
    return replace(allows[0], authority=Together(tuple([allow.authority for allow in each.values()])))
