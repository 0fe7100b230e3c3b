"""Say for which other keys the decision about one key holds as it stands: for its neighbours, in the same folder.

A decision about reading an object looks at its key in three ways alone:

    which locations, metadata paths and roots lie above it    its folders say so, and neighbours have the same
    which volume it lies in                                   its folders say so, but for the name of a volume's folder
    whether its own name is that of a metadata file           asked of each neighbour

Everything else that it looks at is the policy, who asks, and what is asked besides the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from signproxy.policy.containment import PROTECTED_NAMES
from signproxy.policy.state import Reached
from signproxy.policy.volume import Volume, Volumes
from signproxy.s3.key import MAX_KEY_BYTES
from signproxy.s3.operation import Operation
from signproxy.s3.request import S3Request

_READS = (Operation.GET_OBJECT, Operation.HEAD_OBJECT)
"""Operations of which a decision is known to hold for neighbours."""

# No character that is escaped, or that some store or server reads otherwise; no dot at either end.
_NAME = re.compile(r"[A-Za-z0-9\-_~](?:[A-Za-z0-9\-._~]*[A-Za-z0-9\-_~])?")
_FOLDERS = re.compile(r"(?:[A-Za-z0-9\-_~](?:[A-Za-z0-9\-._~]*[A-Za-z0-9\-_~])?/)*")


class Neighbours(msgspec.Struct, frozen=True, gc=False):
    """The other keys in the folder of one that was decided about."""

    bucket: str
    folder: str
    """What their keys begin with, final slash included; empty at the top of a bucket."""
    longest: int
    """Characters that a name may have."""
    volumes: tuple[tuple[Volumes, Volume | None], ...]
    """Of every catalog that has some in the bucket: in which of them the key lies."""

    def key_of(self, name: str) -> str:
        """Return the key of a neighbour; nothing where the decision is not known to hold for that one."""
        if len(name) > self.longest or _NAME.fullmatch(name) is None:
            return ""
        key = self.folder + name
        if key.endswith(PROTECTED_NAMES):
            return ""
        for volumes, found in self.volumes:
            if volumes.find(self.bucket, key) is not found:
                return ""
        return key


def neighbours(reached: Iterable[Reached], request: S3Request) -> Neighbours | None:
    """Return the neighbours of the key of a request that may be served; None where each has to be judged for itself.

    They hold as long as the policy does that the request was judged by, and what an upstream told of the table where
    it did. `reached` are all the catalogs that the bucket may mean to the caller.
    """
    key = request.key
    folder = key[: key.rfind("/") + 1]
    if request.operation not in _READS or request.canonical_query:
        return None
    if not _FOLDERS.fullmatch(folder) or not _NAME.fullmatch(key[len(folder) :]) or key.endswith(PROTECTED_NAMES):
        return None
    held = [place.volumes for place in reached if place.volumes is not None]
    volumes = [(each, each.find(request.bucket, key)) for each in held]
    return Neighbours(request.bucket, folder, MAX_KEY_BYTES - len(folder), tuple(volumes))
