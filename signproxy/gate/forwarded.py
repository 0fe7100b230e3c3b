"""Name what the gate says of a request to the S3 listener."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from signproxy.errors import Reason
from signproxy.model import Allow, Authority, Deny
from signproxy.s3.forwarded import Forwardable
from signproxy.s3.storage import Storage


class RefusedKey(NamedTuple):
    """A key of a bulk delete that the caller may not delete."""

    key: str
    reason: Reason


class Passed(msgspec.Struct, frozen=True, gc=False):
    """A request that may be forwarded, and as what."""

    allow: Allow
    forwardable: Forwardable
    """Of a bulk delete with refused keys: the request for the others alone."""
    refused: tuple[RefusedKey, ...] = ()
    observed: Deny | None = None
    """What would have been refused, were the caller not only observed."""


class StoreBucket(NamedTuple):
    """A bucket that a store told of."""

    name: str
    storage: Storage
    created: str = ""
    """When it was made, in the store's own words; empty where it does not say."""


class BucketsShown(msgspec.Struct, frozen=True, gc=False):
    """The answer to a list of buckets."""

    names: tuple[str, ...]
    created: tuple[str, ...]
    """When each was made: what the store said where it was asked, else the time since which the policy lists it."""
    prefix: str | None = None
    """What was asked for, where something was."""
    next_token: str = ""
    """Where the next part of the list goes on; empty at its end."""
    unlisted: tuple[Storage, ...] = ()
    """Storages that have to be asked first: of the buckets that clients make, the policy knows no names."""


class Together(msgspec.Struct, frozen=True, gc=False):
    """What stands behind a request for which several things had to be allowed: a copy, a bulk delete."""

    authorities: tuple[Authority, ...]

    @property
    def rule_id(self) -> str:
        """Every rule once, joined by `+`."""
        rules = "+".join(authority.rule_id for authority in self.authorities)
        return "+".join(dict.fromkeys(rules.split("+")))


class Observed(msgspec.Struct, frozen=True, gc=False):
    """What stands behind a request that the policy refuses and that is served all the same."""

    principal: str

    @property
    def rule_id(self) -> str:
        """The principal, whose mode it is."""
        return f"observe@principal:{self.principal}"
